"""Rows whose process is gone, and what their `recovery` makes of them."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import select, update

from knowledge.catalog.jobs.conditions import ACTIVE, CANCELLED, JOB_ABANDONED, RUNNING, close_followers, ours, terminal, views
from knowledge.catalog.rows import JOB
from knowledge.db.columns import utc_now
from knowledge.db.engine import Tx
from knowledge.db.sql import id_set
from knowledge.model.ids import BaseId
from knowledge.model.jobs import KINDS, STUCK_AFTER, STUCK_BACKOFF_SECONDS, Job, JobStatus, Recovery


def expired(tx: Tx, now: datetime) -> list[Job]:
    """Running rows whose lease is over."""
    return views(tx, tx.execute(select(JOB).where(RUNNING, JOB.c.lease_until <= now)).all())


def lost_by(tx: Tx, host: str, since: datetime, until: datetime) -> list[Job]:
    """Rows taken from processes of this host between two instants, as far as they were closed for that."""
    types = [job_type for job_type, kind in KINDS.items() if kind.recovery is Recovery.ABANDON]
    taken = (JOB.c.error == JOB_ABANDONED) & (JOB.c.owner_host == host)
    return views(tx, tx.execute(select(JOB).where(JOB.c.type.in_(types), JOB.c.finished_at.between(since, until), taken)).all())


def running_on(tx: Tx, host: str) -> list[Job]:
    return views(tx, tx.execute(select(JOB).where(RUNNING, JOB.c.owner_host == host)).all())


def close_lost(tx: Tx, job: Job) -> bool:
    """End a run whose process is gone: abandon → cancelled, retry → pending. False if it has moved on since `job` was read.

    A cancelled retry job is closed. The base lock must be held; the caller parks the items in the same transaction.
    """
    mine = ours(job) & (JOB.c.lease_until == job.lease_until)
    found = tx.execute(select(JOB.c.cancel_requested_at).where(mine)).one_or_none()
    if found is None:
        return False
    if job.kind.recovery is Recovery.RETRY and found.cancel_requested_at is None:
        now = utc_now()
        tx.execute(
            update(JOB)
            .where(mine)
            .values(
                status=JobStatus.PENDING,
                run_token=None,
                lease_until=None,
                published_at=None,
                losses=JOB.c.losses + 1,
                scheduled_at=now + timedelta(seconds=loss_delay_seconds(job)),
                updated_at=now,
            )
        )
        return True
    code = CANCELLED if found.cancel_requested_at else JOB_ABANDONED
    tx.execute(update(JOB).where(mine).values(**terminal(JobStatus.CANCELLED, code, {})))
    close_followers(tx, [job.id], code)
    return True


def park_pending_of(tx: Tx, base_ids: Sequence[BaseId]) -> list[Job]:
    """Close the waiting abandon jobs of these bases: a restart must not spend by itself. The caller parks their items."""
    rows = tx.execute(
        select(JOB).where(
            ACTIVE,
            JOB.c.status == JobStatus.PENDING,
            JOB.c.recovery == Recovery.ABANDON,
            JOB.c.base_id.in_(id_set(base_ids)),
        )
    ).all()
    closed = views(tx, rows)
    if closed:
        ids = id_set(job.id for job in closed)
        tx.execute(update(JOB).where(JOB.c.id.in_(ids)).values(**terminal(JobStatus.CANCELLED, JOB_ABANDONED, {})))
    return closed


def loss_delay_seconds(job: Job) -> float:
    """How long a retry job waits after its next loss: at once, then doubling, 15 minutes from the eighth on."""
    troubles = job.attempt + job.losses + 1
    if troubles >= STUCK_AFTER:
        return STUCK_BACKOFF_SECONDS
    return 0.0 if troubles == 1 else min(job.kind.backoff_seconds * 2.0 ** (troubles - 2), job.kind.max_backoff_seconds)
