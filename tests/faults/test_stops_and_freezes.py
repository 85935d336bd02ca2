"""Workers that are asked to stop, and workers that stand still for longer than their lease."""

import pytest

from knowledge.model.jobs import JobStatus, JobType
from knowledge.model.status import ItemStatus
from tests.faults.gates import Moment
from tests.faults.promises import assert_promises
from tests.fleet import BATCH_TEXTS, Blow, paragraphs
from tests.waiting import eventually

SETTINGS = {"KNOWLEDGE_DRAIN_SECONDS": "4"}  #: a short job must end within it, however busy the machine is


def test_stop_lets_running_jobs_finish_and_loses_nothing(fleet, base):
    """SIGTERM with a backlog: what runs ends, the rest waits for the next worker; each text is sent once."""
    fleet.embedder.behave({"behaviour": "delay", "seconds": 0.3})
    notes = [fleet.add_note(base, *paragraphs(2)) for _ in range(14)]
    fleet.embedder.wait_until_called(2)
    fleet.strike(Blow.STOP_WORKER)

    assert {ItemStatus.COMPLETED} == {fleet.settled(note).status for note in notes}
    assert {1} == set(fleet.embedder.sent().values())
    assert_promises(fleet)


def test_job_that_outlasts_the_drain_is_parked_at_its_next_checkpoint(fleet, base):
    """The answer in flight is kept, no further request leaves, the item says why, and the worker ends in order."""
    fleet.embedder.behave({"behaviour": "gate"})
    note = fleet.add_note(base, *paragraphs(3 * BATCH_TEXTS))
    fleet.wait_until_embedding(note)
    job = fleet.job_of(note)
    worker = fleet.begin_stop("index")
    eventually(lambda: fleet.drain_is_over(job), "the drain time is over")
    fleet.let_go()
    eventually(lambda: worker.poll() is not None, "the worker ends")
    fleet.launch("index")
    item = fleet.settled(note)

    assert ("indexing_interrupted", "drained") == (item.error, item.error_detail.get("reason"))
    assert BATCH_TEXTS == len(fleet.embedder.sent())
    assert_promises(fleet)


def test_delete_that_meets_a_stop_goes_on_elsewhere(fleet, base, gate):
    """A control worker that stops in the middle of a delete leaves it to the next one."""
    note = fleet.add_note(base, *paragraphs(2))
    fleet.settled(note)
    gate(Moment.REMOVING_FILES).arm()
    fleet.delete(base, note)
    gate(Moment.REMOVING_FILES).wait()
    job = fleet.jobs(JobStatus.RUNNING, type=JobType.DELETE_SUBTREE)[0]
    worker = fleet.begin_stop("control")
    eventually(lambda: fleet.drain_is_over(job), "the drain time is over")
    gate(Moment.REMOVING_FILES).open()
    eventually(lambda: worker.poll() is not None, "the worker ends")
    fleet.launch("control")

    fleet.gone(note)
    assert_promises(fleet)


@pytest.mark.parametrize("moment", [Moment.READ, Moment.EMBEDDING])
def test_late_writes_of_a_frozen_worker_are_refused(fleet, base, gate, moment):
    """A worker that stood still beyond its lease finds its job taken: it writes nothing and pays for nothing more."""
    fleet.embedder.behave({"behaviour": "gate"})
    gate(Moment.READ).arm() if moment is Moment.READ else None
    note = fleet.add_note(base, *paragraphs(3 * BATCH_TEXTS))
    pid = gate(moment).wait() if moment is Moment.READ else fleet.wait_until_embedding(note)
    with fleet.frozen(pid):
        parked = fleet.settled(note)
        fleet.let_go()
    eventually(lambda: f"run no longer owns its job  job={fleet.job_of(note).id}" in fleet.log("index"), "the run gives up")

    assert "indexing_interrupted" == parked.error
    assert (parked.status, parked.updated_at) == (fleet.service.item(note).status, fleet.service.item(note).updated_at)
    assert {Moment.READ: 0, Moment.EMBEDDING: BATCH_TEXTS}[moment] == len(fleet.embedder.sent())
    assert_promises(fleet)


def test_worker_frozen_inside_its_commit_keeps_what_is_its_own(fleet, base, gate):
    """Nobody takes a job from a worker that holds the base lock: when it goes on, its commit is whole."""
    gate(Moment.INSIDE_COMMIT).arm()
    note = fleet.add_note(base, *paragraphs(3))
    pid = gate(Moment.INSIDE_COMMIT).wait()
    with fleet.frozen(pid):
        eventually(lambda: fleet.lease_is_over(fleet.job_of(note)), "the lease is over")
        swept = fleet.sweeps()
        eventually(lambda: fleet.sweeps() >= swept + 2, "two sweeps have looked at it")
        gate(Moment.INSIDE_COMMIT).open()

    assert ItemStatus.COMPLETED == fleet.settled(note).status
    assert_promises(fleet)


def test_frozen_control_worker_does_not_lose_a_delete(fleet, base, gate):
    """A delete whose worker stood still beyond its lease is done in the end, by whoever has it then."""
    note = fleet.add_note(base, *paragraphs(2))
    fleet.settled(note)
    gate(Moment.REMOVING_FILES).arm()
    fleet.delete(base, note)
    pid = gate(Moment.REMOVING_FILES).wait()
    job = fleet.jobs(JobStatus.RUNNING, type=JobType.DELETE_SUBTREE)[0]
    with fleet.frozen(pid):
        eventually(lambda: fleet.lease_is_over(job), "the lease is over")
        gate(Moment.REMOVING_FILES).open()

    fleet.gone(note)
    assert_promises(fleet)
