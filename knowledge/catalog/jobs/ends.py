"""How the run that owns a row ends it: done, failed, cancelled, or put back for later. All are refused to everybody else."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from sqlalchemy import bindparam, update

from knowledge.catalog.jobs.conditions import OURS, as_ours, close_followers, ours, terminal
from knowledge.catalog.jobs.lease import require_ours
from knowledge.catalog.rows import JOB
from knowledge.db.columns import utc_now
from knowledge.db.engine import Tx
from knowledge.errors import LeaseLost
from knowledge.model.jobs import Job, JobStatus

_END: Final = update(JOB).where(OURS)
_LET_FOLLOW: Final = update(JOB).where(JOB.c.after == bindparam("job_id"))


def finish(tx: Tx, job: Job, **result: int) -> None:
    """The run has done its work. Raises `LeaseLost` if the row is not ours any more.

    Args:
        result: numbers that `progress` keeps for people.
    """
    _close(tx, job, JobStatus.COMPLETED, None, {})
    if result:
        tx.execute(update(JOB).where(JOB.c.id == job.id).values(progress={"stage": "done", **result}))
    tx.execute(_LET_FOLLOW, {"job_id": job.id, "after": None, "scheduled_at": utc_now()})


def note(tx: Tx, job: Job, progress: Mapping[str, object]) -> None:
    """Keep what the next run of this job must know. Raises `LeaseLost` if the row is not ours any more."""
    if not tx.execute(update(JOB).where(ours(job)).values(progress=dict(progress), updated_at=utc_now())).rowcount:
        raise LeaseLost(job_id=job.id)


def fail(tx: Tx, job: Job, code: str, detail: Mapping[str, object]) -> None:
    _close(tx, job, JobStatus.FAILED, code, detail)
    close_followers(tx, [job.id], code)


def cancel(tx: Tx, job: Job, code: str) -> None:
    """The run stops without having done its work."""
    _close(tx, job, JobStatus.CANCELLED, code, {})
    close_followers(tx, [job.id], code)


def put_back(
    tx: Tx,
    job: Job,
    *,
    delay_seconds: float,
    attempt: bool = False,
    error: str | None = None,
    detail: Mapping[str, object] | None = None,
    progress: Mapping[str, object] | None = None,
) -> None:
    """Running → pending, due after a delay. `attempt` counts this execution as one that failed; `progress` replaces the row's.

    Raises:
        LeaseLost: the row is not ours any more.
        CancelRequested: it was asked to stop; a waiting row cannot be, so the run must close it.
    """
    now = utc_now()
    changed = tx.execute(
        update(JOB)
        .where(ours(job), JOB.c.cancel_requested_at.is_(None))
        .values(
            status=JobStatus.PENDING,
            run_token=None,
            lease_until=None,
            published_at=None,
            attempt=JOB.c.attempt + (1 if attempt else 0),
            scheduled_at=now + timedelta(seconds=delay_seconds),
            error=error,
            error_detail=dict(detail or {}),
            progress=JOB.c.progress if progress is None else dict(progress),
            updated_at=now,
        )
    ).rowcount
    if not changed:
        require_ours(tx, job)


def _close(tx: Tx, job: Job, status: JobStatus, code: str | None, detail: Mapping[str, object]) -> None:
    if not tx.execute(_END, as_ours(job) | terminal(status, code, detail)).rowcount:
        raise LeaseLost(job_id=job.id)
