"""Small SQL that differs between databases."""

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Column, Select, String, Table, bindparam, func, select
from sqlalchemy.dialects import postgresql, sqlite

from knowledge.db.engine import Tx


def id_set(ids: Iterable[str]) -> Select[Any]:
    """A sub-select of these ids; one bound parameter, however many there are."""
    return _unnested(id_list(ids))


def id_set_of(parameter: str) -> Select[Any]:
    """The same for a statement that is built once: the ids come with each execution, as `id_list` writes them."""
    return _unnested(bindparam(parameter, type_=String))


def id_list(ids: Iterable[str]) -> str:
    return json.dumps(list(ids))


def _unnested(document: Any) -> Select[Any]:
    values = func.json_each(document).table_valued(Column("value", String))
    return select(values.c.value)


def insert_new(tx: Tx, table: Table) -> Any:
    """An insert that leaves rows alone which collide with a unique index."""
    dialect: Any = sqlite if tx.dialect.name == "sqlite" else postgresql
    return dialect.insert(table).on_conflict_do_nothing()


def upsert(tx: Tx, table: Table, keys: list[str], values: dict[str, Any]) -> None:
    dialect: Any = sqlite if tx.dialect.name == "sqlite" else postgresql
    statement = dialect.insert(table).values(**values)
    tx.execute(
        statement.on_conflict_do_update(index_elements=keys, set_={name: values[name] for name in values if name not in keys})
    )
