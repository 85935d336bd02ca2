"""Questions about subtrees. Unknown roots are ignored; rows that are `deleting` are included unless said otherwise."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import CTE, Select, exists, func, or_, select

from knowledge.catalog.items import view
from knowledge.catalog.rows import IS_CONTAINER, ITEM
from knowledge.db.engine import Tx
from knowledge.db.sql import id_set
from knowledge.errors import ItemNotFound, ItemNotInBase
from knowledge.model.arguments import require_whole
from knowledge.model.ids import BaseId, ItemId
from knowledge.model.results import StatusCounts
from knowledge.model.status import ACTIVE, CHILD_FAILED, INDEX_LOST, INDEXING_INTERRUPTED, TERMINAL, ItemStatus, ItemType
from knowledge.model.views import Item

MAX_FAILURES: Final = 1_000


def subtree(base_id: BaseId, roots: Sequence[str]) -> CTE:
    """The ids of these roots and everything below them, for use inside one statement."""
    return descending(
        select(ITEM.c.base_id, ITEM.c.id).where(ITEM.c.base_id == base_id, ITEM.c.id.in_(id_set(roots))), "subtree"
    )


def descending(start: Select[Any], name: str) -> CTE:
    """These rows (`base_id`, `id`) and everything below them.

    The base comes along with each row: if it were a fixed value, SQLite would walk the whole base for every row found.
    """
    above = start.cte(name, recursive=True)
    below = select(ITEM.c.base_id, ITEM.c.id).where(ITEM.c.base_id == above.c.base_id, ITEM.c.group_id == above.c.id)
    return above.union(below)


def outermost(tx: Tx, base_id: BaseId, item_ids: Sequence[ItemId]) -> list[ItemId]:
    """The selection without duplicates and without picks that lie below other picks, in the order given.

    Raises:
        ItemNotFound: an id that no base has; details name all such ids.
        ItemNotInBase: an id of another base; details name all such ids.
    """
    wanted = list(dict.fromkeys(item_ids))
    if not wanted:
        return []
    homes = {row.id: row.base_id for row in tx.execute(select(ITEM.c.id, ITEM.c.base_id).where(ITEM.c.id.in_(id_set(wanted))))}
    if unknown := [item_id for item_id in wanted if item_id not in homes]:
        raise ItemNotFound(item_ids=list(unknown))
    if foreign := [item_id for item_id in wanted if homes[item_id] != base_id]:
        raise ItemNotInBase(base_id=base_id, item_ids=list(foreign))
    children = select(ITEM.c.base_id, ITEM.c.id).where(ITEM.c.base_id == base_id, ITEM.c.group_id.in_(id_set(wanted)))
    below = descending(children, "below")
    nested = set(tx.scalars(select(below.c.id).where(below.c.id.in_(id_set(wanted)))))
    return [item_id for item_id in wanted if item_id not in nested]


def top(tx: Tx, item: Item) -> Item:
    """The root that this item lies below; the item itself if it is one. What a delete removes meanwhile ends the way up."""
    above = item
    while above.group_id is not None:
        row = tx.execute(select(ITEM).where(ITEM.c.base_id == item.base_id, ITEM.c.id == above.group_id)).one_or_none()
        if row is None:
            break
        above = view(row)
    return above


@dataclass(frozen=True, slots=True)
class Doomed:
    """What a purge must know of a row."""

    id: ItemId
    group_id: ItemId | None
    type: ItemType
    relative_path: str | None
    indexed_path: str | None


_DOOMED: Final = select(ITEM.c.id, ITEM.c.group_id, ITEM.c.type, ITEM.c.relative_path, ITEM.c.indexed_path)


def deleting_ids(tx: Tx, base_id: BaseId, roots: Sequence[ItemId], *, limit: int) -> list[ItemId]:
    """Up to `limit` rows of these subtrees that are `deleting`: leaves first, containers only when no leaf is left."""
    ids = select(subtree(base_id, roots).c.id)
    mine = select(ITEM.c.id).where(ITEM.c.base_id == base_id, ITEM.c.id.in_(ids), ITEM.c.status == ItemStatus.DELETING)
    found = tx.scalars(mine.where(~IS_CONTAINER).limit(limit)).all() or tx.scalars(mine.limit(limit)).all()
    return [ItemId(item_id) for item_id in found]


def still_deleting(tx: Tx, base_id: BaseId, item_ids: Sequence[ItemId]) -> list[Doomed]:
    """Those of these rows that are there and `deleting`."""
    is_doomed = (ITEM.c.base_id == base_id) & (ITEM.c.status == ItemStatus.DELETING)
    return [Doomed(*row) for row in tx.execute(_DOOMED.where(ITEM.c.id.in_(id_set(item_ids)), is_doomed))]


def leaves(tx: Tx, base_id: BaseId, roots: Sequence[ItemId]) -> list[Item]:
    ids = select(subtree(base_id, roots).c.id)
    rows = tx.execute(select(ITEM).where(ITEM.c.id.in_(ids), ~IS_CONTAINER).order_by(ITEM.c.id))
    return [view(row) for row in rows]


def status_counts(tx: Tx, base_id: BaseId, roots: Sequence[ItemId] | None) -> StatusCounts:
    statement = select(IS_CONTAINER, ITEM.c.status, func.count()).where(ITEM.c.base_id == base_id)
    if roots is None:
        statement = statement.where(ITEM.c.status != ItemStatus.DELETING)
    else:
        statement = statement.where(ITEM.c.id.in_(select(subtree(base_id, roots).c.id)))
    counts: dict[bool, Counter[ItemStatus]] = {True: Counter(), False: Counter()}
    for is_container, status, count in tx.execute(statement.group_by(IS_CONTAINER, ITEM.c.status)):
        counts[bool(is_container)][status] += count
    return StatusCounts(leaves=counts[False], containers=counts[True])


def unfinished_leaves(tx: Tx, base_id: BaseId) -> tuple[int, int]:
    """(leaves being indexed that have no material yet, leaves being indexed again); `chunk_count` tells them apart."""
    busy = (ITEM.c.base_id == base_id) & ITEM.c.status.in_(ACTIVE) & ~IS_CONTAINER
    row = tx.execute(select(func.count(), func.count(ITEM.c.chunk_count)).select_from(ITEM).where(busy)).one()
    return row[0] - row[1], row[1]


def has_lost_index(tx: Tx, base_id: BaseId) -> bool:
    """Whether a leaf has not been indexed again since the index of its base was lost."""
    lost = (ITEM.c.base_id == base_id) & (ITEM.c.status == ItemStatus.FAILED) & (ITEM.c.error == INDEX_LOST)
    return bool(tx.scalar(select(exists().where(lost))))


def any_deleting(tx: Tx, base_id: BaseId, roots: Sequence[ItemId]) -> bool:
    below = select(subtree(base_id, roots).c.id)
    return bool(tx.scalar(select(exists().where(ITEM.c.id.in_(below), ITEM.c.status == ItemStatus.DELETING))))


def unsettled(tx: Tx, base_id: BaseId, roots: Sequence[ItemId], *, limit: int = 100) -> list[ItemId]:
    """Rows of these subtrees that are neither completed nor failed."""
    below = select(subtree(base_id, roots).c.id)
    rows = tx.scalars(select(ITEM.c.id).where(ITEM.c.id.in_(below), ITEM.c.status.not_in(TERMINAL)).limit(limit))
    return [ItemId(row) for row in rows]


def interrupted(tx: Tx, base_id: BaseId) -> list[ItemId]:
    """What an interruption left failed, outermost only."""
    rows = tx.scalars(
        select(ITEM.c.id).where(
            ITEM.c.base_id == base_id, ITEM.c.status == ItemStatus.FAILED, ITEM.c.error == INDEXING_INTERRUPTED
        )
    )
    return outermost(tx, base_id, [ItemId(row) for row in rows])


def without_index(tx: Tx, base_id: BaseId, *, besides: Sequence[ItemId]) -> list[ItemId]:
    """Leaves whose material was lost with the index, oldest first; not those in the subtrees of `besides`."""
    taken = select(subtree(base_id, besides).c.id)
    lost = (ITEM.c.base_id == base_id) & (ITEM.c.status == ItemStatus.FAILED) & (ITEM.c.error == INDEX_LOST)
    return [ItemId(row) for row in tx.scalars(select(ITEM.c.id).where(lost, ITEM.c.id.not_in(taken)).order_by(ITEM.c.id))]


def failures(tx: Tx, base_id: BaseId, roots: Sequence[ItemId] | None, *, limit: int) -> Sequence[Item]:
    """Oldest first. Raises `InvalidInput` unless 1 <= `limit` <= 1,000."""
    require_whole("limit", limit, MAX_FAILURES)
    statement = select(ITEM).where(
        ITEM.c.base_id == base_id,
        ITEM.c.status == ItemStatus.FAILED,
        or_(~IS_CONTAINER, ITEM.c.error != CHILD_FAILED),
    )
    if roots is not None:
        statement = statement.where(ITEM.c.id.in_(select(subtree(base_id, roots).c.id)))
    return [view(row) for row in tx.execute(statement.order_by(ITEM.c.id).limit(limit))]
