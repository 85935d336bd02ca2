"""What waiting makes of counts: exit codes and percent."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from knowledge.interfaces.cli import ExitCode
from knowledge.interfaces.cli.progress import Silence, describe
from knowledge.interfaces.cli.wait import Outcome, Waited, share_done, until_settled
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
    waited = Waited(Outcome.SETTLED, StatusCounts(leaves, containers), (), 1.0)

    assert expected is waited.exit_code


def test_exit_code_of_unfinished_work():
    """A time that ran out is a failure; Ctrl-C has its own code."""
    counts = StatusCounts({READING: 1, COMPLETED: 1}, {})

    assert ExitCode.FAILED is Waited(Outcome.TIMED_OUT, counts, (), 1.0).exit_code
    assert ExitCode.STOPPED is Waited(Outcome.STOPPED, counts, (), 1.0).exit_code


@pytest.mark.parametrize(
    ("expected", "counts", "most"),
    [
        (0.5, StatusCounts({COMPLETED: 1, FAILED: 1, READING: 2}, {}), 4),
        (0.0, StatusCounts({}, {PREPARING: 1}), 1),
        (0.75, StatusCounts({DELETING: 1}, {}), 4),
        (1.0, StatusCounts({}, {}), 4),
    ],
)
def test_percent_is_by_work_done(expected, counts, most):
    """Indexing counts leaves that ended; a delete counts rows that are gone; an unexpanded directory is no progress."""
    assert expected == share_done(counts, most)


def test_counts_in_words():
    """What is done comes first; directories are counted only while something happens to them itself."""
    counts = StatusCounts({READING: 1, FAILED: 2, COMPLETED: 8}, {PREPARING: 1, ItemStatus.PROCESSING: 3})

    assert "8 completed, 2 failed, 1 preparing, 1 reading" == describe(counts)


def job(status):
    now = datetime.now(UTC)
    return Job(JobId("j"), JobType.REINDEX_SUBTREE, BaseId("b"), "main", (), status, 0, 0, 0, None, now, now)


@pytest.mark.parametrize("status", [JobStatus.FAILED, JobStatus.CANCELLED])
def test_a_reindex_that_did_not_happen_is_a_failure(status):
    """The items are as they were, which must not look like success."""
    assert ExitCode.FAILED is Waited(Outcome.SETTLED, StatusCounts({COMPLETED: 3}, {}), (), 1.0, job(status)).exit_code


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
