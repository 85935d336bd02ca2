"""Item rows: insert, read, list, and where their bytes are. Status is written in `status.py` only."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, bindparam, case, func, or_, select, update

from knowledge.catalog import cursor as cursors
from knowledge.catalog.rows import BASE, IS_CONTAINER, ITEM, PATH
from knowledge.db.columns import utc_now
from knowledge.db.engine import Tx, mark_deleted
from knowledge.db.sql import id_set
from knowledge.errors import BaseNotFound, InvalidInput, ItemNotFound, ItemNotInBase
from knowledge.model.arguments import require_whole, require_word
from knowledge.model.ids import BaseId, ItemId
from knowledge.model.item_data import DataKey
from knowledge.model.quality import Quality
from knowledge.model.results import ItemPage
from knowledge.model.status import CONTAINERS, ItemStatus, ItemType
from knowledge.model.views import Item

MAX_PAGE = 100

_CONTAINER_FIRST = case((IS_CONTAINER, 0), else_=1)
_VISIBLE = ITEM.c.status != ItemStatus.DELETING

# Built once: every job asks these several times, and building a statement takes longer than running it.
_WANTED = (
    select(ITEM)
    .join(BASE, BASE.c.id == ITEM.c.base_id)
    .where(ITEM.c.id == bindparam("item_id"), _VISIBLE, BASE.c.deleting_at.is_(None))
)
_CHILDREN = select(ITEM.c.id, ITEM.c.type, ITEM.c.status, ITEM.c.source, ITEM.c.relative_path, ITEM.c.data).where(
    ITEM.c.base_id == bindparam("base_id"), ITEM.c.group_id == bindparam("container_id")
)
_SET_PATH = (
    update(ITEM)
    .where(ITEM.c.id == bindparam("item_id"))
    .values(relative_path=bindparam("path"), updated_at=bindparam("now"))
    .returning(ITEM)
)


@dataclass(frozen=True, slots=True)
class NewItem:
    """A row to insert, in the active status that its job explains."""

    id: ItemId
    type: ItemType
    source: str
    status: ItemStatus
    group_id: ItemId | None = None
    relative_path: str | None = None
    data: dict[str, object] = field(default_factory=dict)
    expanded_at: datetime | None = None


def insert(tx: Tx, base_id: BaseId, new: Sequence[NewItem]) -> None:
    """Insert rows, parents before children.

    Raises:
        InvalidInput: a parent is not in this base, is no directory, or is being deleted.
    """
    if not new:
        return
    _require_parents(tx, base_id, new)
    now = utc_now()
    tx.execute(
        ITEM.insert(),
        [
            {
                "id": item.id,
                "base_id": base_id,
                "group_id": item.group_id,
                "type": item.type,
                "source": item.source,
                "data": item.data,
                "relative_path": item.relative_path,
                "status": item.status,
                "error_detail": {},
                "notices": [],
                "quality": {},
                "expanded_at": item.expanded_at,
                "created_at": now,
                "updated_at": now,
            }
            for item in new
        ],
    )


def _require_parents(tx: Tx, base_id: BaseId, new: Sequence[NewItem]) -> None:
    made = {item.id for item in new if item.type in CONTAINERS}
    wanted = {item.group_id for item in new if item.group_id is not None} - made
    if wanted:
        is_open = (ITEM.c.base_id == base_id) & IS_CONTAINER & _VISIBLE
        found = set(tx.scalars(select(ITEM.c.id).where(ITEM.c.id.in_(id_set(wanted)), is_open)))
        if bad := sorted(wanted - found):
            raise InvalidInput("These are no directories that may get children.", field="group_id", item_ids=bad)


def get(tx: Tx, item_id: ItemId) -> Item:
    """One item, in any status.

    Raises:
        ItemNotFound
    """
    item = find(tx, item_id)
    if item is None:
        raise ItemNotFound(item_id=item_id)
    return item


def find(tx: Tx, item_id: ItemId) -> Item | None:
    row = tx.execute(select(ITEM).where(ITEM.c.id == item_id)).one_or_none()
    return None if row is None else view(row)


def get_in(tx: Tx, base_id: BaseId, item_id: ItemId) -> Item:
    """Raises:
    ItemNotFound. ItemNotInBase: it is one of another base.
    """
    item = get(tx, item_id)
    if item.base_id != base_id:
        raise ItemNotInBase(base_id=base_id, item_ids=[item_id])
    return item


def find_wanted(tx: Tx, item_id: ItemId) -> Item | None:
    """The item, unless it is gone, `deleting`, or its base is being deleted."""
    row = tx.execute(_WANTED, {"item_id": item_id}).one_or_none()
    return None if row is None else view(row)


def visible(tx: Tx, base_id: BaseId, item_ids: Collection[str]) -> dict[str, Item]:
    """Those of these items that a search may show."""
    rows = tx.execute(select(ITEM).where(ITEM.c.base_id == base_id, ITEM.c.id.in_(id_set(item_ids)), _VISIBLE))
    return {row.id: view(row) for row in rows}


@dataclass(frozen=True, slots=True)
class Known:
    """What an expansion must know of a row, in any status."""

    id: ItemId
    type: ItemType
    status: ItemStatus
    source: str
    path: str | None  #: below raw/
    data: Mapping[str, object]


def children(tx: Tx, base_id: BaseId, container_id: ItemId) -> list[Known]:
    """What is directly in a container, in any status."""
    rows = tx.execute(_CHILDREN, {"base_id": base_id, "container_id": container_id})
    return [Known(ItemId(row.id), *row[1:]) for row in rows]


def roots_at(tx: Tx, base_id: BaseId, names: Collection[str]) -> list[Item]:
    """Visible roots that hold one of these top-level names, given folded."""
    holders = select(PATH.c.item_id).where(PATH.c.base_id == base_id, PATH.c.folded.in_(id_set(names)))
    here = select(ITEM).where(ITEM.c.base_id == base_id, ITEM.c.id.in_(holders), ITEM.c.group_id.is_(None), _VISIBLE)
    rows = tx.execute(here)
    return [view(row) for row in rows]


def roots(tx: Tx, base_id: BaseId) -> list[Item]:
    """Every visible root, oldest first."""
    rows = tx.execute(
        select(ITEM)
        .where(ITEM.c.base_id == base_id, ITEM.c.group_id.is_(None), _VISIBLE)
        .order_by(ITEM.c.created_at, ITEM.c.id)
    )
    return [view(row) for row in rows]


def directory_at(tx: Tx, base_id: BaseId, source: str) -> Item | None:
    """The newest visible root directory with this source."""
    is_it = (ITEM.c.type == ItemType.DIRECTORY) & ITEM.c.group_id.is_(None) & (ITEM.c.source == source)
    row = tx.execute(
        select(ITEM).where(ITEM.c.base_id == base_id, is_it, _VISIBLE).order_by(ITEM.c.created_at.desc(), ITEM.c.id).limit(1)
    ).one_or_none()
    return None if row is None else view(row)


def stored_paths(tx: Tx, base_id: BaseId) -> set[str]:
    """Every path below raw/ that a row of this base names, `deleting` ones included."""
    rows = tx.execute(select(ITEM.c.relative_path, ITEM.c.indexed_path).where(ITEM.c.base_id == base_id))
    return {path for row in rows for path in row if path}


def set_path(tx: Tx, item_id: ItemId, relative_path: str) -> Item:
    """Say where the bytes of an existing item are; returns the item as it is now."""
    return view(tx.execute(_SET_PATH, {"item_id": item_id, "path": relative_path, "now": utc_now()}).one())


def set_indexed_path(tx: Tx, item_id: ItemId, path: str | None) -> None:
    """Say where the Markdown is that is indexed in place of a converted file; None: the file is indexed itself."""
    tx.execute(update(ITEM).where(ITEM.c.id == item_id).values(indexed_path=path, updated_at=utc_now()))


def roots_from(tx: Tx, base_id: BaseId, type_: ItemType, sources: Collection[str]) -> list[Item]:
    """Visible roots of this type that came from one of these sources."""
    here = (ITEM.c.base_id == base_id) & (ITEM.c.type == type_) & ITEM.c.group_id.is_(None) & _VISIBLE
    rows = tx.execute(select(ITEM).where(here, ITEM.c.source.in_(id_set(sources))).order_by(ITEM.c.created_at, ITEM.c.id))
    return [view(row) for row in rows]


def set_data(tx: Tx, item_id: ItemId, **changes: object) -> None:
    """Merge keys into `data`; None removes a key."""
    stored: dict[str, object] | None = tx.scalar(select(ITEM.c.data).where(ITEM.c.id == item_id))
    if stored is None:
        raise ItemNotFound(item_id=item_id)
    merged = {key: value for key, value in {**stored, **changes}.items() if value is not None}
    tx.execute(update(ITEM).where(ITEM.c.id == item_id).values(data=merged, updated_at=utc_now()))


def remove(tx: Tx, base_id: BaseId, item_ids: Collection[str]) -> int:
    """Delete rows; what is below them goes too. Returns how many of the given ones were there."""
    mark_deleted(tx)
    return tx.execute(ITEM.delete().where(ITEM.c.base_id == base_id, ITEM.c.id.in_(id_set(item_ids)))).rowcount


def page(
    tx: Tx,
    base_id: BaseId,
    *,
    group_id: ItemId | None,
    roots_only: bool,
    type: ItemType | None,  # noqa: A002 - the name callers expect
    status: ItemStatus | None,
    limit: int,
    cursor: str | None,
) -> ItemPage:
    """Directories first, then newest first, ties by id; a cursor that cannot be read gives the first page.

    What a container left out is counted here, and named by `get` only: a hundred of them would be more than a message holds.

    Raises:
        BaseNotFound. ItemNotFound, ItemNotInBase: of `group_id`.
        InvalidInput: `limit` is not 1 to 100, or there is no such type or status.
    """
    require_whole("limit", limit, MAX_PAGE)
    if tx.scalar(select(BASE.c.id).where(BASE.c.id == base_id, BASE.c.deleting_at.is_(None))) is None:
        raise BaseNotFound(base_id=base_id)
    conditions: list[ColumnElement[bool]] = [ITEM.c.base_id == base_id, _VISIBLE]
    if roots_only:
        conditions.append(ITEM.c.group_id.is_(None))
    elif group_id is not None:
        conditions.append(ITEM.c.group_id == get_in(tx, base_id, group_id).id)
    if type is not None:
        conditions.append(ITEM.c.type == require_word("type", type, ItemType))
    if status is not None:
        conditions.append(ITEM.c.status == require_word("status", status, ItemStatus))
    total = tx.scalar(select(func.count()).select_from(ITEM).where(*conditions)) or 0
    statement: Select[Any] = (
        select(ITEM).where(*conditions).order_by(_CONTAINER_FIRST, ITEM.c.created_at.desc(), ITEM.c.id).limit(limit + 1)
    )
    after = _read_cursor(cursor)
    if after is not None:
        rank, created_at, item_id = after
        statement = statement.where(
            or_(
                _CONTAINER_FIRST > rank,
                and_(_CONTAINER_FIRST == rank, ITEM.c.created_at < created_at),
                and_(_CONTAINER_FIRST == rank, ITEM.c.created_at == created_at, ITEM.c.id > item_id),
            )
        )
    found = [_without_names(view(row)) for row in tx.execute(statement)]
    shown = found[:limit]
    return ItemPage(shown, total, _write_cursor(shown[-1]) if len(found) > limit else None)


def view(row: Row[Any]) -> Item:
    return Item(
        id=ItemId(row.id),
        base_id=BaseId(row.base_id),
        group_id=ItemId(row.group_id) if row.group_id else None,
        type=row.type,
        source=row.source,
        status=row.status,
        error=row.error,
        error_detail=row.error_detail,
        relative_path=row.relative_path,
        indexed_path=row.indexed_path,
        chunk_count=row.chunk_count,
        notices=tuple(row.notices),
        quality=Quality(**row.quality),
        expanded_at=row.expanded_at,
        created_at=row.created_at,
        updated_at=row.updated_at,
        data=row.data,
    )


def _without_names(item: Item) -> Item:
    skipped = item.data.get(DataKey.SKIPPED)
    if not isinstance(skipped, dict):
        return item
    return replace(item, data={**item.data, DataKey.SKIPPED: {**skipped, "sample": []}})


def _write_cursor(last: Item) -> str:
    return cursors.write("0" if last.type in CONTAINERS else "1", last.created_at, last.id)


def _read_cursor(cursor: str | None) -> tuple[int, datetime, str] | None:
    parts = cursors.read(cursor, 3)
    if parts is None or parts[0] not in ("0", "1") or (moment := cursors.instant(parts[1])) is None:
        return None
    return int(parts[0]), moment, parts[2]
