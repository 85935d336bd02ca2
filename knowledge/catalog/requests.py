"""Adds that named themselves: the same key of a base gets the same items, however often it is sent."""

import hashlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from sqlalchemy import select

from knowledge.catalog.rows import REQUEST
from knowledge.db.columns import utc_now
from knowledge.db.engine import Tx
from knowledge.model.ids import BaseId, ItemId

KEEP: Final = timedelta(days=7)


def find(tx: Tx, base_id: BaseId, key: str | None) -> list[ItemId] | None:
    """The items that this request was given, None if it is new."""
    if key is None:
        return None
    found: list[ItemId] | None = tx.scalar(
        select(REQUEST.c.item_ids).where(REQUEST.c.base_id == base_id, REQUEST.c.key_hash == _hash(key))
    )
    return found


def keep(tx: Tx, base_id: BaseId, key: str | None, item_ids: Sequence[ItemId]) -> None:
    if key is not None:
        tx.execute(REQUEST.insert().values(base_id=base_id, key_hash=_hash(key), item_ids=list(item_ids), created_at=utc_now()))


def prune(tx: Tx) -> None:
    tx.execute(REQUEST.delete().where(REQUEST.c.created_at < utc_now() - KEEP))


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
