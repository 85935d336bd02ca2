"""The right to run a job, and until when: claim a row, keep it, prove that it is still ours."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Row, bindparam, or_, select, update

from knowledge.catalog.jobs.conditions import OURS, RUNNING, as_ours, views
from knowledge.catalog.jobs.window import HAS_ROOM, NEXT_ID, has_room
from knowledge.catalog.rows import JOB
from knowledge.db.columns import utc_now
from knowledge.db.engine import Tx
from knowledge.errors import CancelRequested, LeaseLost
from knowledge.model.ids import JobId
from knowledge.model.jobs import ACTIVE_JOB, Job, JobStatus, Owner

_ROW: Final = select(JOB).where(JOB.c.id == bindparam("job_id"))
_STANDING: Final = select(JOB.c.run_token, JOB.c.cancel_requested_at, JOB.c.drain_until).where(JOB.c.id == bindparam("job_id"))
_START: Final = update(JOB).where(JOB.c.id == bindparam("job_id")).returning(JOB)
_START_NEXT: Final = (
    update(JOB)
    .where(
        JOB.c.id == NEXT_ID,
        JOB.c.type == bindparam("of_type"),
        HAS_ROOM,
        select(JOB.c.drain_until).where(JOB.c.id == bindparam("last_job")).correlate(None).scalar_subquery().is_(None),
    )
    .returning(JOB)
)
_RENEW: Final = update(JOB).where(OURS)


class Refusal(StrEnum):
    """Why a message is dropped."""

    GONE = "gone"  #: terminal or absent
    NOT_YET = "not_yet"  #: not due, or another job must end first, or its turn in the window has not come
    TAKEN = "taken"  #: running; if its lease is over, somebody must settle it first


def claim(tx: Tx, job_id: JobId, owner: Owner, lease_seconds: float, window: int) -> Job | Refusal:
    """Pending → running for this owner, or why not.

    A message that has outlived its mark (its row was put back or taken for lost) does not jump the queue of its base.
    """
    now = utc_now()
    row = tx.execute(_ROW, {"job_id": job_id}).one_or_none()
    if row is None or row.status not in ACTIVE_JOB:
        return Refusal.GONE
    if row.status is JobStatus.RUNNING:
        return Refusal.TAKEN
    if row.after or row.scheduled_at > now:
        return Refusal.NOT_YET
    if row.published_at is None and not has_room(tx, row, window):
        return Refusal.NOT_YET
    return _start(tx, row, owner, lease_seconds, now)


def claim_next(tx: Tx, job: Job, owner: Owner, lease_seconds: float, window: int) -> Job | None:
    """The next waiting row of the same base and type, in the window slot that `job` has just left.

    Nothing if the worker was told to stop while `job` ran: the new row would not carry the stop's deadline.
    """
    now = utc_now()
    asked = {"of_base": job.base_id, "of_track": job.kind.track, "by": now, "window": window}
    row = tx.execute(
        _START_NEXT,
        {**asked, "last_job": job.id, "of_type": job.type, **_running(owner, lease_seconds, now), "published_at": now},
    ).one_or_none()
    return None if row is None else views(tx, [row])[0]


def _start(tx: Tx, row: Row[Any], owner: Owner, lease_seconds: float, now: datetime) -> Job:
    values = {**_running(owner, lease_seconds, now), "published_at": row.published_at or now}
    return views(tx, [tx.execute(_START, {"job_id": row.id, **values}).one()])[0]


def _running(owner: Owner, lease_seconds: float, now: datetime) -> dict[str, Any]:
    """The values of a row whose run begins."""
    return {
        "status": JobStatus.RUNNING,
        "run_token": uuid.uuid4().hex,
        "owner_host": owner.host,
        "owner_pid": owner.pid,
        "owner_started": owner.started,
        "lease_until": now + timedelta(seconds=lease_seconds),
        "started_at": now,
        "drain_until": None,
        "updated_at": now,
    }


@dataclass(frozen=True, slots=True)
class Standing:
    """How a run stands with its row."""

    is_ours: bool
    cancel_requested: bool = False
    drain_until: datetime | None = None


def standing(tx: Tx, job: Job) -> Standing:
    row = tx.execute(_STANDING, {"job_id": job.id}).one_or_none()
    if row is None or job.run_token is None or row.run_token != job.run_token:
        return Standing(is_ours=False)
    return Standing(True, row.cancel_requested_at is not None, row.drain_until)


def renew(tx: Tx, job: Job, lease_seconds: float, progress: Mapping[str, object]) -> Standing:
    """Prolong the lease if it is still ours."""
    now = utc_now()
    values = {"lease_until": now + timedelta(seconds=lease_seconds), "progress": dict(progress), "updated_at": now}
    tx.execute(_RENEW, as_ours(job) | values)
    return standing(tx, job)


def require_ours(tx: Tx, job: Job) -> None:
    """Proof, inside this transaction, that the run still owns its row and was not asked to stop.

    Raises:
        LeaseLost, CancelRequested
    """
    state = standing(tx, job)
    if not state.is_ours:
        raise LeaseLost(job_id=job.id)
    if state.cancel_requested:
        raise CancelRequested(job_id=job.id)


def stamp_drain(tx: Tx, host: str, pids: Sequence[int], until: datetime) -> None:
    """Tell the runs of these processes that their worker stops at `until`, unless they know of an earlier stop."""
    theirs = RUNNING & (JOB.c.owner_host == host) & JOB.c.owner_pid.in_(pids)
    is_later = or_(JOB.c.drain_until.is_(None), JOB.c.drain_until > until)
    tx.execute(update(JOB).where(theirs, is_later).values(drain_until=until))
