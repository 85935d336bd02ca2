"""Waiting until accepted work has settled: the loop, without a word about how it is shown."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

from knowledge.errors import ItemNotFound, JobNotFound, Unavailable
from knowledge.interfaces.cli.exits import ExitCode
from knowledge.model.ids import ItemId, JobId
from knowledge.model.jobs import ACTIVE_JOB, Job, JobStatus
from knowledge.model.results import StatusCounts
from knowledge.model.status import ItemStatus
from knowledge.model.views import Base, Item

if TYPE_CHECKING:
    from knowledge.service import KnowledgeService

POLL_SECONDS: Final = 0.25
POLL_SHARE: Final = (
    5  #: a poll that took t seconds is followed by at least 5 t of rest, so that big trees are not asked to death
)
LOOK_SECONDS: Final = 5.0  #: without any change for so long, look whether somebody is there to do the work

NO_WORKER: Final = "no worker is running: start one with `make up`"
NO_BROKER: Final = "the broker does not answer: the work waits in the ledger and starts when it is back"


class Outcome(StrEnum):
    SETTLED = "settled"
    TIMED_OUT = "timed_out"
    STOPPED = "stopped"  #: Ctrl-C


@dataclass(frozen=True, slots=True)
class Waited:
    outcome: Outcome
    counts: StatusCounts
    failures: Sequence[Item]
    seconds: float
    job: Job | None = None  #: of a reindex: one that did not complete has left its items as they were
    gone: int = 0  #: rows that somebody deleted meanwhile, at least so many; 0 of a delete

    @property
    def exit_code(self) -> ExitCode:
        if self.outcome is Outcome.STOPPED:
            return ExitCode.STOPPED
        if self.outcome is Outcome.TIMED_OUT or (self.job is not None and self.job.status is not JobStatus.COMPLETED):
            return ExitCode.FAILED
        failed = _number(self.counts, ItemStatus.FAILED)
        completed = self.counts.leaves.get(ItemStatus.COMPLETED, 0)
        if not failed and not self.gone:
            return ExitCode.OK
        return ExitCode.PARTIAL if completed else ExitCode.FAILED


class Reporter(Protocol):
    """Shows how far the work is while it is being waited for."""

    def update(self, counts: StatusCounts, share: float) -> None:
        """`share` is the part of the work that is done, 0..1."""
        ...

    def say(self, text: str) -> None: ...


def until_settled(
    service: "KnowledgeService",
    base: Base,
    roots: Sequence[ItemId],
    reporter: Reporter,
    *,
    job_id: JobId | None = None,
    deleting: bool = False,
    told: str | None = None,
    timeout_seconds: float | None = None,
    rest: Callable[[float], None] = time.sleep,
) -> Waited:
    """Poll the catalogue until nothing of these subtrees is being worked on, the time is over, or Ctrl-C.

    Args:
        job_id: of a reindex, which changes no status before it has the sources; must have ended as well.
        deleting: nothing is expected to be left.
        told: what the person has read already of why the work does not start.
    """
    began = time.monotonic()
    counts = StatusCounts(leaves={}, containers={})
    outcome = Outcome.SETTLED
    watch = _Watch(service, base, reporter, told)
    most = 0
    job: Job | None = None
    try:
        while True:
            asked = time.monotonic()
            try:
                job = _job(service, job_id)  # before the counts: work that it starts must be seen in them
                counts = service.status_counts(base.id, roots)
            except Unavailable as busy:  # the work goes on meanwhile; so does the waiting
                watch.say(str(busy))
            else:
                most = max(most, counts.total)
                has_begun = job is None or job.status not in ACTIVE_JOB
                reporter.update(counts, share_done(counts, most) if has_begun else 0.0)
                if counts.is_settled and has_begun:
                    break
            now = time.monotonic()
            if timeout_seconds is not None and now - began >= timeout_seconds:
                outcome = Outcome.TIMED_OUT
                break
            watch.look(counts)
            rest(max(POLL_SECONDS, POLL_SHARE * (now - asked)))
    except KeyboardInterrupt:
        outcome = Outcome.STOPPED
    seconds = time.monotonic() - began
    lost = most - counts.total
    gone = 0
    if outcome is Outcome.SETTLED and not deleting and lost > 0:
        gone = lost if job_id is None else _gone(service, roots)  # a reindex drops the files that are no longer there itself
    return Waited(outcome, counts, _failures(service, base, roots, counts), seconds, job, gone)


def share_done(counts: StatusCounts, most: int) -> float:
    """Part of the work that is done. Rows of a delete disappear as it proceeds, so they are measured by what is left."""
    deleting = _number(counts, ItemStatus.DELETING)
    if deleting:
        return 1 - counts.total / max(most, 1)
    if not counts.leaves and counts.containers.get(ItemStatus.FAILED):  # a directory that could not be read
        return 0.0
    return counts.work_done


def missing_hands(service: "KnowledgeService", base: Base, *, published: bool = True) -> str | None:
    """Why accepted work of this base does not start now, or None."""
    if not published:
        return NO_BROKER
    from knowledge.topology import control_queue, index_queue  # with kombu, which the help of a command need not load

    read = {queue for worker in service.workers() if worker.is_alive for queue in worker.queues}
    if not read:
        return NO_WORKER
    unread = [queue for queue in (index_queue(base.shard), control_queue(base.shard)) if queue not in read]
    return f"no running worker reads {' and '.join(unread)}: start one for the shard {base.shard}" if unread else None


class _Watch:
    """Says once, when nothing moves, that nobody is there to move it."""

    def __init__(self, service: "KnowledgeService", base: Base, reporter: Reporter, told: str | None) -> None:
        self.service = service
        self.base = base
        self.reporter = reporter
        self.seen: StatusCounts | None = None
        self.since = time.monotonic()
        self.said = told

    def look(self, counts: StatusCounts) -> None:
        now = time.monotonic()
        if counts != self.seen:
            self.seen, self.since = counts, now
            return
        if now - self.since < LOOK_SECONDS:
            return
        self.since = now
        try:
            reason = missing_hands(self.service, self.base, published=self.service.broker_answers())
        except Unavailable:
            return
        if reason:
            self.say(reason)
        else:
            self.said = None

    def say(self, text: str) -> None:
        """Tell it, unless it is what was told last."""
        if text != self.said:
            self.reporter.say(text)
        self.said = text


def _job(service: "KnowledgeService", job_id: JobId | None) -> Job | None:
    try:
        return service.job(job_id) if job_id else None
    except JobNotFound:  # it ended so long ago that its row is gone
        return None


def _gone(service: "KnowledgeService", roots: Sequence[ItemId]) -> int:
    gone = 0
    for root in roots:
        try:
            service.item(root)
        except ItemNotFound:
            gone += 1
    return gone


def _number(counts: StatusCounts, status: ItemStatus) -> int:
    return counts.leaves.get(status, 0) + counts.containers.get(status, 0)


def _failures(service: "KnowledgeService", base: Base, roots: Sequence[ItemId], counts: StatusCounts) -> Sequence[Item]:
    if not _number(counts, ItemStatus.FAILED):
        return ()
    return service.failures(base.id, roots)
