"""What waiting makes of counts: exit codes and percent."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from knowledge.errors import ItemNotFound, Unavailable
from knowledge.interfaces.cli import ExitCode
from knowledge.interfaces.cli.progress import Silence, describe
from knowledge.interfaces.cli.wait import NO_BROKER, NO_WORKER, Ended, Outcome, missing_hands, until_settled
from knowledge.model.ids import BaseId, JobId
from knowledge.model.jobs import Job, JobStatus, JobType
from knowledge.model.results import StatusCounts
from knowledge.model.status import ItemStatus

COMPLETED, FAILED, READING = ItemStatus.COMPLETED, ItemStatus.FAILED, ItemStatus.READING
PREPARING, DELETING = ItemStatus.PREPARING, ItemStatus.DELETING


@pytest.mark.parametrize(
    ("expected", "leaves", "containers"),
    [
        (ExitCode.OK, {COMPLETED: 3}, {COMPLETED: 1}),
        (ExitCode.OK, {}, {}),
        (ExitCode.PARTIAL, {COMPLETED: 2, FAILED: 1}, {FAILED: 1}),
        (ExitCode.FAILED, {FAILED: 2}, {}),
        (ExitCode.FAILED, {}, {FAILED: 1}),
        (ExitCode.PARTIAL, {COMPLETED: 5}, {FAILED: 1, COMPLETED: 1}),
    ],
)
def test_exit_code_of_settled_work(expected, leaves, containers):
    """0 all completed, 1 nothing but failures, 3 some of each; a directory that failed by itself counts."""
    waited = Ended(StatusCounts(leaves, containers), (), 1.0)

    assert expected is waited.exit_code


def test_exit_code_of_unfinished_work():
    """A time that ran out is a failure; Ctrl-C has its own code."""
    counts = StatusCounts({READING: 1, COMPLETED: 1}, {})

    assert ExitCode.FAILED is Ended(counts, (), 1.0, outcome=Outcome.TIMED_OUT).exit_code
    assert ExitCode.STOPPED is Ended(counts, (), 1.0, outcome=Outcome.STOPPED).exit_code


def test_counts_in_words():
    """What is done comes first; directories are counted only while something happens to them itself."""
    counts = StatusCounts({READING: 1, FAILED: 2, COMPLETED: 8}, {PREPARING: 1, ItemStatus.PROCESSING: 3})

    assert "8 completed, 2 failed, 1 preparing, 1 reading" == describe(counts)


def test_a_directory_that_failed_by_itself_is_counted():
    """Otherwise nothing would be said of it at all."""
    assert "1 failed" == describe(StatusCounts({}, {FAILED: 1}))


class Polled:
    """A service whose counts are these, one after the other; an error among them is raised."""

    def __init__(self, *steps, left=()):
        self.steps = list(steps)
        self.left = left
        self.job = lambda job_id: job(JobStatus.COMPLETED)

    def status_counts(self, base_id, roots):
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    def item(self, item_id):
        if item_id not in self.left:
            raise ItemNotFound

    def failures(self, base_id, roots):
        return ()


BASE = SimpleNamespace(id="b", shard="main")
TWO_READING = StatusCounts({READING: 2}, {})


def waited_for(service, **more):
    return until_settled(service, BASE, ["i", "j"], Silence(), rest=lambda seconds: None, **more)


def test_work_that_was_deleted_meanwhile_is_not_done():
    """One of two is gone: some of it did not happen; both: none of it."""
    some = waited_for(Polled(TWO_READING, StatusCounts({COMPLETED: 1}, {})))
    none = waited_for(Polled(TWO_READING, StatusCounts({}, {})))

    assert (1, ExitCode.PARTIAL) == (some.gone, some.exit_code)
    assert (2, ExitCode.FAILED) == (none.gone, none.exit_code)


def test_what_vanishes_by_a_delete_or_a_reindex_is_as_it_should_be():
    """A delete leaves nothing; a reindex drops files that have left the folder, while its roots stay."""
    deleted = waited_for(Polled(StatusCounts({DELETING: 2}, {}), StatusCounts({}, {})), deleting=True)
    followed = waited_for(Polled(TWO_READING, StatusCounts({COMPLETED: 1}, {}), left=("i", "j")), job_id=JobId("j"))
    lost = waited_for(Polled(TWO_READING, StatusCounts({COMPLETED: 1}, {}), left=("i",)), job_id=JobId("j"))

    assert [ExitCode.OK, ExitCode.OK, ExitCode.PARTIAL] == [deleted.exit_code, followed.exit_code, lost.exit_code]


def test_what_keeps_work_from_starting_is_said_once():
    """Neither each poll nor the receipt's own word on it makes it come again."""
    said = []
    reporter = SimpleNamespace(update=lambda counts, share: None, say=said.append)
    busy, done = Unavailable("busy"), StatusCounts({COMPLETED: 2}, {})

    until_settled(Polled(busy, busy, done), BASE, ["i"], reporter, rest=lambda seconds: None)
    until_settled(Polled(busy, busy, done), BASE, ["i"], reporter, told="busy", rest=lambda seconds: None)

    assert ["busy"] == said


@pytest.mark.parametrize(
    ("expected", "published", "workers"),
    [
        (NO_BROKER, False, [["knowledge.main", "knowledge.main.control"]]),
        (NO_WORKER, True, []),
        (None, True, [["knowledge.main"], ["knowledge.main.control", "knowledge.upkeep"]]),
        ("no running worker reads knowledge.main.control: start one for the shard main", True, [["knowledge.main"]]),
        (
            "no running worker reads knowledge.main and knowledge.main.control: start one for the shard main",
            True,
            [["knowledge.other", "knowledge.other.control"]],
        ),
    ],
)
def test_hands_are_missing_where_nobody_reads_the_queues_of_the_shard(expected, published, workers):
    """A worker of another shard, or of another kind of job, is no help."""
    alive = [SimpleNamespace(is_alive=True, queues=queues) for queues in workers]
    gone = SimpleNamespace(is_alive=False, queues=["knowledge.main", "knowledge.main.control"])

    assert expected == missing_hands(SimpleNamespace(workers=lambda: [*alive, gone]), BASE, published=published)


def job(status):
    now = datetime.now(UTC)
    return Job(JobId("j"), JobType.REINDEX_SUBTREE, BaseId("b"), "main", (), status, 0, 0, 0, None, now, now)


@pytest.mark.parametrize("status", [JobStatus.FAILED, JobStatus.CANCELLED])
def test_a_reindex_that_did_not_happen_is_a_failure(status):
    """The items are as they were, which must not look like success."""
    assert ExitCode.FAILED is Ended(StatusCounts({COMPLETED: 3}, {}), (), 1.0, job(status)).exit_code


def test_waiting_for_a_reindex_begins_before_its_job_does():
    """While the job has not ended the items are settled, but as they were; only what follows it counts."""
    steps = iter([(JobStatus.PENDING, COMPLETED), (JobStatus.COMPLETED, READING), (JobStatus.COMPLETED, FAILED)])
    now = [None]

    class Service:
        def job(self, job_id):
            now[0] = next(steps)
            return job(now[0][0])

        def status_counts(self, base_id, roots):
            return StatusCounts({now[0][1]: 1}, {})

        def failures(self, base_id, roots):
            return ["the one that failed"]

    waited = until_settled(Service(), SimpleNamespace(id="b"), ["i"], Silence(), job_id=JobId("j"), rest=lambda seconds: None)

    assert ({FAILED: 1}, ["the one that failed"]) == (waited.counts.leaves, waited.failures)
