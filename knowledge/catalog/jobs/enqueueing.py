"""A job comes to be: its row is part of the transaction that writes the status it explains."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise

from sqlalchemy import select, update

from knowledge.catalog.jobs.conditions import KEY_HOLDING
from knowledge.catalog.rows import JOB, JOB_ITEM
from knowledge.db.columns import utc_now
from knowledge.db.engine import Tx
from knowledge.db.sql import id_set, insert_new
from knowledge.model.ids import JobId, new_job_id
from knowledge.model.jobs import JobSpec, JobStatus


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
                "input": dict(spec.input),
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
            links.extend({"job_id": job_id, "item_id": item_id} for item_id in dict.fromkeys(spec.item_ids))
        else:
            ids[position] = JobId(
                tx.execute(select(JOB.c.id).where(KEY_HOLDING, JOB.c.idempotency_key == spec.idempotency_key)).scalar_one()
            )
    if links:
        tx.execute(JOB_ITEM.insert(), links)
    return ids


def enqueue_chain(tx: Tx, specs: Sequence[JobSpec], *, shard: str) -> list[JobId]:
    """Insert jobs of which each may run only when the one before it has succeeded.

    Until then it is due in a hundred years: whoever looks for what may run now must not come across thousands that may not.
    """
    ids = enqueue_all(tx, specs, shard=shard)
    never = utc_now() + timedelta(days=36_500)
    for earlier, later in pairwise(ids):
        tx.execute(update(JOB).where(JOB.c.id == later).values(after=earlier, scheduled_at=never))
    return ids
