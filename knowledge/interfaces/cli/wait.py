"""Waiting for accepted work: the loop, without a word about how it is shown."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

from knowledge.errors import ItemNotFound, Unavailable
from knowledge.interfaces.cli.exits import ExitCode
from knowledge.model.ids import ItemId, JobId
from knowledge.model.jobs import JobStatus
from knowledge.model.results import StatusCounts, Waited
from knowledge.model.status import ItemStatus
from knowledge.model.views import Base, Item
from knowledge.settling import Settling, number

if TYPE_CHECKING:
    from knowledge.service import KnowledgeService

DELAY_SECONDS: Final = 30.0  #: a shorter one is none that people want to hear of
JOBS_LOOKED_AT: Final = 1000
LOOK_SECONDS: Final = 5.0  #: without any change for so long, look whether somebody is there to do the work

NO_WORKER: Final = "no worker is running: start one with `make up`"
NO_BROKER: Final = "the broker does not answer: the work waits in the ledger and starts when it is back"


class Outcome(StrEnum):
    SETTLED = "settled"
    TIMED_OUT = "timed_out"
    STOPPED = "stopped"  #: Ctrl-C


@dataclass(frozen=True, slots=True)
class Ended(Waited):
    """How waiting ended, settled or not."""

    outcome: Outcome = Outcome.SETTLED

    @property
    def exit_code(self) -> ExitCode:
        if self.outcome is Outcome.STOPPED:
            return ExitCode.STOPPED
        if self.outcome is Outcome.TIMED_OUT or (self.job is not None and self.job.status is not JobStatus.COMPLETED):
            return ExitCode.FAILED
        if not number(self.counts, ItemStatus.FAILED) and not self.gone:
            return ExitCode.OK
        return ExitCode.PARTIAL if self.counts.leaves.get(ItemStatus.COMPLETED, 0) else ExitCode.FAILED


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
) -> Ended:
    """Poll the catalogue until nothing of these subtrees is being worked on, the time is over, or Ctrl-C.

    Args:
        job_id: of a reindex, which changes no status before it has the sources; must have ended as well.
        deleting: nothing is expected to be left.
        told: what the person has read already of why the work does not start.
    """
    began = time.monotonic()
    work = Settling(service, base.id, roots, job_id=job_id, deleting=deleting)
    outcome, gone = Outcome.SETTLED, 0
    failures: Sequence[Item] = ()
    watch = _Watch(service, base, reporter, told)
    try:
        while True:
            try:
                is_settled = work.look()
                reporter.update(work.counts, work.share)
                if is_settled:
                    gone, failures = work.gone(), work.failures()
                    break
            except Unavailable as busy:  # the work goes on meanwhile; so does the waiting
                watch.say(str(busy))
            if timeout_seconds is not None and time.monotonic() - began >= timeout_seconds:
                outcome = Outcome.TIMED_OUT
                break
            watch.look(work.counts)
            rest(work.rest_seconds)
    except KeyboardInterrupt:
        outcome = Outcome.STOPPED
    if outcome is not Outcome.SETTLED:
        with suppress(Unavailable):
            failures = work.failures()
    return Ended(work.counts, failures, time.monotonic() - began, work.job, gone, outcome)


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


def next_delayed(service: "KnowledgeService", base: Base) -> str | None:
    """What goes on first, and why not now, where all that waits in this base has been put off for longer; else None."""
    later = datetime.now(UTC) + timedelta(seconds=DELAY_SECONDS)
    found = service.list_jobs(base_id=base.id, statuses=[JobStatus.PENDING], limit=JOBS_LOOKED_AT).jobs
    waiting = [job for job in found if job.after is None]
    if not waiting or not all(job.error and job.scheduled_at > later for job in waiting):
        return None
    why = service.why(min(waiting, key=lambda job: job.scheduled_at).item_ids[0])
    return f"{why.item.name}: {why.explanation}"


class _Watch:
    """Says once, when nothing moves, what keeps it from moving."""

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
            reason = reason or next_delayed(self.service, self.base)
        except (Unavailable, ItemNotFound):  # it is looked at again
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
