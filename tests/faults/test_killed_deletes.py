"""kill -9 of a process in the middle of a delete, and deletes that meet running work: they converge by themselves."""

import threading

import pytest

from knowledge.model.jobs import JobStatus, JobType
from knowledge.model.status import ItemStatus
from tests.faults.gates import Moment
from tests.faults.promises import assert_promises
from tests.fleet import BATCH_TEXTS, Blow, paragraphs
from tests.waiting import eventually


@pytest.fixture
def filled(fleet, base, tmp_path):
    """A base with notes and a directory, all of it indexed."""
    folder = tmp_path / "papers" / "inner"
    folder.mkdir(parents=True)
    for number, text in enumerate(paragraphs(6)):
        (folder / f"{number}.md").write_text(text)
    found = [fleet.add_note(base, *paragraphs(2)) for _ in range(3)] + [fleet.add_directory(base, tmp_path / "papers")]
    assert {ItemStatus.COMPLETED} == {fleet.settled(item_id).status for item_id in found}
    return found


@pytest.mark.parametrize("blow", [Blow.KILL_CHILD, Blow.KILL_WORKER])
@pytest.mark.parametrize("moment", [Moment.REMOVING_MATERIAL, Moment.REMOVING_FILES, Moment.REMOVING_ROWS])
def test_killed_delete_finishes_by_itself(fleet, base, filled, gate, moment, blow):
    """What is being deleted is never found again, also while it is half gone; in the end no row, file or vector is left."""
    gate(moment).arm()
    fleet.delete_all(base)
    pid = gate(moment).wait()
    assert set() == fleet.search(base, "lighthouse lamp") & fleet.deleted[base.id]
    fleet.strike(blow, pid)

    fleet.gone(*filled)
    assert 1 == fleet.jobs(type=JobType.DELETE_SUBTREE, base=base)[0].losses
    assert_promises(fleet)


def test_delete_killed_again_and_again_still_finishes(fleet, base, filled, gate):
    """Losses are counted, waited for a little longer each time, and never end a delete."""
    gate(Moment.REMOVING_ROWS).arm()
    fleet.delete_all(base)
    for _ in range(2):
        fleet.strike(Blow.KILL_CHILD, gate(Moment.REMOVING_ROWS).wait())
        gate(Moment.REMOVING_ROWS).arm()  # afterwards, because it lets go whoever is held
    gate(Moment.REMOVING_ROWS).wait()
    gate(Moment.REMOVING_ROWS).open()

    fleet.gone(*filled)
    assert 2 == fleet.jobs(type=JobType.DELETE_SUBTREE, base=base)[0].losses
    assert_promises(fleet)


def test_delete_of_a_note_that_is_being_embedded_stops_the_spending(fleet, base):
    """The request in flight is the last one that is paid for."""
    fleet.embedder.behave({"behaviour": "gate"})
    note = fleet.add_note(base, *paragraphs(3 * BATCH_TEXTS))
    fleet.wait_until_embedding(note)
    fleet.delete(base, note)
    fleet.let_go()
    fleet.gone(note)

    assert BATCH_TEXTS == len(fleet.embedder.sent())
    assert_promises(fleet)


def test_worker_killed_while_a_delete_waits_for_it(fleet, base):
    """The delete goes on as soon as the job that it waited for is known to be lost."""
    fleet.embedder.behave({"behaviour": "gate"})
    note = fleet.add_note(base, *paragraphs(3))
    pid = fleet.wait_until_embedding(note)
    fleet.delete(base, note)
    fleet.strike(Blow.KILL_WORKER, pid)

    fleet.gone(note)
    assert JobStatus.CANCELLED == fleet.jobs(type=JobType.INDEX_DOCUMENTS, base=base)[0].status
    assert_promises(fleet)


def test_job_that_does_not_stop_is_cut_off_and_its_late_writes_are_refused(fleet, base, gate):
    """A hanging reader delays a delete by the settle time only; when it comes back, nothing it does is kept."""
    gate(Moment.READING).arm()
    note = fleet.add_note(base, *paragraphs(3))
    gate(Moment.READING).wait()
    fleet.delete(base, note)
    fleet.gone(note)
    gate(Moment.READING).open()
    eventually(lambda: "run no longer owns its job" in fleet.log("index"), "the late run gives up")

    assert {} == fleet.embedder.sent()
    assert_promises(fleet)


def test_delete_that_races_a_commit_comes_after_it(fleet, base, gate):
    """A delete asked for while the index commit is open waits for it, then removes what it wrote."""
    gate(Moment.INSIDE_COMMIT).arm()
    note = fleet.add_note(base, *paragraphs(3))
    gate(Moment.INSIDE_COMMIT).wait()
    caller = threading.Thread(target=fleet.delete, args=(base, note))
    caller.start()
    gate(Moment.INSIDE_COMMIT).open()
    caller.join()

    fleet.gone(note)
    assert_promises(fleet)
