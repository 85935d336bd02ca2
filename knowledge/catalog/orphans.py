"""What recovery looks for: rows that claim work nobody does. Reads only.

No transaction of ours leaves an active item without a job, so whatever is found here was lost, and no age has to be waited for.
"""

from collections import defaultdict
from collections.abc import Collection
from typing import Any

from sqlalchemy import Exists, Select, exists, select, text

from knowledge.catalog.rows import BASE, IS_CONTAINER, ITEM, JOB, JOB_ITEM
from knowledge.db.engine import Tx
from knowledge.model.ids import BaseId, ItemId
from knowledge.model.jobs import ACTIVE_JOB, JobType
from knowledge.model.status import ACTIVE, ItemStatus

_UNSETTLED = text("knowledge_item.status IN ('preparing', 'processing', 'reading', 'embedding', 'deleting')")
_EXPANDING = (JobType.PREPARE_ROOT, JobType.REINDEX_SUBTREE)


def leaves_without_job(tx: Tx) -> dict[BaseId, list[ItemId]]:
    """Leaves in an active status that no active job names."""
    statement = select(ITEM.c.base_id, ITEM.c.id).where(_UNSETTLED, ITEM.c.status.in_(ACTIVE), ~IS_CONTAINER, ~_named_by_job())
    return _by_base(tx, statement)


def containers_without_work(tx: Tx) -> dict[BaseId, list[tuple[ItemId, bool]]]:
    """Containers in an active status without a job that expands them or an ancestor, and without an active child.

    The flag says whether their expansion ever ended.
    """
    found: dict[BaseId, list[tuple[ItemId, bool]]] = defaultdict(list)
    candidates = tx.execute(
        select(ITEM.c.base_id, ITEM.c.id, ITEM.c.expanded_at).where(_UNSETTLED, ITEM.c.status.in_(ACTIVE), IS_CONTAINER)
    ).all()
    for row in candidates:
        if not _has_unfinished_child(tx, row.base_id, row.id) and not _is_being_expanded(tx, row.base_id, row.id):
            found[BaseId(row.base_id)].append((ItemId(row.id), row.expanded_at is not None))
    return found


def deletes_without_job(tx: Tx) -> dict[BaseId, list[ItemId]]:
    """Outermost `deleting` rows that no active delete job names, in bases that are not being deleted themselves."""
    parent = ITEM.alias("parent")
    below_deleting = exists().where(
        parent.c.base_id == ITEM.c.base_id, parent.c.id == ITEM.c.group_id, parent.c.status == ItemStatus.DELETING
    )
    statement = (
        select(ITEM.c.base_id, ITEM.c.id)
        .join(BASE, BASE.c.id == ITEM.c.base_id)
        .where(
            _UNSETTLED,
            ITEM.c.status == ItemStatus.DELETING,
            BASE.c.deleting_at.is_(None),
            ~below_deleting,
            ~_named_by_job([JobType.DELETE_SUBTREE]),
        )
    )
    return _by_base(tx, statement)


def _named_by_job(types: Collection[JobType] = tuple(JobType)) -> Exists:
    active = exists().where(JOB.c.id == JOB_ITEM.c.job_id, JOB.c.status.in_(ACTIVE_JOB), JOB.c.type.in_(types))
    return exists().where(JOB_ITEM.c.item_id == ITEM.c.id, active)  # nested, so that the few links of the item come first


def _has_unfinished_child(tx: Tx, base_id: str, container_id: str) -> bool:
    child = exists().where(ITEM.c.base_id == base_id, ITEM.c.group_id == container_id, ITEM.c.status.in_(ACTIVE))
    return bool(tx.scalar(select(child)))


def _is_being_expanded(tx: Tx, base_id: str, container_id: str) -> bool:
    own = select(ITEM.c.base_id, ITEM.c.id, ITEM.c.group_id).where(ITEM.c.base_id == base_id, ITEM.c.id == container_id)
    chain = own.cte("chain", recursive=True)
    parent = select(ITEM.c.base_id, ITEM.c.id, ITEM.c.group_id)
    chain = chain.union(parent.where(ITEM.c.base_id == chain.c.base_id, ITEM.c.id == chain.c.group_id))
    active = exists().where(JOB.c.id == JOB_ITEM.c.job_id, JOB.c.status.in_(ACTIVE_JOB), JOB.c.type.in_(_EXPANDING))
    return bool(tx.scalar(select(exists().where(JOB_ITEM.c.item_id.in_(select(chain.c.id)), active))))


def _by_base(tx: Tx, statement: Select[Any]) -> dict[BaseId, list[ItemId]]:
    found: dict[BaseId, list[ItemId]] = defaultdict(list)
    for base_id, item_id in tx.execute(statement):
        found[BaseId(base_id)].append(ItemId(item_id))
    return found
