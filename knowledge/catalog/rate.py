"""How often something outside is asked, by all processes together: so many at once, so many starts in any 60 seconds.

A run asks for a place. If there is one it gets it, and keeps it until it gives it back or has ended in whatever way: the place
belongs to the run's lease, so a killed process holds nothing. If there is none, the run is told when to come back, and its job
is put back until then: nobody sleeps in a worker slot. The time it is told is booked for its job, one after the other, so a
thousand waiting jobs come back once each, in their order, and not all at once.
"""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import ColumnElement, and_, exists, func, or_, select, update

from knowledge.catalog.rows import JOB, RATE
from knowledge.db.columns import utc_now
from knowledge.db.engine import Tx
from knowledge.db.sql import upsert
from knowledge.model.jobs import ACTIVE_JOB, Job, JobStatus
from knowledge.model.rates import Limit

WINDOW: Final = timedelta(seconds=60)
SHORTEST_WAIT: Final = timedelta(seconds=1)  #: the tick that looks for due jobs sees nothing shorter


@dataclass(frozen=True, slots=True)
class Place:
    """The right to ask once, from now on."""

    id: str


@dataclass(frozen=True, slots=True)
class Wait:
    """There is no place now; ask again after this."""

    seconds: float
    scope: str


def take_all(tx: Tx, limits: Sequence[Limit], job: Job) -> list[Place] | Wait:
    """A place under each of these limits, or none and when to come back; needs a write transaction."""
    places: list[Place] = []
    for limit in limits:
        answer = take(tx, limit, job)
        if isinstance(answer, Wait):
            tx.execute(RATE.delete().where(RATE.c.id.in_([place.id for place in places])))  # they have begun nothing
            return answer
        places.append(answer)
    return places


def take(tx: Tx, limit: Limit, job: Job) -> Place | Wait:
    """A place for this run, or when to come back; needs a write transaction."""
    now = utc_now()
    _forget(tx, limit.scope, now)
    paused = tx.scalar(select(RATE.c.lease_until).where(RATE.c.id == _pause_id(limit.scope), RATE.c.lease_until > now))
    if paused is not None:
        return Wait((paused - now).total_seconds(), limit.scope)
    mine = _booking_id(limit, job)
    others = (RATE.c.scope == limit.scope) & RATE.c.id.not_in([mine, _pause_id(limit.scope)])
    booked: datetime | None = tx.scalar(select(RATE.c.starts_at).where(RATE.c.id == mine))
    if booked is not None and booked > now:
        return Wait((booked - now).total_seconds(), limit.scope)
    starts = list(
        tx.scalars(select(RATE.c.starts_at).where(others, RATE.c.starts_at > now - WINDOW).order_by(RATE.c.starts_at))
    )
    begun = [moment for moment in starts if moment <= now]
    of_others = RATE.c.run_token.is_distinct_from(job.run_token)  # a run that asks for two things does not wait for itself
    at_once = tx.scalar(select(func.count()).select_from(RATE).where(others, of_others, _is_held(now))) or 0
    is_next = booked is not None or not _somebody_waits(tx, others, now)
    if is_next and at_once < limit.at_once and len(begun) < limit.per_minute:
        place = Place(uuid.uuid4().hex)
        tx.execute(RATE.delete().where(RATE.c.id == mine))
        tx.execute(
            RATE.insert().values(
                id=place.id, scope=limit.scope, job_id=job.id, run_token=job.run_token, starts_at=now, released_at=None
            )
        )
        return place
    moment = _next_start(starts, limit, now)
    values = {"id": mine, "scope": limit.scope, "job_id": job.id, "run_token": None, "starts_at": moment}
    upsert(tx, RATE, ["id"], values)
    return Wait((moment - now).total_seconds(), limit.scope)


def release(tx: Tx, places: Iterable[Place]) -> None:
    """Give the places back; their starts go on to count."""
    tx.execute(update(RATE).where(RATE.c.id.in_([place.id for place in places])).values(released_at=utc_now()))


def pause(tx: Tx, scope: str, seconds: float) -> None:
    """Nobody starts before this is over: what is asked has said so."""
    now = utc_now()
    until = now + timedelta(seconds=seconds)
    upsert(tx, RATE, ["id"], {"id": _pause_id(scope), "scope": scope, "starts_at": now, "lease_until": until})


def resume(tx: Tx, scope: str) -> None:
    """End the pause: somebody knows better than what was said."""
    tx.execute(RATE.delete().where(RATE.c.id == _pause_id(scope)))


def hang(tx: Tx, scope: str, how_long: timedelta) -> None:
    """What is asked has not answered in time; believed for so long."""
    now = utc_now()
    marker = {"id": _hang_id(scope), "scope": _hang_id(scope), "starts_at": now, "lease_until": now + how_long}
    upsert(tx, RATE, ["id"], marker)


def hangs(tx: Tx, scope: str) -> bool:
    return tx.scalar(select(exists().where(RATE.c.id == _hang_id(scope), RATE.c.lease_until > utc_now()))) is True


def answered(tx: Tx, scope: str) -> None:
    """It does not hang any more."""
    tx.execute(RATE.delete().where(RATE.c.id == _hang_id(scope)))


def prune(tx: Tx) -> None:
    """Remove what no longer counts of hosts and services that nobody asks any more."""
    tx.execute(RATE.delete().where(_is_old(utc_now())))


def _next_start(starts: list[datetime], limit: Limit, now: datetime) -> datetime:
    """Behind everybody who waits, at the pace that the limit allows."""
    moment = now + SHORTEST_WAIT
    if starts and starts[-1] > now:
        moment = max(moment, starts[-1] + WINDOW / limit.per_minute)
    if len(starts) >= limit.per_minute:
        moment = max(moment, starts[-limit.per_minute] + WINDOW)
    return moment


def _is_held(now: datetime) -> ColumnElement[bool]:
    its_run = exists().where(
        JOB.c.id == RATE.c.job_id,
        JOB.c.run_token == RATE.c.run_token,
        JOB.c.status == JobStatus.RUNNING,
        JOB.c.lease_until > now,
    )
    its_lease = and_(RATE.c.lease_until.is_not(None), RATE.c.lease_until > now)  # never unknown, or NOT would be as well
    return and_(RATE.c.released_at.is_(None), or_(and_(RATE.c.run_token.is_not(None), its_run), its_lease))


def _waits() -> ColumnElement[bool]:
    its_job = exists().where(JOB.c.id == RATE.c.job_id, JOB.c.status.in_(ACTIVE_JOB))
    return and_(RATE.c.job_id.is_not(None), RATE.c.run_token.is_(None), its_job)


def _somebody_waits(tx: Tx, others: ColumnElement[bool], now: datetime) -> bool:
    """Whether somebody whose time has come has not come yet; he gets a moment, or his place would be taken by newcomers."""
    late = now - 5 * SHORTEST_WAIT
    due = and_(others, _waits(), RATE.c.starts_at > late)
    return tx.scalar(select(exists().where(due))) is True


def _forget(tx: Tx, scope: str, now: datetime) -> None:
    """Remove what no longer counts: old starts, and the bookings of jobs that have ended."""
    idle_booking = and_(RATE.c.job_id.is_not(None), RATE.c.run_token.is_(None), ~_waits())
    tx.execute(RATE.delete().where(RATE.c.scope == scope, or_(_is_old(now), idle_booking)))


def _is_old(now: datetime) -> ColumnElement[bool]:
    return and_(RATE.c.starts_at <= now - WINDOW, ~_is_held(now), ~_waits())


def _booking_id(limit: Limit, job: Job) -> str:
    return f"{limit.scope} {job.id}"


def _pause_id(scope: str) -> str:
    return f"pause {scope}"


def _hang_id(scope: str) -> str:
    return f"hangs {scope}"
