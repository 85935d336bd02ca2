"""Base rows: what exists, what may run, what is being removed."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, and_, bindparam, exists, func, or_, select, update

from knowledge.catalog import cursor, groups
from knowledge.catalog.rows import BASE, ITEM
from knowledge.db.columns import utc_now
from knowledge.db.engine import Tx, mark_deleted
from knowledge.errors import BaseFailed, BaseNotFound, InvalidInput
from knowledge.model.arguments import require_whole
from knowledge.model.ids import BaseId
from knowledge.model.inputs import MAX_DIMENSIONS, BaseInput, BaseQuery
from knowledge.model.results import BasePage
from knowledge.model.status import BaseStatus, ItemStatus
from knowledge.model.views import Base

BEING_MADE: Final = datetime.fromtimestamp(0, UTC)  #: stands in `deleting_at` for no instant
_BY_ID: Final = select(BASE).where(BASE.c.id == bindparam("base_id"))


def insert(tx: Tx, base_id: BaseId, wanted: BaseInput, dimensions: int | None) -> Base:
    """A base that is being made: until `reveal` it is as hidden as one that is being deleted, and removed if its maker dies."""
    now = utc_now()
    if wanted.group_id:
        groups.require(tx, wanted.group_id)
    values = wanted.model_dump(exclude={"embedder", "rerank_model", "file_processor"})
    tx.execute(
        BASE.insert().values(
            id=base_id,
            status=BaseStatus.COMPLETED,
            embedding_model_id=wanted.embedder,
            rerank_model_id=wanted.rerank_model,
            file_processor_id=wanted.file_processor,
            dimensions=dimensions,
            created_at=now,
            updated_at=now,
            deleting_at=BEING_MADE,
            **values,
        )
    )
    return get(tx, base_id, include_deleting=True)


def reveal(tx: Tx, base_id: BaseId) -> None:
    """It is whole; everybody may see it from this commit on.

    Raises:
        BaseNotFound: somebody has deleted it meanwhile.
    """
    mine = (BASE.c.id == base_id) & (BASE.c.deleting_at == BEING_MADE)
    if not tx.execute(update(BASE).where(mine).values(deleting_at=None)).rowcount:
        raise BaseNotFound(base_id=base_id)


def is_hidden(tx: Tx, base_id: BaseId) -> bool:
    """Whether it is being made or deleted; False also if there is none."""
    return tx.scalar(select(BASE.c.deleting_at).where(BASE.c.id == base_id)) is not None


def get(tx: Tx, base_id: BaseId, *, include_deleting: bool = False) -> Base:
    """One base, its items not counted: every job asks, whatever the base holds.

    Raises:
        BaseNotFound: there is none, or it is being deleted.
    """
    row = tx.execute(_BY_ID, {"base_id": base_id}).one_or_none()
    if row is None or (row.deleting_at and not include_deleting):
        raise BaseNotFound(base_id=base_id)
    return _view(row, item_count=0)


def resolve(tx: Tx, id_or_name: str) -> Base:
    """A base by id, else by its unique name, with its item count."""
    found = tx.execute(
        _select()
        .where(BASE.c.deleting_at.is_(None), or_(BASE.c.id == id_or_name, BASE.c.name == id_or_name))
        .order_by(BASE.c.created_at, BASE.c.id)
    ).all()
    exact = [row for row in found if row.id == id_or_name] or found
    if not exact:
        raise BaseNotFound(f"There is no base {id_or_name!r}.", base=id_or_name)
    if len(exact) > 1:
        raise InvalidInput(
            f"Several bases are named {id_or_name!r}; use the id.", base=id_or_name, ids=[row.id for row in exact]
        )
    return _view(exact[0], exact[0].item_count)


def list_all(tx: Tx, *, include_deleting: bool = False) -> Sequence[Base]:
    """Newest first, with their item counts."""
    statement = _select().order_by(BASE.c.created_at.desc(), BASE.c.id)
    if not include_deleting:
        statement = statement.where(BASE.c.deleting_at.is_(None))
    return [_view(row, row.item_count) for row in tx.execute(statement)]


def embedder_of(tx: Tx, base_id: BaseId) -> str | None:
    """None if it has none, or is gone."""
    found: str | None = tx.scalar(select(BASE.c.embedding_model_id).where(BASE.c.id == base_id))
    return found


def require_runnable(tx: Tx, base_id: BaseId) -> Base:
    """The base, if runtime work may be done in it.

    Raises:
        BaseNotFound, BaseFailed.
    """
    base = get(tx, base_id)
    if base.status is BaseStatus.FAILED:
        raise BaseFailed(base_id=base_id, reason=base.error)
    return base


def page(tx: Tx, query: BaseQuery) -> BasePage:
    """One page of bases, ties by id in the same direction."""
    conditions: list[ColumnElement[bool]] = [BASE.c.deleting_at.is_distinct_from(BEING_MADE)]
    if not query.include_deleting:
        conditions.append(BASE.c.deleting_at.is_(None))
    if query.search and query.search.strip():
        conditions.append(_name_contains(query.search.strip()))
    if query.group_id is not None:
        conditions.append(BASE.c.group_id == query.group_id)
    if query.updated_from is not None:
        conditions.append(BASE.c.updated_at >= query.updated_from)
    total = tx.scalar(select(func.count()).select_from(BASE).where(*conditions)) or 0
    key = BASE.c[query.sort_by]
    is_descending = query.sort_order == "desc"
    order = (key.desc(), BASE.c.id.desc()) if is_descending else (key, BASE.c.id)
    statement = _select().where(*conditions).order_by(*order).limit(query.limit + 1)
    if (after := cursor.read(query.cursor, 2)) is not None:
        edge: str | datetime | None = after[0] if query.sort_by == "name" else cursor.instant(after[0])
        if edge is not None:
            beyond = (key < edge, BASE.c.id < after[1]) if is_descending else (key > edge, BASE.c.id > after[1])
            statement = statement.where(or_(beyond[0], and_(key == edge, beyond[1])))
    found = [_view(row, row.item_count) for row in tx.execute(statement)]
    shown = found[: query.limit]
    following = None
    if len(found) > query.limit:
        last = shown[-1]
        edges: dict[str, str | datetime] = {"name": last.name, "created_at": last.created_at, "updated_at": last.updated_at}
        following = cursor.write(edges[query.sort_by], last.id)
    return BasePage(shown, total, following)


def change(tx: Tx, base_id: BaseId, values: Mapping[str, object]) -> Base:
    """Write columns that a flow has checked."""
    tx.execute(update(BASE).where(BASE.c.id == base_id).values(**values, updated_at=utc_now()))
    return get(tx, base_id)


def counted(tx: Tx, base: Base) -> Base:
    """The same with its item count, as it is shown."""
    mine = (ITEM.c.base_id == base.id) & (ITEM.c.status != ItemStatus.DELETING)
    return replace(base, item_count=tx.scalar(select(func.count()).select_from(ITEM).where(mine)) or 0)


def has_visible_items(tx: Tx, base_id: BaseId) -> bool:
    visible = exists().where(ITEM.c.base_id == base_id, ITEM.c.status != ItemStatus.DELETING)
    return bool(tx.scalar(select(visible)))


def named(tx: Tx, name: str) -> list[BaseId]:
    """Bases of this name, except those being deleted."""
    return list(tx.scalars(select(BASE.c.id).where(BASE.c.name == name, BASE.c.deleting_at.is_(None))))


def fail(tx: Tx, base_id: BaseId, code: str, *, embedder: str | None, dimensions: int | None) -> None:
    """From now on the base can be listed, deleted and restored, and nothing else; it says which embedder it would need.

    Raises:
        InvalidInput: `dimensions` are no width that a model could have.
    """
    if dimensions is not None:
        require_whole("dimensions", dimensions, MAX_DIMENSIONS)
    tx.execute(
        update(BASE)
        .where(BASE.c.id == base_id)
        .values(status=BaseStatus.FAILED, error=code, embedding_model_id=embedder, dimensions=dimensions, updated_at=utc_now())
    )


def using(tx: Tx, embedders: Collection[str]) -> list[BaseId]:
    """Bases that use one of these embedders."""
    return list(tx.scalars(select(BASE.c.id).where(BASE.c.embedding_model_id.in_(embedders))))


def shard_of(tx: Tx, base_id: BaseId) -> str:
    shard: str | None = tx.scalar(select(BASE.c.shard).where(BASE.c.id == base_id))
    if shard is None:
        raise BaseNotFound(base_id=base_id)
    return shard


def mark_deleting(tx: Tx, base_id: BaseId) -> None:
    """Hide the base; from this commit on it refuses everything but delete."""
    unmarked = BASE.c.deleting_at.is_(None) | (BASE.c.deleting_at == BEING_MADE)
    tx.execute(update(BASE).where(BASE.c.id == base_id, unmarked).values(deleting_at=utc_now()))


def remove(tx: Tx, base_id: BaseId) -> None:
    """Remove the row; its items go with it."""
    mark_deleted(tx)
    tx.execute(BASE.delete().where(BASE.c.id == base_id))


def deleting(tx: Tx) -> list[BaseId]:
    return list(tx.scalars(select(BASE.c.id).where(BASE.c.deleting_at.is_not(None))))


def ids(tx: Tx) -> list[BaseId]:
    """Every base, those being deleted included."""
    return list(tx.scalars(select(BASE.c.id)))


def _name_contains(part: str) -> ColumnElement[bool]:
    """In any case. The database lowers ASCII letters only, so for others the usual spellings are asked for."""
    spellings = {_ascii_lower(spelling) for spelling in (part, part.lower(), part.upper(), part.capitalize())}
    return or_(*(func.lower(BASE.c.name).contains(spelling, autoescape=True) for spelling in sorted(spellings)))


def _ascii_lower(text: str) -> str:
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


def _select() -> Any:
    count = (
        select(func.count())
        .where(ITEM.c.base_id == BASE.c.id, ITEM.c.status != ItemStatus.DELETING)
        .correlate(BASE)
        .scalar_subquery()
    )
    return select(BASE, count.label("item_count"))


def _view(row: Row[Any], item_count: int) -> Base:
    return Base(
        id=BaseId(row.id),
        name=row.name,
        status=row.status,
        error=row.error,
        embedder=row.embedding_model_id,
        dimensions=row.dimensions,
        chunk_size=row.chunk_size,
        chunk_overlap=row.chunk_overlap,
        chunk_strategy=row.chunk_strategy,
        chunk_separator=row.chunk_separator,
        threshold=row.threshold,
        document_count=row.document_count,
        fail_on_empty=row.fail_on_empty,
        shard=row.shard,
        group_id=row.group_id,
        rerank_model=row.rerank_model_id,
        file_processor=row.file_processor_id,
        created_at=row.created_at,
        updated_at=row.updated_at,
        deleting_at=row.deleting_at,
        item_count=item_count,
    )
