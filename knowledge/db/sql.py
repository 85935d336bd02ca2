"""Small SQL that differs between databases."""

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Column, Select, String, Table, func, select
from sqlalchemy.dialects import postgresql, sqlite

from knowledge.db.engine import Tx


def id_set(ids: Iterable[str]) -> Select[Any]:
    """A sub-select of these ids; one bound parameter, however many there are."""
    values = func.json_each(json.dumps(list(ids))).table_valued(Column("value", String))
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
