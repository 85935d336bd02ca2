"""The job ledger: the only writer of `knowledge_job`.

A job exists because its row was committed together with the status it explains. The broker only wakes somebody up; every
decision about running, ending or repeating a job is one compare-and-set here.
"""

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, exists, func, select, text, update

from knowledge.catalog.rows import BASE, JOB, JOB_ITEM
from knowledge.catalog.tree import subtree
from knowledge.db.columns import utc_now
from knowledge.db.engine import Tx
from knowledge.db.sql import id_set, insert_new
from knowledge.errors import CancelRequested, JobNotFound, LeaseLost
from knowledge.model.ids import BaseId, ItemId, JobId, new_job_id
from knowledge.model.jobs import (
    ACTIVE_JOB,
    STUCK_AFTER,
    STUCK_BACKOFF_SECONDS,
    Job,
    JobSpec,
    JobStatus,
    JobType,
    Owner,
    Recovery,
    Track,
)
from knowledge.model.results import JobPage

# Spelled out, because SQLite uses a partial index only for a condition it can read, not for bound values.
_ACTIVE: Final = text("knowledge_job.status IN ('pending', 'running')")
_RUNNING: Final = text("knowledge_job.status = 'running'")
_WAITING: Final = text("knowledge_job.status = 'pending' AND knowledge_job.published_at IS NULL")
_FLYING: Final = text("knowledge_job.status IN ('pending', 'running') AND knowledge_job.published_at IS NOT NULL")

CANCELLED: Final = "cancelled"  #: error of a row closed on request
JOB_ABANDONED: Final = "job_abandoned"  #: error of an abandon row whose run was lost
LEASE_REVOKED: Final = "lease_revoked"  #: error of a row that did not stop when asked

KEEP_TERMINAL_DAYS: Final = 7
KEEP_TERMINAL_PER_TYPE: Final = 100


# enqueue ---------------------------------------------------------------------------------------------------------------------


def enqueue(tx: Tx, spec: JobSpec, *, shard: str) -> JobId:
    """Insert a job in the caller's transaction; if an active one has the same key, its id is returned instead."""
    return enqueue_all(tx, [spec], shard=shard)[0]


def enqueue_all(tx: Tx, specs: Sequence[JobSpec], *, shard: str) -> list[JobId]:
    """The same for many; ids in the order of the specs."""
    if not specs:
        return []
    now = utc_now()
    ids = [new_job_id() for _ in specs]
    tx.execute(
        insert_new(tx, JOB),
        [
            {
                "id": job_id,
                "type": spec.type,
                "base_id": spec.base_id,
                "shard": shard,
                "track": spec.kind.track,
                "recovery": spec.kind.recovery,
                "status": JobStatus.PENDING,
                "priority": spec.priority,
                "idempotency_key": spec.idempotency_key,
                "parent_id": spec.parent_id,
                "attempt": 0,
                "losses": 0,
                "publishes": 0,
                "scheduled_at": now,
                "error_detail": {},
                "progress": {},
                "created_at": now,
                "updated_at": now,
            }
            for job_id, spec in zip(ids, specs, strict=True)
        ],
    )
    inserted = set(tx.scalars(select(JOB.c.id).where(JOB.c.id.in_(id_set(ids)))))
    links: list[dict[str, str]] = []
    for position, (job_id, spec) in enumerate(zip(ids, specs, strict=True)):
        if job_id in inserted:
            links.extend({"job_id": job_id, "item_id": item_id} for item_id in spec.item_ids)
        else:
            ids[position] = JobId(tx.execute(select(JOB.c.id).where(_holds_key(spec.idempotency_key))).scalar_one())
    if links:
        tx.execute(JOB_ITEM.insert(), links)
    return ids


def _holds_key(key: str) -> ColumnElement[bool]:
    return (JOB.c.idempotency_key == key) & JOB.c.status.in_(ACTIVE_JOB) & JOB.c.cancel_requested_at.is_(None)


# the window and publishing ---------------------------------------------------------------------------------------------------


def has_due(tx: Tx, base_id: BaseId, now: datetime) -> bool:
    """Whether a job of this base waits to be published."""
    return bool(tx.scalar(select(exists().where(_WAITING, JOB.c.base_id == base_id, JOB.c.scheduled_at <= now))))


def bases_with_due(tx: Tx, now: datetime) -> list[BaseId]:
    """Bases with a job that waits to be published; a look-up per base, whatever the backlog."""
    due = exists().where(_WAITING, JOB.c.base_id == BASE.c.id, JOB.c.scheduled_at <= now)
    return [BaseId(base_id) for base_id in tx.scalars(select(BASE.c.id).where(due))]


def take_due(tx: Tx, base_id: BaseId, window: int, now: datetime) -> list[Job]:
    """Mark as published what may be published now: index jobs inside the window of the base, checks inside theirs, deletes all.

    The caller publishes after the commit and calls `clear_published` for what it could not send.
    """
    taken: list[Row[Any]] = []
    for track, types in ((Track.INDEX, None), (Track.CONTROL, False), (Track.CONTROL, True)):
        check = JOB.c.type == JobType.CHECK_FILE_PROCESSING_RESULT
        only = [] if types is None else [check if types else ~check]
        waiting = select(JOB).where(
            _WAITING, JOB.c.base_id == base_id, JOB.c.track == track, JOB.c.scheduled_at <= now, JOB.c.after.is_(None), *only
        )
        waiting = waiting.order_by(JOB.c.priority, JOB.c.scheduled_at, JOB.c.id)
        if types is not False:
            room = window - _flying(tx, base_id, track, *only)
            if room <= 0:
                continue
            waiting = waiting.limit(room)
        taken.extend(tx.execute(waiting).all())
    if taken:
        tx.execute(
            update(JOB)
            .where(JOB.c.id.in_(id_set(row.id for row in taken)))
            .values(published_at=now, publishes=JOB.c.publishes + 1, updated_at=now)
        )
    return _jobs(tx, taken)


def _flying(tx: Tx, base_id: BaseId, track: Track, *only: ColumnElement[bool]) -> int:
    """How many jobs are in the window: published and not ended."""
    return (
        tx.scalar(select(func.count()).select_from(JOB).where(_FLYING, JOB.c.base_id == base_id, JOB.c.track == track, *only))
        or 0
    )


def clear_published(tx: Tx, job_ids: Sequence[str]) -> None:
    """These waiting rows have no message in the broker."""
    tx.execute(update(JOB).where(JOB.c.id.in_(id_set(job_ids)), JOB.c.status == JobStatus.PENDING).values(published_at=None))


def published_waiting(tx: Tx, older_than: datetime) -> list[Job]:
    """Rows published before this and not claimed since, oldest first."""
    rows = tx.execute(
        select(JOB)
        .where(_FLYING, JOB.c.status == JobStatus.PENDING, JOB.c.published_at < older_than)
        .order_by(JOB.c.published_at)
        .limit(1000)
    ).all()
    return _jobs(tx, rows)


def clear_all_published(tx: Tx) -> int:
    """Every waiting row lost its message: the broker lost its memory."""
    return tx.execute(update(JOB).where(_FLYING, JOB.c.status == JobStatus.PENDING).values(published_at=None)).rowcount


# claim and lease -------------------------------------------------------------------------------------------------------------


class Refusal(StrEnum):
    """Why a message is dropped."""

    GONE = "gone"  #: terminal or absent
    NOT_YET = "not_yet"  #: not due, or another job must end first
    TAKEN = "taken"  #: running under a live lease
    LOST = "lost"  #: running, but its lease is over: somebody must settle it first


def claim(tx: Tx, job_id: JobId, owner: Owner, lease_seconds: float) -> Job | Refusal:
    """Pending → running for this owner, or why not."""
    now = utc_now()
    row = tx.execute(select(JOB).where(JOB.c.id == job_id)).one_or_none()
    if row is None or row.status not in ACTIVE_JOB:
        return Refusal.GONE
    if row.status is JobStatus.RUNNING:
        return Refusal.TAKEN if row.lease_until > now else Refusal.LOST
    if row.after or row.scheduled_at > now:
        return Refusal.NOT_YET
    return _start(tx, row, owner, lease_seconds, now)


def claim_next(tx: Tx, job: Job, owner: Owner, lease_seconds: float, window: int) -> Job | None:
    """The next waiting row of the same base and type, in the window slot that `job` has just left."""
    now = utc_now()
    if _flying(tx, job.base_id, job.kind.track) >= window:
        return None
    row = tx.execute(
        select(JOB)
        .where(
            _WAITING,
            JOB.c.base_id == job.base_id,
            JOB.c.track == job.kind.track,
            JOB.c.scheduled_at <= now,
            JOB.c.after.is_(None),
        )
        .order_by(JOB.c.priority, JOB.c.scheduled_at, JOB.c.id)
        .limit(1)
    ).one_or_none()
    if row is None or row.type is not job.type:
        return None
    return _start(tx, row, owner, lease_seconds, now)


def _start(tx: Tx, row: Row[Any], owner: Owner, lease_seconds: float, now: datetime) -> Job:
    tx.execute(
        update(JOB)
        .where(JOB.c.id == row.id)
        .values(
            status=JobStatus.RUNNING,
            run_token=uuid.uuid4().hex,
            owner_host=owner.host,
            owner_pid=owner.pid,
            owner_started=owner.started,
            lease_until=now + timedelta(seconds=lease_seconds),
            published_at=row.published_at or now,
            started_at=now,
            drain_until=None,
            updated_at=now,
        )
    )
    return get(tx, JobId(row.id))


@dataclass(frozen=True, slots=True)
class Standing:
    """How a run stands with its row."""

    is_ours: bool
    cancel_requested: bool = False
    drain_until: datetime | None = None


def standing(tx: Tx, job: Job) -> Standing:
    row = tx.execute(
        select(JOB.c.run_token, JOB.c.cancel_requested_at, JOB.c.drain_until).where(JOB.c.id == job.id)
    ).one_or_none()
    if row is None or row.run_token != job.run_token:
        return Standing(is_ours=False)
    return Standing(True, row.cancel_requested_at is not None, row.drain_until)


def renew(tx: Tx, job: Job, lease_seconds: float, progress: Mapping[str, object]) -> Standing:
    """Prolong the lease if it is still ours."""
    now = utc_now()
    tx.execute(
        update(JOB)
        .where(_ours(job))
        .values(lease_until=now + timedelta(seconds=lease_seconds), progress=dict(progress), updated_at=now)
    )
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


# ends ------------------------------------------------------------------------------------------------------------------------


def finish(tx: Tx, job: Job) -> None:
    """The run has done its work. Raises `LeaseLost` if the row is not ours any more."""
    _close(tx, job, JobStatus.COMPLETED, None, {})
    tx.execute(update(JOB).where(JOB.c.after == job.id).values(after=None, scheduled_at=utc_now()))


def fail(tx: Tx, job: Job, code: str, detail: Mapping[str, object]) -> None:
    _close(tx, job, JobStatus.FAILED, code, detail)
    _close_followers(tx, [job.id], code)


def cancel(tx: Tx, job: Job, code: str) -> None:
    """The run stops without having done its work."""
    _close(tx, job, JobStatus.CANCELLED, code, {})
    _close_followers(tx, [job.id], code)


def put_back(
    tx: Tx,
    job: Job,
    *,
    delay_seconds: float,
    attempt: bool = False,
    error: str | None = None,
    detail: Mapping[str, object] | None = None,
) -> None:
    """Running → pending, due after a delay. `attempt` counts this execution as one that failed."""
    now = utc_now()
    changed = tx.execute(
        update(JOB)
        .where(_ours(job))
        .values(
            status=JobStatus.PENDING,
            run_token=None,
            lease_until=None,
            published_at=None,
            drain_until=None,
            attempt=JOB.c.attempt + (1 if attempt else 0),
            scheduled_at=now + timedelta(seconds=delay_seconds),
            error=error,
            error_detail=dict(detail or {}),
            updated_at=now,
        )
    ).rowcount
    if not changed:
        raise LeaseLost(job_id=job.id)


def _close(tx: Tx, job: Job, status: JobStatus, code: str | None, detail: Mapping[str, object]) -> None:
    if not tx.execute(update(JOB).where(_ours(job)).values(**_terminal(status, code, detail))).rowcount:
        raise LeaseLost(job_id=job.id)


def _close_followers(tx: Tx, job_ids: Sequence[str], code: str) -> None:
    """A chain whose link did not succeed ends with it."""
    while job_ids:
        job_ids = list(tx.scalars(select(JOB.c.id).where(JOB.c.after.in_(id_set(job_ids)), _ACTIVE)))
        if job_ids:
            tx.execute(update(JOB).where(JOB.c.id.in_(id_set(job_ids))).values(**_terminal(JobStatus.CANCELLED, code, {})))


def _terminal(status: JobStatus, code: str | None, detail: Mapping[str, object]) -> dict[str, Any]:
    now = utc_now()
    return {
        "status": status,
        "run_token": None,
        "lease_until": None,
        "finished_at": now,
        "updated_at": now,
        "error": code,
        "error_detail": dict(detail),
    }


def _ours(job: Job) -> ColumnElement[bool]:
    return (JOB.c.id == job.id) & (JOB.c.run_token == job.run_token)


# cancel ----------------------------------------------------------------------------------------------------------------------


def cancel_touching(tx: Tx, base_id: BaseId, roots: Sequence[ItemId]) -> None:
    """Close the waiting jobs of these subtrees and ask the running ones to stop; other deletes are left alone."""
    touched = _touching(base_id, roots)
    waiting = list(tx.scalars(select(JOB.c.id).where(touched, JOB.c.status == JobStatus.PENDING)))
    _cancel(tx, waiting, select(JOB.c.id).where(touched, _RUNNING))


def cancel_base(tx: Tx, base_id: BaseId) -> None:
    """The same for every job of a base, deletes included."""
    waiting = list(tx.scalars(select(JOB.c.id).where(_ACTIVE, JOB.c.base_id == base_id, JOB.c.status == JobStatus.PENDING)))
    _cancel(tx, waiting, select(JOB.c.id).where(_RUNNING, JOB.c.base_id == base_id))


def _cancel(tx: Tx, waiting: list[str], running: Any) -> None:
    if waiting:
        tx.execute(update(JOB).where(JOB.c.id.in_(id_set(waiting))).values(**_terminal(JobStatus.CANCELLED, CANCELLED, {})))
        _close_followers(tx, waiting, CANCELLED)
    now = utc_now()
    tx.execute(
        update(JOB)
        .where(JOB.c.id.in_(running), JOB.c.cancel_requested_at.is_(None))
        .values(cancel_requested_at=now, updated_at=now)
    )


def running_touching(tx: Tx, base_id: BaseId, roots: Sequence[ItemId]) -> list[Job]:
    """Jobs of these subtrees, other deletes excluded, that have not settled."""
    return _jobs(tx, tx.execute(select(JOB).where(_touching(base_id, roots), _RUNNING)).all())


def running_in(tx: Tx, base_id: BaseId) -> list[Job]:
    return _jobs(tx, tx.execute(select(JOB).where(_RUNNING, JOB.c.base_id == base_id)).all())


def revoke(tx: Tx, job: Job) -> None:
    """Take a running row from an owner that did not stop; its late writes are refused. The base lock must be held."""
    if tx.execute(update(JOB).where(_ours(job)).values(**_terminal(JobStatus.CANCELLED, LEASE_REVOKED, {}))).rowcount:
        _close_followers(tx, [job.id], LEASE_REVOKED)


def _touching(base_id: BaseId, roots: Sequence[ItemId]) -> ColumnElement[bool]:
    linked = select(JOB_ITEM.c.job_id).where(JOB_ITEM.c.item_id.in_(select(subtree(base_id, roots).c.id)))
    return JOB.c.id.in_(linked) & (JOB.c.base_id == base_id) & (JOB.c.type != JobType.DELETE_SUBTREE)


# recovery --------------------------------------------------------------------------------------------------------------------


def expired(tx: Tx, now: datetime) -> list[Job]:
    """Running rows whose lease is over."""
    return _jobs(tx, tx.execute(select(JOB).where(_RUNNING, JOB.c.lease_until <= now)).all())


def running_on(tx: Tx, host: str) -> list[Job]:
    return _jobs(tx, tx.execute(select(JOB).where(_RUNNING, JOB.c.owner_host == host)).all())


def close_lost(tx: Tx, job: Job) -> bool:
    """End a run whose process is gone: abandon → cancelled, retry → pending. False if it has moved on since `job` was read.

    A cancelled retry job is closed. The base lock must be held; the caller parks the items in the same transaction.
    """
    still_lost = _ours(job) & (JOB.c.lease_until == job.lease_until)
    if job.kind.recovery is Recovery.RETRY and job.cancel_requested_at is None:
        return bool(
            tx.execute(
                update(JOB)
                .where(still_lost)
                .values(
                    status=JobStatus.PENDING,
                    run_token=None,
                    lease_until=None,
                    published_at=None,
                    drain_until=None,
                    losses=JOB.c.losses + 1,
                    scheduled_at=utc_now() + timedelta(seconds=loss_delay_seconds(job)),
                    updated_at=utc_now(),
                )
            ).rowcount
        )
    code = CANCELLED if job.cancel_requested_at else JOB_ABANDONED
    closed = tx.execute(update(JOB).where(still_lost).values(**_terminal(JobStatus.CANCELLED, code, {}))).rowcount
    if closed:
        _close_followers(tx, [job.id], code)
    return bool(closed)


def loss_delay_seconds(job: Job) -> float:
    """How long a retry job waits after its next loss: at once, then doubling, 15 minutes from the eighth on."""
    troubles = job.attempt + job.losses + 1
    if troubles >= STUCK_AFTER:
        return STUCK_BACKOFF_SECONDS
    return 0.0 if troubles == 1 else min(job.kind.backoff_seconds * 2.0 ** (troubles - 2), job.kind.max_backoff_seconds)


def stamp_drain(tx: Tx, host: str, pids: Sequence[int], until: datetime) -> None:
    """Tell the runs of these processes that their worker stops at `until`."""
    tx.execute(update(JOB).where(_RUNNING, JOB.c.owner_host == host, JOB.c.owner_pid.in_(pids)).values(drain_until=until))


def prune(tx: Tx) -> int:
    """Delete terminal rows older than a week, and beyond the newest hundred of each type."""
    old = utc_now() - timedelta(days=KEEP_TERMINAL_DAYS)
    gone = 0
    for job_type in JobType:
        hundredth = tx.scalar(
            select(JOB.c.finished_at)
            .where(JOB.c.type == job_type, JOB.c.finished_at.is_not(None))
            .order_by(JOB.c.finished_at.desc())
            .offset(KEEP_TERMINAL_PER_TYPE)
            .limit(1)
        )
        edge = old if hundredth is None else max(old, hundredth)
        gone += tx.execute(JOB.delete().where(JOB.c.type == job_type, JOB.c.finished_at <= edge)).rowcount
    return gone


# reading ---------------------------------------------------------------------------------------------------------------------


def get(tx: Tx, job_id: JobId) -> Job:
    job = find(tx, job_id)
    if job is None:
        raise JobNotFound(job_id=job_id)
    return job


def find(tx: Tx, job_id: JobId) -> Job | None:
    row = tx.execute(select(JOB).where(JOB.c.id == job_id)).one_or_none()
    return None if row is None else _jobs(tx, [row])[0]


def page(tx: Tx, *, base_id: BaseId | None, statuses: Sequence[JobStatus] | None, limit: int) -> JobPage:
    conditions: list[ColumnElement[bool]] = []
    if base_id is not None:
        conditions.append(JOB.c.base_id == base_id)
    if statuses is not None:
        conditions.append(JOB.c.status.in_(statuses))
    total = tx.scalar(select(func.count()).select_from(JOB).where(*conditions)) or 0
    rows = tx.execute(select(JOB).where(*conditions).order_by(JOB.c.created_at.desc(), JOB.c.id.desc()).limit(limit)).all()
    return JobPage(_jobs(tx, rows), total)


def _jobs(tx: Tx, rows: Sequence[Row[Any]]) -> list[Job]:
    if not rows:
        return []
    links: dict[str, list[ItemId]] = defaultdict(list)
    ids = id_set(row.id for row in rows)
    for link in tx.execute(select(JOB_ITEM).where(JOB_ITEM.c.job_id.in_(ids)).order_by(JOB_ITEM.c.item_id)):
        links[link.job_id].append(ItemId(link.item_id))
    return [_view(row, tuple(links[row.id])) for row in rows]


def _view(row: Row[Any], item_ids: tuple[ItemId, ...]) -> Job:
    owner = Owner(row.owner_host, row.owner_pid, row.owner_started) if row.owner_host else None
    return Job(
        id=JobId(row.id),
        type=row.type,
        base_id=BaseId(row.base_id),
        shard=row.shard,
        item_ids=item_ids,
        status=row.status,
        attempt=row.attempt,
        losses=row.losses,
        publishes=row.publishes,
        scheduled_at=row.scheduled_at,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        published_at=row.published_at,
        lease_until=row.lease_until,
        cancel_requested_at=row.cancel_requested_at,
        run_token=row.run_token,
        owner=owner,
        error=row.error,
        error_detail=row.error_detail,
        progress=row.progress,
    )
