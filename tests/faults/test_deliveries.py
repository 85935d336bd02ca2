"""Messages that come twice, at once or late, and jobs longer than the broker's visibility timeout: effects once."""

import time

from knowledge.model.jobs import JobStatus, JobType
from knowledge.model.status import ItemStatus
from tests.faults.gates import Moment
from tests.faults.promises import assert_promises
from tests.fleet import BATCH_TEXTS, WORKERS, paragraphs
from tests.waiting import eventually

#: a message that waits here for long was not lost: only ours come twice, and can be counted
SETTINGS = {"KNOWLEDGE_VISIBILITY_TIMEOUT_SECONDS": "5", "KNOWLEDGE_REPUBLISH_SECONDS": "600"}
LONG_SECONDS = 12.0


def runs(fleet, job):
    """How often a job was run, by the log, which is written a moment after the rows."""

    def count():
        return sum(fleet.log(name).count(f"job ran  job={job.id}") for name in WORKERS)

    eventually(count, "the log tells of the run")
    return count()


def dropped(fleet, job):
    """How many messages of a job were dropped, by the log."""
    return sum(fleet.log(name).count(f"message dropped  job={job.id}") for name in WORKERS)


def test_message_doubled_while_its_job_runs(fleet, base):
    """The other slot gets the same message and drops it: the job runs once and pays once."""
    fleet.embedder.behave({"behaviour": "gate"})
    note = fleet.add_note(base, *paragraphs(3))
    fleet.wait_until_embedding(note)
    job = fleet.job_of(note)
    fleet.deliver(job, 3)
    eventually(lambda: dropped(fleet, job) >= 3, "every copy is dropped")
    fleet.let_go()

    assert ItemStatus.COMPLETED == fleet.settled(note).status
    assert ([1, 1, 1], 1) == (list(fleet.embedder.sent().values()), runs(fleet, job))
    assert_promises(fleet)


def test_message_doubled_before_its_job_runs(fleet, base):
    """Ten copies that reach both slots at the same time give one run."""
    fleet.embedder.behave({"behaviour": "gate"})
    blockers = [fleet.add_note(base, *paragraphs(1)) for _ in range(2)]
    fleet.embedder.wait_until_held(2)
    note = fleet.add_note(base, *paragraphs(2))
    job = fleet.job_of(note)
    fleet.deliver(job, 10)
    fleet.let_go()

    assert [ItemStatus.COMPLETED] * 3 == [fleet.settled(item).status for item in (*blockers, note)]
    eventually(lambda: dropped(fleet, job) == 10, "every copy is dropped")
    assert ({1}, 1) == (set(fleet.embedder.sent().values()), runs(fleet, job))
    assert_promises(fleet)


def test_message_that_comes_after_the_end(fleet, base):
    """A late copy finds a closed row: nothing runs, nothing is sent."""
    note = fleet.add_note(base, *paragraphs(2))
    fleet.settled(note)
    job, sent = fleet.job_of(note), fleet.embedder.sent()
    fleet.deliver(job, 3)
    eventually(lambda: dropped(fleet, job) == 3, "every copy is dropped")

    assert (sent, 1) == (fleet.embedder.sent(), runs(fleet, job))
    assert_promises(fleet)


def test_delete_message_doubled_while_it_runs(fleet, base, gate):
    """The second copy of a delete is dropped while the first holds the base."""
    note = fleet.add_note(base, *paragraphs(2))
    fleet.settled(note)
    gate(Moment.REMOVING_FILES).arm()
    fleet.delete(base, note)
    gate(Moment.REMOVING_FILES).wait()
    job = fleet.jobs(JobStatus.RUNNING, type=JobType.DELETE_SUBTREE)[0]
    fleet.deliver(job, 3)
    eventually(lambda: dropped(fleet, job) == 3, "every copy is dropped")
    gate(Moment.REMOVING_FILES).open()

    fleet.gone(note)
    assert 1 == runs(fleet, job)
    assert_promises(fleet)


def test_job_longer_than_the_visibility_timeout_has_its_effects_once(fleet, base):
    """The broker hands a job of 12 s out again after 5 s, and after 5 s more: both copies are dropped."""
    fleet.embedder.behave({"behaviour": "gate", "skip": 1})
    note = fleet.add_note(base, *paragraphs(BATCH_TEXTS + 1))
    fleet.wait_until_embedding(note)
    job, began = fleet.job_of(note), time.monotonic()
    eventually(lambda: fleet.redeliver_overdue() or dropped(fleet, job), "the broker, or a worker, finds the message overdue")
    eventually(lambda: dropped(fleet, job) == 1, "the copy is dropped")
    fleet.deliver(job)  # the dropped copy took the broker's own record along, so a second one has to come from here
    eventually(lambda: dropped(fleet, job) == 2, "the second copy is dropped")
    eventually(lambda: time.monotonic() - began > LONG_SECONDS, "the job has lasted 12 s")
    assert JobStatus.RUNNING == fleet.job(job).status
    fleet.let_go()

    assert ItemStatus.COMPLETED == fleet.settled(note).status
    assert ([1] * (BATCH_TEXTS + 1), 1) == (list(fleet.embedder.sent().values()), runs(fleet, job))
    assert_promises(fleet)
