"""Top-level names below raw/: one holder each, also while the holder is `deleting`."""

from collections.abc import Callable
from typing import Final

from sqlalchemy import bindparam, select

from knowledge.catalog.rows import PATH
from knowledge.db.engine import Tx
from knowledge.model.ids import BaseId, ItemId
from knowledge.model.names import folded, numbered

_TRY_IN_ORDER: Final = 16
_HOLDER: Final = select(PATH.c.item_id).where(PATH.c.base_id == bindparam("base_id"), PATH.c.folded == bindparam("folded"))
_HOLD: Final = PATH.insert()


def reserve(tx: Tx, base_id: BaseId, item_id: ItemId, name: str, *, directory: bool = False) -> str:
    """Give the item a free name: `name`, `name_1`, … The item's row must be there already.

    The first free one, except that after some tries the search doubles its step: a thousand notes with one title must not look
    a million names up.
    """

    def taken(number: int) -> bool:
        candidate = folded(numbered(name, number, directory=directory))
        return tx.scalar(_HOLDER, {"base_id": base_id, "folded": candidate}) is not None

    number = next((n for n in range(_TRY_IN_ORDER) if not taken(n)), None)
    chosen = numbered(name, _gallop(taken) if number is None else number, directory=directory)
    tx.execute(_HOLD, {"base_id": base_id, "folded": folded(chosen), "item_id": item_id})
    return chosen


def release(tx: Tx, base_id: BaseId, item_id: ItemId, name: str) -> None:
    """The item does not need this name any more; nothing happens if it does not hold it."""
    mine = (PATH.c.base_id == base_id) & (PATH.c.folded == folded(name)) & (PATH.c.item_id == item_id)
    tx.execute(PATH.delete().where(mine))


def _gallop(taken: Callable[[int], bool]) -> int:
    """A free number whose predecessor is taken."""
    low, high = _TRY_IN_ORDER - 1, 2 * _TRY_IN_ORDER
    while taken(high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        if taken(middle):
            low = middle
        else:
            high = middle
    return high
