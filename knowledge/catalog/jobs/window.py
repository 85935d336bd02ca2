"""The window: how many jobs of a base are in flight, and so which waiting ones may have a message."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, bindparam, exists, func, select, update

from knowledge.catalog.jobs.conditions import FLYING, WAITING, views
from knowledge.catalog.rows import BASE, JOB
from knowledge.db.engine import Tx
from knowledge.db.sql import id_set
from knowledge.model.ids import BaseId
from knowledge.model.jobs import Job, JobStatus, JobType, Track

# The names of parameters differ from those of columns: in an UPDATE such a parameter would be a value to set.
_OF_BASE: Final = JOB.c.base_id == bindparam("of_base")
_OF_TRACK: Final = _OF_BASE & (JOB.c.track == bindparam("of_track"))
_IS_DUE: Final = JOB.c.scheduled_at <= bindparam("by")
# Naming every track lets SQLite see that the index of waiting rows fits better than the history of the base.
_SOME_DUE: Final = exists().where(WAITING, JOB.c.track.in_(tuple(Track)), _IS_DUE)
_HAS_DUE: Final = select(_SOME_DUE.where(_OF_BASE))
_BASES_WITH_DUE: Final = select(BASE.c.id).where(_SOME_DUE.where(JOB.c.base_id == BASE.c.id))
_IN_ORDER: Final = (JOB.c.priority, JOB.c.scheduled_at, JOB.c.id)
_MAY_RUN: Final = WAITING & _OF_TRACK & _IS_DUE & JOB.c.after.is_(None)
_FIRST_DUE: Final = select(JOB).where(_MAY_RUN).order_by(*_IN_ORDER).limit(bindparam("limit"))
_FLYING_COUNT: Final = select(func.count()).select_from(JOB).where(FLYING, _OF_TRACK)

# For use inside one statement that takes a row; parameters: of_base, of_track, by, window.
NEXT_ID: Final = select(JOB.c.id).where(_MAY_RUN).order_by(*_IN_ORDER).limit(1).correlate(None).scalar_subquery()
HAS_ROOM: Final = _FLYING_COUNT.correlate(None).scalar_subquery() < bindparam("window")
_NO_LIMIT: Final = 2**31 - 1


def has_due(tx: Tx, base_id: BaseId, now: datetime) -> bool:
    """Whether a job of this base waits to be published."""
    return bool(tx.scalar(_HAS_DUE, {"of_base": base_id, "by": now}))


def bases_with_due(tx: Tx, now: datetime) -> list[BaseId]:
    """Bases with a job that waits to be published; a look-up per base, whatever the backlog."""
    return [BaseId(base_id) for base_id in tx.scalars(_BASES_WITH_DUE, {"by": now})]


def take_due(tx: Tx, base_id: BaseId, window: int, now: datetime) -> list[Job]:
    """Mark as published what may be published now: index jobs inside the window of the base, checks inside theirs, deletes all.

    The caller publishes after the commit and calls `clear_published` for what it could not send.
    """
    taken: list[Row[Any]] = []
    check = JOB.c.type == JobType.CHECK_FILE_PROCESSING_RESULT
    for track, only in ((Track.INDEX, ()), (Track.CONTROL, (check,))):
        room = window - flying(tx, base_id, track, *only)
        if room > 0:
            taken.extend(first_due(tx, base_id, track, now, room, *only))
    taken.extend(first_due(tx, base_id, Track.CONTROL, now, _NO_LIMIT, ~check))
    if taken:
        tx.execute(
            update(JOB)
            .where(JOB.c.id.in_(id_set(row.id for row in taken)))
            .values(published_at=now, publishes=JOB.c.publishes + 1, updated_at=now)
        )
    return views(tx, taken)


def first_due(
    tx: Tx, base_id: BaseId, track: Track, now: datetime, limit: int, *only: ColumnElement[bool]
) -> Sequence[Row[Any]]:
    """Waiting rows of a base in the order in which they shall run."""
    statement = _FIRST_DUE.where(*only) if only else _FIRST_DUE
    return tx.execute(statement, {"of_base": base_id, "of_track": track, "by": now, "limit": limit}).all()


def flying(tx: Tx, base_id: BaseId, track: Track, *only: ColumnElement[bool]) -> int:
    """How many jobs are in the window: published and not ended."""
    statement = _FLYING_COUNT.where(*only) if only else _FLYING_COUNT
    return tx.scalar(statement, {"of_base": base_id, "of_track": track}) or 0


def has_room(tx: Tx, row: Row[Any], window: int) -> bool:
    """Whether a row that is not in the window may come in."""
    if row.track is Track.INDEX:
        return flying(tx, row.base_id, row.track) < window
    check = JobType.CHECK_FILE_PROCESSING_RESULT
    return row.type is not check or flying(tx, row.base_id, row.track, JOB.c.type == check) < window


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
