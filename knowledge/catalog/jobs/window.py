"""The window: how many jobs of a base are in flight, and so which waiting ones may have a message."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, exists, func, select, update

from knowledge.catalog.jobs.conditions import FLYING, WAITING, views
from knowledge.catalog.rows import BASE, JOB
from knowledge.db.engine import Tx
from knowledge.db.sql import id_set
from knowledge.model.ids import BaseId
from knowledge.model.jobs import Job, JobStatus, JobType, Track


def has_due(tx: Tx, base_id: BaseId, now: datetime) -> bool:
    """Whether a job of this base waits to be published."""
    return bool(tx.scalar(select(exists().where(WAITING, JOB.c.base_id == base_id, JOB.c.scheduled_at <= now))))


def bases_with_due(tx: Tx, now: datetime) -> list[BaseId]:
    """Bases with a job that waits to be published; a look-up per base, whatever the backlog."""
    due = exists().where(WAITING, JOB.c.base_id == BASE.c.id, JOB.c.scheduled_at <= now)
    return [BaseId(base_id) for base_id in tx.scalars(select(BASE.c.id).where(due))]


def take_due(tx: Tx, base_id: BaseId, window: int, now: datetime) -> list[Job]:
    """Mark as published what may be published now: index jobs inside the window of the base, checks inside theirs, deletes all.

    The caller publishes after the commit and calls `clear_published` for what it could not send.
    """
    taken: list[Row[Any]] = []
    check = JOB.c.type == JobType.CHECK_FILE_PROCESSING_RESULT
    for track, only in ((Track.INDEX, ()), (Track.CONTROL, (check,))):
        room = window - flying(tx, base_id, track, *only)
        if room > 0:
            taken.extend(tx.execute(first_due(base_id, track, now, *only).limit(room)))
    taken.extend(tx.execute(first_due(base_id, Track.CONTROL, now, ~check)))
    if taken:
        tx.execute(
            update(JOB)
            .where(JOB.c.id.in_(id_set(row.id for row in taken)))
            .values(published_at=now, publishes=JOB.c.publishes + 1, updated_at=now)
        )
    return views(tx, taken)


def first_due(base_id: BaseId, track: Track, now: datetime, *only: ColumnElement[bool]) -> Any:
    """Waiting rows of a base in the order in which they shall run."""
    due = select(JOB).where(
        WAITING, JOB.c.base_id == base_id, JOB.c.track == track, JOB.c.scheduled_at <= now, JOB.c.after.is_(None), *only
    )
    return due.order_by(JOB.c.priority, JOB.c.scheduled_at, JOB.c.id)


def flying(tx: Tx, base_id: BaseId, track: Track, *only: ColumnElement[bool]) -> int:
    """How many jobs are in the window: published and not ended."""
    inside = select(func.count()).select_from(JOB).where(FLYING, JOB.c.base_id == base_id, JOB.c.track == track, *only)
    return tx.scalar(inside) or 0


def clear_published(tx: Tx, job_ids: Sequence[str]) -> None:
    """These waiting rows have no message in the broker."""
    tx.execute(update(JOB).where(JOB.c.id.in_(id_set(job_ids)), JOB.c.status == JobStatus.PENDING).values(published_at=None))


def published_waiting(tx: Tx, older_than: datetime) -> list[Job]:
    """Rows published before this and not claimed since, oldest first."""
    rows = tx.execute(
        select(JOB)
        .where(FLYING, JOB.c.status == JobStatus.PENDING, JOB.c.published_at < older_than)
        .order_by(JOB.c.published_at)
        .limit(1000)
    ).all()
    return views(tx, rows)


def clear_all_published(tx: Tx) -> int:
    """Every waiting row lost its message: the broker lost its memory."""
    return tx.execute(update(JOB).where(FLYING, JOB.c.status == JobStatus.PENDING).values(published_at=None)).rowcount
