"""What may be asked of the ledger, and how long ended rows are kept: they decide nothing."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, case, func, or_, select

from knowledge.catalog.jobs.conditions import views
from knowledge.catalog.rows import BASE, JOB, JOB_ITEM
from knowledge.db.columns import utc_now
from knowledge.db.engine import Tx
from knowledge.db.sql import id_set
from knowledge.errors import JobNotFound
from knowledge.model.arguments import require_whole, require_words
from knowledge.model.ids import BaseId, ItemId, JobId
from knowledge.model.jobs import ACTIVE_JOB, Job, JobStatus, JobType
from knowledge.model.results import JobPage

KEEP_TERMINAL_DAYS: Final = 7
KEEP_COMPLETED_PER_TYPE: Final = 100
KEEP_OF_GONE_BASES: Final = timedelta(hours=1)  #: recovery looks back so long for stopped processes that lost their job
PRUNED_AT_ONCE: Final = 5_000  #: rows of bases that are gone; an import of fifty thousand files must not keep writers waiting
MAX_PAGE: Final = 1000


def _named_bases() -> Select[Any]:
    """Every base that a job names, by one look-up each in the index, and not by a walk over the jobs."""
    first = select(func.min(JOB.c.base_id).label("id")).cte("named", recursive=True)
    later = select(func.min(JOB.c.base_id)).where(JOB.c.base_id > first.c.id).scalar_subquery()
    named = first.union_all(select(later).where(first.c.id.is_not(None)))
    return select(named.c.id).where(named.c.id.is_not(None))


_NAMED_BASES: Final = _named_bases()


def get(tx: Tx, job_id: JobId) -> Job:
    job = find(tx, job_id)
    if job is None:
        raise JobNotFound(job_id=job_id)
    return job


def find(tx: Tx, job_id: JobId) -> Job | None:
    row = tx.execute(select(JOB).where(JOB.c.id == job_id)).one_or_none()
    return None if row is None else views(tx, [row])[0]


def active_ids(tx: Tx, job_ids: Collection[str]) -> set[str]:
    """Those of these jobs that have not ended."""
    return set(tx.scalars(select(JOB.c.id).where(JOB.c.id.in_(id_set(job_ids)), JOB.c.status.in_(ACTIVE_JOB))))


def is_backfill(tx: Tx, job: Job) -> bool:
    """Whether it is part of the reindex that gives a base its first vectors."""
    parent_id: str | None = job.parent_id
    while parent_id is not None:
        row = tx.execute(select(JOB.c.input, JOB.c.parent_id).where(JOB.c.id == parent_id)).one_or_none()
        if row is None or row.input.get("backfill"):
            return row is not None
        parent_id = row.parent_id
    return False


def last_of_item(tx: Tx, item_id: ItemId) -> Job | None:
    """The active job that names this item, of a chain the link that is at work; else the last one that ended."""
    is_ended = case((JOB.c.status.in_(ACTIVE_JOB) & JOB.c.after.is_(None), 0), (JOB.c.status.in_(ACTIVE_JOB), 1), else_=2)
    row = tx.execute(
        select(JOB)
        .join(JOB_ITEM, JOB_ITEM.c.job_id == JOB.c.id)
        .where(JOB_ITEM.c.item_id == item_id)
        .order_by(is_ended, JOB.c.created_at.desc(), JOB.c.id.desc())
        .limit(1)
    ).one_or_none()
    return None if row is None else views(tx, [row])[0]


def page(tx: Tx, *, base_id: BaseId | None, statuses: Sequence[JobStatus] | None, limit: int) -> JobPage:
    """Newest first. Raises `InvalidInput` unless 1 <= `limit` <= 1,000, or for a status that there is not."""
    require_whole("limit", limit, MAX_PAGE)
    conditions: list[ColumnElement[bool]] = []
    if base_id is not None:
        conditions.append(JOB.c.base_id == base_id)
    if statuses is not None:
        conditions.append(JOB.c.status.in_(require_words("statuses", statuses, JobStatus)))
    total = tx.scalar(select(func.count()).select_from(JOB).where(*conditions)) or 0
    rows = tx.execute(select(JOB).where(*conditions).order_by(JOB.c.created_at.desc(), JOB.c.id.desc()).limit(limit)).all()
    return JobPage(views(tx, rows), total)


def prune(tx: Tx) -> int:
    """Delete terminal rows older than a week, and all but the newest hundred completed ones of each type; returns how many.

    Rows of bases that are gone go as well, an hour after they ended, up to five thousand at once. Others that failed or were
    cancelled stay their week: somebody has yet to read why, and a busy hour must not push them out.
    """
    old = utc_now() - timedelta(days=KEEP_TERMINAL_DAYS)
    gone = 0
    for job_type in JobType:
        ended = (JOB.c.type == job_type) & JOB.c.finished_at.is_not(None)
        beyond = (
            select(JOB.c.id)
            .where(ended, JOB.c.status == JobStatus.COMPLETED)
            .order_by(JOB.c.finished_at.desc(), JOB.c.id.desc())
            .offset(KEEP_COMPLETED_PER_TYPE)
        )
        gone += tx.execute(JOB.delete().where(ended, or_(JOB.c.finished_at < old, JOB.c.id.in_(beyond)))).rowcount
    return gone + _prune_of_gone_bases(tx)


def _prune_of_gone_bases(tx: Tx) -> int:
    gone = set[str](tx.scalars(_NAMED_BASES)) - set(tx.scalars(select(BASE.c.id)))
    if not gone:
        return 0
    ended = JOB.c.base_id.in_(id_set(gone)) & (JOB.c.finished_at < utc_now() - KEEP_OF_GONE_BASES)
    return tx.execute(JOB.delete().where(JOB.c.id.in_(select(JOB.c.id).where(ended).limit(PRUNED_AT_ONCE)))).rowcount
