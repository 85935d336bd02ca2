"""One run of a job: what its flow may ask while it works, and how the run ends.

A flow closes its row in the transaction that publishes its result. Whatever it raises is settled here, once, for every job:

    LeaseLost                nothing: somebody else owns the row now
    CancelRequested          row cancelled, active items parked
    Draining                 abandon: row cancelled, items parked · retry: put back
    PutBack                  put back, no attempt used up
    EmbedderSlowDown,        put back for as long as the provider or web server asks, no attempt used up
    FetchSlowDown
    BaseBusy, DatabaseBusy   put back for a moment, no attempt used up: somebody else's work is no fault of this job
    transient, unknown       put back with back-off; an abandon job fails at its third
    anything else            abandon: row failed, items parked with the error's code · retry: put back with back-off

A row that was asked to stop is never put back: it is cancelled, whatever else ended the run.
"""

import json
import logging
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Final

from knowledge import clock
from knowledge.catalog import jobs, status
from knowledge.db.columns import utc_now
from knowledge.db.engine import Tx
from knowledge.errors import (
    BaseBusy,
    CancelRequested,
    DatabaseBusy,
    Draining,
    EmbedderSlowDown,
    FetchSlowDown,
    KnowledgeError,
    LeaseLost,
    Stalled,
)
from knowledge.model.jobs import MAX_EXECUTIONS, STUCK_AFTER, STUCK_BACKOFF_SECONDS, Job, Recovery
from knowledge.model.status import INDEXING_INTERRUPTED
from knowledge.runtime import Runtime

log = logging.getLogger(__name__)

RENEWALS_PER_LEASE: Final = 6  #: five may be missed before the sweep takes the row
LOOK_SECONDS: Final = 1.0  #: how often a checkpoint reads the row, so that a cancel is seen within seconds
BUSY_DELAY_SECONDS: Final = 2.0
_MARGIN: Final = 0.1  #: share of the lease that is left unused: clocks and commits take time


class PutBack(Exception):
    """The flow is not finished and goes on in a later delivery; its row waits until then.

    Args:
        reason: a code that people see meanwhile, with its detail.
        progress: what the next run must find in the row instead of what is there.
    """

    def __init__(
        self,
        delay_seconds: float,
        reason: str | None = None,
        progress: Mapping[str, object] | None = None,
        /,
        **detail: object,
    ) -> None:
        super().__init__(delay_seconds)
        self.delay_seconds = delay_seconds
        self.reason = reason
        self.progress = progress
        self.detail = detail


class Run:
    """A claimed job in the hands of its flow. `renew` may be called from another thread."""

    def __init__(self, rt: Runtime, job: Job) -> None:
        self.rt = rt
        self.job = job
        self._progress: dict[str, object] = dict(job.progress)  # a check finds there what it has begun
        self._valid_until = clock.monotonic() + rt.options.lease_seconds * (1 - _MARGIN)
        self._looked_at = self.progressed_at = clock.monotonic()
        self._standing = jobs.Standing(is_ours=True)
        self._lock = threading.Lock()

    def checkpoint(self, *, look: bool = False) -> None:
        """Called between pages, before each paid request, before each commit.

        Args:
            look: read the row now instead of once a second: before a paid request, which nothing takes back.

        Raises:
            LeaseLost, CancelRequested, Draining, Stalled
        """
        now = clock.monotonic()
        if now - self.progressed_at > self.rt.options.stall_seconds:
            raise Stalled(job_id=self.job.id)
        self.progressed_at = now
        if look or now - self._looked_at >= LOOK_SECONDS:
            with self.rt.db.read() as tx:
                self._note(jobs.standing(tx, self.job))
        if not self._standing.is_ours or now >= self._valid_until:
            raise LeaseLost(job_id=self.job.id)
        if self._standing.cancel_requested:
            raise CancelRequested(job_id=self.job.id)
        if self._standing.drain_until and utc_now() >= self._standing.drain_until:
            raise Draining(job_id=self.job.id)

    def tell(self, stage: str, **numbers: int) -> None:
        """Progress for people; written with the next renewal, never the source of truth."""
        self._progress = {"stage": stage, **numbers}

    def keep(self, progress: Mapping[str, object], *, durable: bool = False) -> None:
        """The same for what a later run of this job must find there: written now.

        Args:
            durable: on the disk when this returns.

        Raises:
            LeaseLost. DatabaseBusy, StorageFull, StorageFailed: it is not there, and no renewal will write it.
        """
        kept = dict(progress)
        with self.rt.db.write(durable=durable) as tx:
            jobs.note(tx, self.job, kept)
            self._progress = kept  # in here: a renewal reads it in a transaction of its own

    def renew(self) -> bool:
        """Prolong the lease. False: it is not ours any more."""
        asked_at = clock.monotonic()
        with self.rt.db.write() as tx:
            standing = jobs.renew(tx, self.job, self.rt.options.lease_seconds, self._progress)
        self._note(standing)
        if standing.is_ours:
            self._valid_until = asked_at + self.rt.options.lease_seconds * (1 - _MARGIN)
        return standing.is_ours

    @property
    def is_draining(self) -> bool:
        return self._standing.drain_until is not None

    def _note(self, standing: jobs.Standing) -> None:
        with self._lock:
            self._standing = standing
            self._looked_at = clock.monotonic()


Flow = Callable[[Runtime, Run], None]


def perform(run: Run, flow: Flow) -> None:
    """Let the flow work and settle how it ends. Raises nothing that the job itself is to blame for."""
    rt, job = run.rt, run.job
    try:
        run.checkpoint()
        flow(rt, run)
    except LeaseLost:
        log.warning("run no longer owns its job")
    except CancelRequested:
        _settle(rt, job, lambda tx: _give_up(tx, job, jobs.CANCELLED, INDEXING_INTERRUPTED, {}))
    except Draining:
        if job.kind.recovery is Recovery.RETRY:
            _settle(rt, job, lambda tx: jobs.put_back(tx, job, delay_seconds=0))
        else:
            _settle(rt, job, lambda tx: _give_up(tx, job, jobs.JOB_ABANDONED, INDEXING_INTERRUPTED, {"reason": "drained"}))
    except PutBack as wish:
        wanted = wish
        _settle(
            rt,
            job,
            lambda tx: jobs.put_back(
                tx, job, delay_seconds=wanted.delay_seconds, error=wanted.reason, detail=wanted.detail, progress=wanted.progress
            ),
        )
    except (EmbedderSlowDown, FetchSlowDown) as error:
        asked = error
        log.warning("asked to wait", extra={"code": asked.code, "seconds": asked.retry_after_seconds})
        _settle(
            rt,
            job,
            lambda tx: jobs.put_back(
                tx, job, delay_seconds=asked.retry_after_seconds, error=asked.code, detail=describe(asked, job)
            ),
        )
    except (BaseBusy, DatabaseBusy) as error:
        reason = error
        _settle(
            rt,
            job,
            lambda tx: jobs.put_back(
                tx, job, delay_seconds=BUSY_DELAY_SECONDS, error=reason.code, detail=describe(reason, job)
            ),
        )
    except Exception as error:  # recorded on the row and the item; the worker goes on with other jobs
        _settle_error(rt, job, error)


def describe(error: BaseException, job: Job) -> dict[str, object]:
    """What a person needs to know of an error; never contents of a document."""
    detail: dict[str, object] = {"attempt": job.attempt + 1}
    if isinstance(error, KnowledgeError):
        return {"message": str(error), **{name: _storable(value) for name, value in error.details.items()}, **detail}
    where = traceback.extract_tb(error.__traceback__)
    place = f"{where[-1].name}:{where[-1].lineno}" if where else ""
    return {"message": f"{type(error).__name__} in {place}", "exception": type(error).__name__, **detail}


def _storable(value: object) -> object:
    """The value if a JSON column takes it, else its text: an error must never fail because of what it tells."""
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return str(value)
    return value


def _settle_error(rt: Runtime, job: Job, error: Exception) -> None:
    code = error.code if isinstance(error, KnowledgeError) else "internal_error"
    may_pass = error.transient if isinstance(error, KnowledgeError) else True
    detail = describe(error, job)
    is_last = job.kind.recovery is Recovery.ABANDON and (not may_pass or job.attempt + 1 >= MAX_EXECUTIONS)  # retry: never
    is_ours_to_fix = not isinstance(error, KnowledgeError)
    log.warning("job failed", extra={"code": code, "attempt": job.attempt + 1, "last": is_last}, exc_info=is_ours_to_fix)
    if is_last:
        _settle(rt, job, lambda tx: _give_up(tx, job, code, code, detail, failed=True))
    else:
        delay = backoff_seconds(job)
        _settle(rt, job, lambda tx: jobs.put_back(tx, job, delay_seconds=delay, attempt=True, error=code, detail=detail))


def backoff_seconds(job: Job) -> float:
    """The wait after an execution that ended in an error."""
    if job.attempt + job.losses + 1 >= STUCK_AFTER:
        return STUCK_BACKOFF_SECONDS
    return float(min(job.kind.backoff_seconds * 2.0**job.attempt, job.kind.max_backoff_seconds))


def _give_up(tx: Tx, job: Job, job_code: str, item_code: str, detail: dict[str, object], *, failed: bool = False) -> None:
    """Close the row and park what it leaves unfinished, in one commit."""
    if failed:
        jobs.fail(tx, job, job_code, detail)
    else:
        jobs.cancel(tx, job, job_code)
    park = status.park_cancelled if job_code == jobs.CANCELLED else status.park_unfinished
    park(tx, job, item_code, detail)


def _settle(rt: Runtime, job: Job, write: Callable[[Tx], None]) -> None:
    try:
        with rt.db.write() as tx:
            write(tx)
    except LeaseLost:
        log.warning("run no longer owns its job")
    except CancelRequested:
        _settle(rt, job, lambda tx: _give_up(tx, job, jobs.CANCELLED, INDEXING_INTERRUPTED, {}))
