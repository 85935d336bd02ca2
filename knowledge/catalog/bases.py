"""Base rows: what exists, what may run, what is being removed."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Row, bindparam, func, or_, select, update

from knowledge.catalog.rows import BASE, ITEM
from knowledge.db.columns import utc_now
from knowledge.db.engine import Tx
from knowledge.errors import BaseFailed, BaseNotFound, InvalidInput
from knowledge.model.ids import BaseId, new_base_id
from knowledge.model.inputs import BaseInput
from knowledge.model.status import BaseStatus, ItemStatus
from knowledge.model.views import Base

_BY_ID: Final = select(BASE).where(BASE.c.id == bindparam("base_id"))


def insert(tx: Tx, wanted: BaseInput, dimensions: int | None) -> Base:
    now = utc_now()
    base_id = new_base_id()
    values = wanted.model_dump(exclude={"embedder"})
    tx.execute(
        BASE.insert().values(
            id=base_id,
            status=BaseStatus.COMPLETED,
            embedding_model_id=wanted.embedder,
            dimensions=dimensions,
            created_at=now,
            updated_at=now,
            **values,
        )
    )
    return get(tx, base_id)


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
        _select().where(BASE.c.deleting_at.is_(None), or_(BASE.c.id == id_or_name, BASE.c.name == id_or_name)).limit(3)
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


def require_runnable(tx: Tx, base_id: BaseId) -> Base:
    """The base, if runtime work may be done in it.

    Raises:
        BaseNotFound, BaseFailed.
    """
    base = get(tx, base_id)
    if base.status is BaseStatus.FAILED:
        raise BaseFailed(base_id=base_id, reason=base.error)
    return base


def shard_of(tx: Tx, base_id: BaseId) -> str:
    shard: str | None = tx.scalar(select(BASE.c.shard).where(BASE.c.id == base_id))
    if shard is None:
        raise BaseNotFound(base_id=base_id)
    return shard


def mark_deleting(tx: Tx, base_id: BaseId) -> None:
    """Hide the base; from this commit on it refuses everything but delete."""
    tx.execute(update(BASE).where(BASE.c.id == base_id, BASE.c.deleting_at.is_(None)).values(deleting_at=utc_now()))


def remove(tx: Tx, base_id: BaseId) -> None:
    """Remove the row; its items go with it."""
    tx.execute(BASE.delete().where(BASE.c.id == base_id))


def deleting(tx: Tx) -> list[BaseId]:
    return list(tx.scalars(select(BASE.c.id).where(BASE.c.deleting_at.is_not(None))))


def ids(tx: Tx) -> list[BaseId]:
    """Every base, those being deleted included."""
    return list(tx.scalars(select(BASE.c.id)))


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
        created_at=row.created_at,
        updated_at=row.updated_at,
        deleting_at=row.deleting_at,
        item_count=item_count,
    )
