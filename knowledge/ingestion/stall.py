"""A run whose flow hangs: closed from another thread of its process, before that process is ended."""

from contextlib import suppress
from typing import Final

from knowledge.catalog import jobs, status
from knowledge.errors import CancelRequested, LeaseLost, Stalled
from knowledge.ingestion.run import Run
from knowledge.model.jobs import Recovery

_LOCK_SECONDS: Final = 1.0


def settle_stalled(run: Run) -> None:
    """Fail the job and park its items as `stalled`; a retry job is put back, or closed if it was asked to stop.

    Raises:
        BaseBusy: the hanging flow, or another, holds the base lock; the sweep settles the run when its lease is over.
    """
    rt, job = run.rt, run.job
    detail: dict[str, object] = {"message": str(Stalled()), "seconds": rt.options.stall_seconds}
    with suppress(LeaseLost), rt.locks.base(job.base_id, wait_seconds=_LOCK_SECONDS), rt.db.write() as tx:
        if job.kind.recovery is Recovery.ABANDON:
            jobs.fail(tx, job, Stalled.code, detail)
            status.park_unfinished(tx, job, Stalled.code, detail)
            return
        try:
            delay = job.kind.max_backoff_seconds
            jobs.put_back(tx, job, delay_seconds=delay, attempt=True, error=Stalled.code, detail=detail)
        except CancelRequested:
            jobs.cancel(tx, job, jobs.CANCELLED)
