"""Adds that named themselves: the same key of a base gets the same items, however often it is sent.

A key stands for one request. Used again for another one it is refused: neither the items of the first, nor new ones, are what
its sender expects.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final, Self

from sqlalchemy import select

from knowledge.catalog.rows import REQUEST
from knowledge.db.columns import utc_now
from knowledge.db.engine import Tx
from knowledge.errors import KeyReused
from knowledge.model.ids import BaseId, ItemId
from knowledge.model.inputs import ItemInput

KEEP: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Request:
    """What an add asks for, under the name that it gave itself."""

    key: str
    digest: str  #: of the inputs as they were handed in; what lies at their paths and addresses may change meanwhile

    @classmethod
    def of(cls, key: str | None, inputs: Sequence[ItemInput]) -> Self | None:
        """None for an add without a key. How conflicts are resolved is no part of what is asked for."""
        return None if key is None else cls(key, _digest(inputs))


def find(tx: Tx, base_id: BaseId, request: Request | None) -> list[ItemId] | None:
    """The items that this request was given, None if it is new.

    Raises:
        KeyReused: the key was given to another request before.
    """
    if request is None:
        return None
    is_it = (REQUEST.c.base_id == base_id) & (REQUEST.c.key_hash == _hash(request.key))
    row = tx.execute(select(REQUEST.c.item_ids, REQUEST.c.digest).where(is_it)).one_or_none()
    if row is None:
        return None
    found: list[ItemId] = row.item_ids
    if row.digest not in (None, request.digest):  # None: of a version that kept no digest
        raise KeyReused(key=request.key, item_ids=found)
    return found


def keep(tx: Tx, base_id: BaseId, request: Request | None, item_ids: Sequence[ItemId]) -> None:
    if request is not None:
        named = {"base_id": base_id, "key_hash": _hash(request.key), "digest": request.digest}
        tx.execute(REQUEST.insert().values(**named, item_ids=list(item_ids), created_at=utc_now()))


def prune(tx: Tx) -> None:
    tx.execute(REQUEST.delete().where(REQUEST.c.created_at < utc_now() - KEEP))


def _digest(inputs: Sequence[ItemInput]) -> str:
    """Of what was given only, so that a new field with a default does not make another request of it."""
    given = [{"type": one.type, **one.model_dump(exclude_defaults=True)} for one in inputs]
    return _hash(json.dumps(given, sort_keys=True, default=_plain))


def _plain(value: object) -> str:
    return str(value.absolute() if isinstance(value, Path) else value)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
