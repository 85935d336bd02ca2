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
