"""The window: how many jobs of a base are in flight, and so which waiting ones may have a message.

Checks have one of their own. A conversion starts when its check enters it, and keeps its place while the check waits for its
next look: otherwise every conversion of a base would be started before the first has ended.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, bindparam, exists, func, select, update

from knowledge.catalog.jobs.conditions import ACTIVE, CONVERTING, FLYING, WAITING, views
from knowledge.catalog.rows import BASE, JOB
from knowledge.db.engine import Tx
from knowledge.db.sql import id_set
from knowledge.model.ids import BaseId, JobId
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
_IS_CHECK: Final = JOB.c.type == JobType.CHECK_FILE_PROCESSING_RESULT
_HAS_BEGUN: Final = JOB.c.started_at.is_not(None)
_CONVERTING_COUNT: Final = select(func.count()).select_from(JOB).where(CONVERTING, _OF_BASE)
_BEGUN_DUE: Final = select(JOB).where(
    CONVERTING, _OF_BASE, _IS_DUE, JOB.c.published_at.is_(None), JOB.c.status == JobStatus.PENDING
)

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
    if (room := window - flying(tx, base_id, Track.INDEX)) > 0:
        taken.extend(first_due(tx, base_id, Track.INDEX, now, room))
    taken.extend(tx.execute(_BEGUN_DUE, {"of_base": base_id, "by": now}))
    if (room := window - converting(tx, base_id)) > 0:
        taken.extend(first_due(tx, base_id, Track.CONTROL, now, room, _IS_CHECK, ~_HAS_BEGUN))
    taken.extend(first_due(tx, base_id, Track.CONTROL, now, _NO_LIMIT, ~_IS_CHECK))
    if taken:
        tx.execute(
            update(JOB)
            .where(JOB.c.id.in_(id_set(row.id for row in taken)))
            .values(published_at=now, publishes=JOB.c.publishes + 1, updated_at=now)
        )
    return _with_followers(tx, views(tx, taken))


def _with_followers(tx: Tx, taken: list[Job]) -> list[Job]:
    """The same, each check with the job that waits for it."""
    checks = [job.id for job in taken if job.type is JobType.CHECK_FILE_PROCESSING_RESULT]
    if not checks:
        return taken
    rows = tx.execute(select(JOB.c.after, JOB.c.id, JOB.c.type).where(JOB.c.after.in_(id_set(checks)), ACTIVE))
    following = {row.after: (JobId(row.id), row.type) for row in rows}
    return [replace(job, then=following.get(job.id)) for job in taken]


def first_due(
    tx: Tx, base_id: BaseId, track: Track, now: datetime, limit: int, *only: ColumnElement[bool]
) -> Sequence[Row[Any]]:
    """Waiting rows of a base in the order in which they shall run."""
    statement = _FIRST_DUE.where(*only) if only else _FIRST_DUE
    return tx.execute(statement, {"of_base": base_id, "of_track": track, "by": now, "limit": limit}).all()


def flying(tx: Tx, base_id: BaseId, track: Track) -> int:
    """How many jobs are in the window: published and not ended."""
    return tx.scalar(_FLYING_COUNT, {"of_base": base_id, "of_track": track}) or 0


def converting(tx: Tx, base_id: BaseId) -> int:
    """How many checks are in their window: those whose conversion may have begun, and those that are about to begin it."""
    begun = tx.scalar(_CONVERTING_COUNT, {"of_base": base_id}) or 0
    about_to = _FLYING_COUNT.where(_IS_CHECK, ~_HAS_BEGUN)
    return begun + (tx.scalar(about_to, {"of_base": base_id, "of_track": Track.CONTROL}) or 0)


def has_room(tx: Tx, row: Row[Any], window: int) -> bool:
    """Whether a row that is not in the window may come in."""
    if row.track is Track.INDEX:
        return flying(tx, row.base_id, row.track) < window
    is_outside = row.type is not JobType.CHECK_FILE_PROCESSING_RESULT or row.started_at is not None
    return is_outside or converting(tx, row.base_id) < window


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
