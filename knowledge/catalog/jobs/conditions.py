"""Conditions, values and views that every part of the ledger shares."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, bindparam, false, select, text, update

from knowledge.catalog.rows import JOB, JOB_ITEM
from knowledge.db.columns import utc_now
from knowledge.db.engine import Tx
from knowledge.db.sql import id_list, id_set, id_set_of
from knowledge.model.ids import BaseId, ItemId, JobId
from knowledge.model.jobs import Job, JobStatus, Owner

# Spelled out, because SQLite uses a partial index only for a condition it can read, not for bound values.
ACTIVE: Final = text("knowledge_job.status IN ('pending', 'running')")
RUNNING: Final = text("knowledge_job.status = 'running'")
WAITING: Final = text("knowledge_job.status = 'pending' AND knowledge_job.published_at IS NULL")
KEY_HOLDING: Final = text("knowledge_job.status IN ('pending', 'running') AND knowledge_job.cancel_requested_at IS NULL")
FLYING: Final = text("knowledge_job.status IN ('pending', 'running') AND knowledge_job.published_at IS NOT NULL")
CONVERTING: Final = text(
    "knowledge_job.type = 'knowledge.check-file-processing-result' AND knowledge_job.status IN ('pending', 'running')"
    " AND knowledge_job.started_at IS NOT NULL"
)

CANCELLED: Final = "cancelled"  #: error of a row closed on request
JOB_ABANDONED: Final = "job_abandoned"  #: error of an abandon row whose run was lost
LEASE_REVOKED: Final = "lease_revoked"  #: error of a row that did not stop when asked

# Statements of every job are built once: building one takes longer than running it.
OURS: Final = (JOB.c.id == bindparam("job_id")) & (JOB.c.run_token == bindparam("token"))  #: the parameters of `as_ours`
_LINKS: Final = (
    select(JOB_ITEM).where(JOB_ITEM.c.job_id.in_(id_set_of("job_ids"))).order_by(JOB_ITEM.c.job_id, JOB_ITEM.c.item_id)
)


def ours(job: Job) -> ColumnElement[bool]:
    """The row, while this run owns it; no row for a job that was read while nobody ran it."""
    if job.run_token is None:
        return false()  # compared with None, it would be each row that nobody runs
    return (JOB.c.id == job.id) & (JOB.c.run_token == job.run_token)


def as_ours(job: Job) -> dict[str, Any]:
    """The parameters of `OURS`."""
    return {"job_id": job.id, "token": job.run_token}


def terminal(status: JobStatus, code: str | None, detail: Mapping[str, object]) -> dict[str, Any]:
    """The values of a row that ends now."""
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


def close_followers(tx: Tx, job_ids: Sequence[str], code: str) -> None:
    """A chain whose link did not succeed ends with it."""
    while job_ids:
        job_ids = list(tx.scalars(select(JOB.c.id).where(JOB.c.after.in_(id_set(job_ids)), ACTIVE)))
        if job_ids:
            tx.execute(update(JOB).where(JOB.c.id.in_(id_set(job_ids))).values(**terminal(JobStatus.CANCELLED, code, {})))


def views(tx: Tx, rows: Sequence[Row[Any]]) -> list[Job]:
    """Rows of the ledger with the items they name."""
    if not rows:
        return []
    links: dict[str, list[ItemId]] = defaultdict(list)
    for link in tx.execute(_LINKS, {"job_ids": id_list(row.id for row in rows)}):
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
        parent_id=JobId(row.parent_id) if row.parent_id else None,
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
        input=row.input,
        progress=row.progress,
        after=JobId(row.after) if row.after else None,
    )
