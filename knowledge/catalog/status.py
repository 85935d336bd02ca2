"""The only writer of `knowledge_item.status`.

A row that is `deleting` never leaves that status except by being removed. Status and error are written together. Whoever
changes a status recomputes the containers above it in the same transaction.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, bindparam, exists, or_, select, update

from knowledge.catalog.items import find_wanted, view
from knowledge.catalog.rows import IS_CONTAINER, ITEM
from knowledge.catalog.tree import subtree
from knowledge.db.columns import utc_now
from knowledge.db.engine import Tx
from knowledge.db.sql import id_set
from knowledge.errors import InvalidInput
from knowledge.model.ids import BaseId, ItemId
from knowledge.model.jobs import Job, JobType
from knowledge.model.quality import Quality
from knowledge.model.status import ACTIVE, CHILD_FAILED, CONTAINERS, INDEX_LOST, TERMINAL, ItemStatus, Notice
from knowledge.model.views import Item

_UNFINISHED: Final = frozenset(ItemStatus) - TERMINAL - {ItemStatus.DELETING}


def _has_child(statuses: Collection[ItemStatus]) -> ColumnElement[bool]:
    child = ITEM.alias()
    return exists().where(
        child.c.base_id == ITEM.c.base_id, child.c.group_id == ITEM.c.id, child.c.status.in_(sorted(statuses))
    )


# Built once: every job runs these several times, and building a statement takes longer than running it.
_ONE: Final = update(ITEM).where(ITEM.c.id == bindparam("item_id"))
_ONE_VISIBLE: Final = _ONE.where(ITEM.c.status != ItemStatus.DELETING)
_ONE_AND_READ: Final = _ONE.returning(ITEM)
_CONTAINER: Final = select(
    ITEM.c.type,
    ITEM.c.status,
    ITEM.c.error,
    ITEM.c.group_id,
    ITEM.c.expanded_at,
    _has_child(_UNFINISHED).label("has_unfinished"),
    _has_child([ItemStatus.FAILED]).label("has_failed"),
).where(ITEM.c.base_id == bindparam("base_id"), ITEM.c.id == bindparam("item_id"))


def begin(tx: Tx, item_id: ItemId, status: ItemStatus, *, unless: ItemStatus | None = None) -> Item | None:
    """Set an active status and clear the error; None if the item is gone, `deleting`, or its base is being deleted.

    Args:
        unless: an item in this status is left alone, and None is returned.
    """
    if status not in ACTIVE:
        raise ValueError(f"{status} is not an active status")
    item = find_wanted(tx, item_id)
    if item is None or item.status is unless:
        return None
    begun = view(tx.execute(_ONE_AND_READ, {"item_id": item_id, **_values(status)}).one())
    if item.status not in ACTIVE:
        reconcile(tx, item.base_id, [item.group_id])
    return begun


def complete(tx: Tx, item: Item, *, chunk_count: int, notices: Collection[Notice], quality: Quality | None = None) -> None:
    """A leaf has its material in the index.

    Args:
        quality: what its reader found; None leaves what is known.
    """
    values = _values(ItemStatus.COMPLETED, chunk_count=chunk_count, notices=sorted(notices))
    if quality is not None:
        values["quality"] = {name: value for name, value in asdict(quality).items() if value is not None}
    tx.execute(_ONE_VISIBLE, {"item_id": item.id, **values})
    reconcile(tx, item.base_id, [item.group_id])


def fail(tx: Tx, item: Item, code: str, detail: Mapping[str, object]) -> None:
    """One item has failed for a reason of its own; a container keeps that reason until something below it changes."""
    if not code.strip():
        raise InvalidInput("A failure needs a reason.", item_id=item.id)
    _write(
        tx,
        and_(ITEM.c.id == item.id, ITEM.c.status != ItemStatus.DELETING),
        ItemStatus.FAILED,
        error=code,
        error_detail=dict(detail),
    )
    reconcile(tx, item.base_id, [item.group_id])


def fail_expansion(tx: Tx, base_id: BaseId, item_id: ItemId, code: str, detail: Mapping[str, object]) -> None:
    """A container inside another could not be read: it keeps that reason until it is expanded again."""
    _write(
        tx,
        and_(ITEM.c.base_id == base_id, ITEM.c.id == item_id, ITEM.c.status != ItemStatus.DELETING),
        ItemStatus.FAILED,
        error=code,
        error_detail=dict(detail),
        expanded_at=None,
    )
    reconcile(tx, base_id, tx.scalars(select(ITEM.c.group_id).where(ITEM.c.id == item_id)).all())


def park(tx: Tx, base_id: BaseId, item_ids: Collection[str], code: str, detail: Mapping[str, object]) -> list[ItemId]:
    """Fail those of these items that are in an active status: their job is gone and nobody works on them. Returns their ids."""
    if not code.strip():
        raise InvalidInput("A failure needs a reason.")
    active = tx.execute(
        select(ITEM.c.id, ITEM.c.group_id).where(
            ITEM.c.base_id == base_id, ITEM.c.id.in_(id_set(item_ids)), ITEM.c.status.in_(ACTIVE)
        )
    ).all()
    parked = [ItemId(row.id) for row in active]
    if parked:
        _write(tx, ITEM.c.id.in_(id_set(parked)), ItemStatus.FAILED, error=code, error_detail=dict(detail))
        reconcile(tx, base_id, {row.group_id for row in active} - set(parked))
    return parked


def park_unfinished(tx: Tx, job: Job, code: str, detail: Mapping[str, object]) -> list[ItemId]:
    """Park what a job that will not go on leaves unfinished: its items, and folders below whose expansion it did not end."""
    if job.type is JobType.REINDEX_SUBTREE:
        return _fail_roots(tx, job, code, {**detail, "job_id": job.id})
    halfway = tx.scalars(
        select(ITEM.c.id).where(
            ITEM.c.id.in_(select(subtree(job.base_id, job.item_ids).c.id)),
            IS_CONTAINER,
            ITEM.c.expanded_at.is_(None),
        )
    )
    return park(tx, job.base_id, {*job.item_ids, *halfway}, code, {**detail, "job_id": job.id})


def park_cancelled(tx: Tx, job: Job, code: str, detail: Mapping[str, object]) -> None:
    """The same for a job that was asked to stop; a reindex leaves its roots alone, unless they lack their first vectors."""
    if job.type is not JobType.REINDEX_SUBTREE or job.input.get("backfill"):
        park_unfinished(tx, job, code, detail)


def _fail_roots(tx: Tx, job: Job, code: str, detail: Mapping[str, object]) -> list[ItemId]:
    """Show that a reindex was not done: it makes nothing active before its last commit, so nothing else would tell.

    What the items had in the index stays. A directory's expansion counts as not ended, so that no change below it makes the
    failure disappear. A leaf that another job works on, or a directory that one expands, is left to that job.
    """
    is_busy_folder = IS_CONTAINER & (ITEM.c.status == ItemStatus.PROCESSING)
    rows = tx.execute(
        select(ITEM.c.id, ITEM.c.group_id, ITEM.c.type).where(
            ITEM.c.base_id == job.base_id,
            ITEM.c.id.in_(id_set(set(job.item_ids) - set(job.roots_done))),
            or_(ITEM.c.status.in_(TERMINAL), is_busy_folder),
        )
    ).all()
    if not rows:
        return []
    containers = [row.id for row in rows if row.type in CONTAINERS]
    _write(tx, ITEM.c.id.in_(id_set(row.id for row in rows)), ItemStatus.FAILED, error=code, error_detail=dict(detail))
    if containers:
        tx.execute(update(ITEM).where(ITEM.c.id.in_(id_set(containers))).values(expanded_at=None))
    reconcile(tx, job.base_id, {row.group_id for row in rows})
    return [ItemId(row.id) for row in rows]


def lose_material(tx: Tx, base_id: BaseId, detail: Mapping[str, object]) -> int:
    """The index of a base is gone: what was completed by being in it is `failed`. Returns how many leaves had material.

    What is being worked on goes on, and what failed for another reason keeps that reason; both have no material any more.
    """
    held = (ITEM.c.base_id == base_id) & ~IS_CONTAINER & (ITEM.c.chunk_count > 0)
    rows = tx.execute(select(ITEM.c.id, ITEM.c.group_id, ITEM.c.status).where(held, ITEM.c.status != ItemStatus.DELETING)).all()
    done = [row for row in rows if row.status is ItemStatus.COMPLETED]
    _write(tx, ITEM.c.id.in_(id_set(row.id for row in done)), ItemStatus.FAILED, error=INDEX_LOST, error_detail=dict(detail))
    tx.execute(update(ITEM).where(ITEM.c.id.in_(id_set(row.id for row in rows))).values(chunk_count=None))
    reconcile(tx, base_id, {row.group_id for row in done})
    return len(rows)


def mark_deleting(tx: Tx, base_id: BaseId, roots: Sequence[ItemId]) -> None:
    """Hide whole subtrees in one statement. Parents change only when the rows are gone."""
    below = select(subtree(base_id, roots).c.id)
    _write(tx, and_(ITEM.c.base_id == base_id, ITEM.c.id.in_(below)), ItemStatus.DELETING)


def restart_expansion(tx: Tx, item: Item) -> None:
    """A container is about to be expanded (again)."""
    _write(tx, and_(ITEM.c.id == item.id, ITEM.c.status != ItemStatus.DELETING), ItemStatus.PREPARING, expanded_at=None)
    reconcile(tx, item.base_id, [item.group_id])


def finish_expansion(tx: Tx, root: Item, notices: Collection[Notice]) -> None:
    """Every child of this container has its row and its job: from now on its status is that of its children."""
    containers = tx.execute(
        select(ITEM.c.id, ITEM.c.relative_path).where(
            ITEM.c.id.in_(select(subtree(root.base_id, [root.id]).c.id)),
            IS_CONTAINER,
            ITEM.c.status != ItemStatus.DELETING,
        )
    ).all()
    _write(tx, ITEM.c.id.in_(id_set(row.id for row in containers)), ItemStatus.PROCESSING, expanded_at=utc_now())
    tx.execute(update(ITEM).where(ITEM.c.id == root.id).values(notices=sorted(notices)))
    deepest_first = sorted(containers, key=lambda row: (row.relative_path or "").count("/"), reverse=True)
    reconcile(tx, root.base_id, [row.id for row in deepest_first])


def reconcile(tx: Tx, base_id: str, start: Iterable[str | None]) -> None:
    """Recompute containers from their immediate children, bottom-up from `start`.

    A container that is `preparing`, or whose expansion never ended (`expanded_at` empty), keeps what it has; one that is
    `deleting`, gone, or unchanged ends its branch.
    """
    pending = dict.fromkeys(item_id for item_id in start if item_id)  # in order; one that is done may come in again from below
    while pending:
        item_id = next(iter(pending))
        del pending[item_id]
        row = tx.execute(_CONTAINER, {"base_id": base_id, "item_id": item_id}).one_or_none()
        if row is None or row.type not in CONTAINERS or row.status is ItemStatus.DELETING:
            continue
        if row.status is not ItemStatus.PREPARING and row.expanded_at is not None:
            status, error = _from_children(row.has_unfinished, row.has_failed)
            if (status, error) == (row.status, row.error):
                continue
            tx.execute(_ONE, {"item_id": item_id, **_values(status, error=error)})
        if row.group_id:
            pending[row.group_id] = None


def _from_children(has_unfinished: bool, has_failed: bool) -> tuple[ItemStatus, str | None]:
    if has_unfinished:
        return ItemStatus.PROCESSING, None
    if has_failed:
        return ItemStatus.FAILED, CHILD_FAILED
    return ItemStatus.COMPLETED, None


def _write(tx: Tx, where: ColumnElement[bool], status: ItemStatus, *, error: str | None = None, **more: Any) -> None:
    tx.execute(update(ITEM).where(where).values(**_values(status, error=error, **more)))


def _values(status: ItemStatus, *, error: str | None = None, **more: Any) -> dict[str, Any]:
    return {"status": status, "error": error, "error_detail": {}, "updated_at": utc_now(), **more}
