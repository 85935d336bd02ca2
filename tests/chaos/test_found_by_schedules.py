"""What schedules of real processes once found broken, played in one process; each test names the seed and number."""

import pytest

from knowledge.model.jobs import JobStatus
from knowledge.model.status import ItemStatus
from tests.modes import modes_bind_us


@pytest.fixture
def base(house):
    return house.base()


@pytest.fixture
def shut(house, base):
    """Shuts and opens the folder of the base's index."""
    folder = house.rt.files.index_folder(base.id)
    with modes_bind_us():
        yield lambda is_shut: folder.chmod(0 if is_shut else 0o700)
        folder.chmod(0o700)


def test_index_job_waits_for_a_folder_that_is_shut(house, base, shut):
    """3:75: the job failed for a fault of ours, `PermissionError in stat`."""
    (note,) = house.notes(base, "The lighthouse has a lamp.")
    shut(True)
    house.deliver(house.sender.waiting.popleft())
    job = house.job_of(note)
    assert (JobStatus.PENDING, "storage_failed") == (job.status, job.error)
    shut(False)
    house.work(hurry=True)

    assert ItemStatus.COMPLETED == house.item(note).status


def test_folder_that_is_shut_loses_no_index(house, base, shut):
    """3:75, and what would come of it where Python says that there is no such file: everything in it would be told as lost."""
    done, doomed = house.notes(base, "The lighthouse has a lamp.", "The fog signal sounds.")
    house.work()
    house.service.delete_items(base.id, [doomed.id])
    shut(True)
    house.deliver(house.sender.waiting.popleft())
    shut(False)
    house.work(hurry=True)

    assert (ItemStatus.COMPLETED, False) == (house.item(done).status, house.exists(doomed))
    assert [done.id] == [hit.item_id for hit in house.service.search(base.id, "lighthouse").hits]


@pytest.mark.parametrize("kind", ["note", "file"])
def test_copy_that_cannot_be_opened_is_read_later(house, base, tmp_path, kind):
    """3:75: a note failed for a fault of ours, a file for good: the disk's fault was taken for one of the source."""
    source = tmp_path / "lamp.md"
    source.write_text("The lighthouse has a lamp.")
    (item,) = house.notes(base, "The lighthouse has a lamp.") if kind == "note" else house.add(base, source)
    stored = house.rt.files.path(base.id, item.relative_path)
    stored.chmod(0)
    with modes_bind_us():
        house.deliver(house.sender.waiting.popleft())
    job = house.job_of(item)
    assert (JobStatus.PENDING, "storage_failed") == (job.status, job.error)
    stored.chmod(0o600)
    house.work(hurry=True)

    assert ItemStatus.COMPLETED == house.item(item).status
