"""Blows while a scan is read: to the process that reads, to the workers that look after it, to the broker; and deletes."""

import os
import signal
from pathlib import Path

import pytest

from knowledge.db.columns import utc_now
from knowledge.model.inputs import FileInput, NoteInput
from knowledge.model.jobs import JobStatus, JobType
from knowledge.model.status import ItemStatus
from tests.faults.promises import assert_promises
from tests.fleet import Blow
from tests.processes import is_over
from tests.scans import scan
from tests.waiting import eventually

PROGRAMS = Path(__file__).parent / "programs"
SETTINGS = {
    "PATH": f"{PROGRAMS}:{os.environ['PATH']}",  # a tesseract that can be held
    "KNOWLEDGE_CONVERSION_POLL_SECONDS": "0.3",
}
CHECK = JobType.CHECK_FILE_PROCESSING_RESULT
TEXT = "The lighthouse has a lamp\nand a keeper."


@pytest.fixture
def held(fleet, base, tmp_path):
    """An item whose first page is being read, and does not end: (item id, process id)."""
    return hold(fleet, base, tmp_path / "scan.pdf")


@pytest.fixture
def free(fleet):
    """A base whose embedder costs nothing: what waits there survives a boot."""
    return fleet.new_base("free", paid=False)


def hold(fleet, base, path):
    fleet.gates.mkdir(exist_ok=True)
    (fleet.gates / "ocr.armed").touch()
    (item,) = fleet.add(base, FileInput(path=scan(path, TEXT, TEXT)))
    eventually((fleet.gates / "ocr.held").exists, "a page is being read")
    eventually(lambda: "ticket" in check_of(fleet, item).progress, "the look is written down")
    return item, check_of(fleet, item).progress["ticket"]["pid"]


def check_of(fleet, item):
    return fleet.job_of(item, CHECK)


def owner_since(fleet, item, since):
    """The process of a look that has begun since then, when the result was there, and cannot place it; 0 if there is none."""
    check = check_of(fleet, item)
    return check.owner.pid if check.status is JobStatus.RUNNING and check.started_at > since else 0


def conversions_of(fleet, item):
    """How often it was begun."""
    return sum(job.type is CHECK and item in job.item_ids for job in fleet.jobs())


def assert_nothing_is_left(fleet, base, pid):
    eventually(lambda: is_over(pid), "the process that reads is gone")
    eventually(lambda: not fleet.service.rt.files.work_folders(base.id), "its files are removed")


def test_killed_reading_process_is_parked(fleet, base, held):
    """A visible failure; it is not begun again by itself."""
    item, pid = held
    os.kill(pid, signal.SIGKILL)

    assert ("failed", "indexing_interrupted") == (fleet.settled(item).status, fleet.settled(item).error)
    assert 1 == conversions_of(fleet, item)
    assert_nothing_is_left(fleet, base, pid)
    assert_promises(fleet)


@pytest.mark.parametrize("blow", [Blow.KILL_WORKER, Blow.STOP_WORKER])
@pytest.mark.parametrize("worker", ["control", "index"])
def test_conversion_outlives_the_workers(fleet, base, held, blow, worker):
    """The process goes on by itself; the next look finds it. It is read once."""
    item, pid = held
    fleet.strike(blow, worker=worker)

    assert not is_over(pid)
    fleet.let_go()
    assert ItemStatus.COMPLETED is fleet.settled(item).status
    assert 1 == conversions_of(fleet, item)
    assert_nothing_is_left(fleet, base, pid)
    assert_promises(fleet)


def test_killed_look_parks_the_item_and_ends_the_process(fleet, base, held):
    """A look whose process dies is lost work: shown to a person, and nothing goes on behind it."""
    item, pid = held
    with fleet.service.rt.locks.base(base.id):
        (fleet.gates / "ocr.held").unlink()  # the result comes, and the look that finds it waits for the base
        eventually(lambda: is_over(pid), "the scan is read")
        since = utc_now()
        owner = eventually(lambda: owner_since(fleet, item, since), "a look waits with the result")
        fleet.strike(Blow.KILL_CHILD, owner)
        fleet.ended(owner)

    ended = fleet.settled(item)
    assert (ItemStatus.FAILED, "indexing_interrupted") == (ended.status, ended.error)
    assert 1 == conversions_of(fleet, item)
    assert_nothing_is_left(fleet, base, pid)
    assert_promises(fleet)


@pytest.mark.parametrize("blow", [Blow.KILL_BROKER, Blow.WIPE_BROKER, Blow.LOSE_MESSAGES, Blow.RESET_CONNECTIONS])
def test_broker_has_no_say(fleet, base, held, blow):
    """Whatever is lost or sent again, it is read once, and found."""
    item, pid = held
    fleet.strike(blow)
    fleet.let_go()

    assert ItemStatus.COMPLETED is fleet.settled(item).status
    assert 1 == conversions_of(fleet, item)
    assert {1, 2} == {hit.page for hit in fleet.service.search(base.id, "lighthouse keeper").hits if hit.item_id == item}
    assert_promises(fleet)


def test_delete_while_it_is_read(fleet, base, held):
    """Its process is ended, its files and rows are gone; nothing comes back."""
    item, pid = held
    fleet.delete(base, item)
    fleet.gone(item)

    assert_nothing_is_left(fleet, base, pid)
    assert_promises(fleet)


def test_delete_of_the_base_while_it_is_read(fleet, held, base):
    """The same for all of it."""
    _, pid = held
    fleet.service.delete_base(base.id)
    fleet.bases.remove(base)

    eventually(lambda: is_over(pid), "the process that reads is gone")
    assert not (fleet.settings.data_dir / "bases" / base.id).exists()
    fleet.new_base()
    assert_promises(fleet)


def test_everything_is_killed(fleet, free, tmp_path):
    """After a power cut of everything but the reading process, it is found again."""
    item, pid = hold(fleet, free, tmp_path / "scan.pdf")
    fleet.strike(Blow.KILL_ALL)

    assert not is_over(pid)
    fleet.let_go()
    assert ItemStatus.COMPLETED is fleet.settled(item).status
    assert_promises(fleet)


def test_boot_that_parks_a_conversion_ends_its_process(fleet, base, held):
    """A restart never silently spends: what waits in a base with a paid embedder is parked, and nobody waits for the scan."""
    item, pid = held
    fleet.strike(Blow.KILL_ALL)

    assert ("failed", "indexing_interrupted") == (fleet.settled(item).status, fleet.settled(item).error)
    assert_nothing_is_left(fleet, base, pid)
    assert_promises(fleet)


def test_one_that_never_ends_does_not_hold_the_others(fleet, base, held, tmp_path):
    """Notes, text and other scans of the same base are done meanwhile, and can be deleted."""
    item, _ = held
    other = scan(tmp_path / "other.pdf", TEXT)
    note, short = fleet.add(base, NoteInput(content="The lighthouse stands."), FileInput(path=other))

    assert [ItemStatus.COMPLETED] * 2 == [fleet.settled(one).status for one in (note, short)]
    fleet.delete(base, short)
    fleet.gone(short)
    assert ItemStatus.PROCESSING is fleet.item(item).status
    fleet.let_go()
    assert ItemStatus.COMPLETED is fleet.settled(item).status
    assert_promises(fleet)
