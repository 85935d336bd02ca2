"""How others have jobs stop: waiting rows are closed at once, running ones are asked, and revoked if they do not listen."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Row, exists, select, update

from knowledge.catalog.jobs.conditions import (
    ACTIVE,
    CANCELLED,
    LEASE_REVOKED,
    RUNNING,
    close_followers,
    ours,
    terminal,
    views,
)
from knowledge.catalog.rows import JOB, JOB_ITEM
from knowledge.catalog.tree import subtree
from knowledge.db.columns import utc_now
from knowledge.db.engine import Tx
from knowledge.db.sql import id_set
from knowledge.model.ids import BaseId, ItemId
from knowledge.model.jobs import Job, JobStatus, JobType


def cancel_touching(tx: Tx, base_id: BaseId, roots: Sequence[ItemId]) -> None:
    """Close the waiting jobs of these subtrees and ask the running ones to stop; other deletes are left alone."""
    touched = tx.execute(select(JOB.c.id, JOB.c.status).where(_touching(base_id, roots), ACTIVE)).all()
    _cancel(tx, touched)


def cancel_base(tx: Tx, base_id: BaseId) -> None:
    """The same for every job of a base, deletes included."""
    _cancel(tx, tx.execute(select(JOB.c.id, JOB.c.status).where(ACTIVE, JOB.c.base_id == base_id)).all())


def cancel_one(tx: Tx, job: Job) -> None:
    """The same for one job."""
    _cancel(tx, tx.execute(select(JOB.c.id, JOB.c.status).where(ACTIVE, JOB.c.id == job.id)).all())


def hold(tx: Tx, job_ids: Sequence[str], seconds: float) -> None:
    """Waiting jobs are due later than they are."""
    later = utc_now() + timedelta(seconds=seconds)
    waiting = JOB.c.id.in_(id_set(job_ids)) & (JOB.c.status == JobStatus.PENDING)
    tx.execute(update(JOB).where(waiting).values(scheduled_at=later))


def hurry(tx: Tx, job: Job) -> bool:
    """Make a waiting job due now and have it sent again. False if it does not wait any more, or not for its time: a job that
    follows another one starts when that has ended."""
    now = utc_now()
    return bool(
        tx.execute(
            update(JOB)
            .where(JOB.c.id == job.id, JOB.c.status == JobStatus.PENDING, JOB.c.after.is_(None))
            .values(scheduled_at=now, published_at=None, updated_at=now)
        ).rowcount
    )


def _cancel(tx: Tx, active: Sequence[Row[Any, Any]]) -> None:
    waiting = [row.id for row in active if row.status is JobStatus.PENDING]
    running = [row.id for row in active if row.status is JobStatus.RUNNING]
    if waiting:
        tx.execute(update(JOB).where(JOB.c.id.in_(id_set(waiting))).values(**terminal(JobStatus.CANCELLED, CANCELLED, {})))
        close_followers(tx, waiting, CANCELLED)
    if running:
        now = utc_now()
        unasked = JOB.c.id.in_(id_set(running)) & JOB.c.cancel_requested_at.is_(None)
        tx.execute(update(JOB).where(unasked).values(cancel_requested_at=now, updated_at=now))


def running_touching(tx: Tx, base_id: BaseId, roots: Sequence[ItemId]) -> list[Job]:
    """Jobs of these subtrees, other deletes excluded, that have not settled."""
    return views(tx, tx.execute(select(JOB).where(_touching(base_id, roots), RUNNING)).all())


def running_in(tx: Tx, base_id: BaseId) -> list[Job]:
    """Running jobs of a base; there are never more than worker slots, so all are read and those of the base picked."""
    return views(tx, [row for row in tx.execute(select(JOB).where(RUNNING)) if row.base_id == base_id])


def waiting_touching(tx: Tx, base_id: BaseId, roots: Sequence[ItemId]) -> list[Job]:
    """Jobs of these subtrees, other deletes excluded, that nobody runs; whoever cancels them parks their items."""
    mine = select(JOB).where(_touching(base_id, roots), ACTIVE, JOB.c.status == JobStatus.PENDING)
    return views(tx, tx.execute(mine).all())


def is_delete_waiting(tx: Tx, base_id: BaseId) -> bool:
    """Whether a delete of this base is still to be run."""
    waiting = select(JOB.c.id).where(
        ACTIVE, JOB.c.base_id == base_id, JOB.c.type == JobType.DELETE_SUBTREE, JOB.c.status == JobStatus.PENDING
    )
    return tx.execute(waiting.limit(1)).first() is not None


def revoke(tx: Tx, job: Job) -> None:
    """Take a running row from an owner that did not stop; its late writes are refused. The base lock must be held."""
    if tx.execute(update(JOB).where(ours(job)).values(**terminal(JobStatus.CANCELLED, LEASE_REVOKED, {}))).rowcount:
        close_followers(tx, [job.id], LEASE_REVOKED)


def _touching(base_id: BaseId, roots: Sequence[ItemId]) -> ColumnElement[bool]:
    """Jobs that name an item of these subtrees, but no deletes.

    A reindex that names others as well does not count: it leaves alone what is being deleted, and goes on with the rest.
    """
    inside = select(subtree(base_id, roots).c.id)
    linked = select(JOB_ITEM.c.job_id).where(JOB_ITEM.c.item_id.in_(inside))
    names_others = exists().where(JOB_ITEM.c.job_id == JOB.c.id, JOB_ITEM.c.item_id.not_in(inside))
    is_ours = (JOB.c.type != JobType.REINDEX_SUBTREE) | ~names_others
    return JOB.c.id.in_(linked) & (JOB.c.type != JobType.DELETE_SUBTREE) & is_ours
