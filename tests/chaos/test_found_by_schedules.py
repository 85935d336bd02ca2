"""What schedules of real processes once found broken, played in one process; each test names the seed and number."""

import pytest

from knowledge.model.jobs import JobStatus
from knowledge.model.status import ItemStatus


@pytest.fixture
def base(house):
    return house.base()


@pytest.fixture
def shut(house, base):
    """Shuts and opens the folder of the base's index. A loop of links shuts out root as well, which file modes do not."""
    folder = house.rt.files.index_folder(base.id)
    aside = folder.with_name("aside")

    def shut(is_shut):
        if is_shut:
            folder.rename(aside)
            folder.symlink_to(folder.name)
        else:
            folder.unlink()
            aside.rename(folder)

    return shut


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
    """3:75, what would have come of it: an index that cannot be looked at counted as gone, and its items as lost."""
    done, doomed = house.notes(base, "The lighthouse has a lamp.", "The fog signal sounds.")
    house.work()
    house.service.delete_items(base.id, [doomed.id])
    shut(True)
    house.deliver(house.sender.waiting.popleft())
    shut(False)
    house.work(hurry=True)

    assert (ItemStatus.COMPLETED, False) == (house.item(done).status, house.exists(doomed))
    assert [done.id] == [hit.item_id for hit in house.service.search(base.id, "lighthouse").hits]
