"""Paths below raw/: one holder each, also while the holder is `deleting`, at the top as in every folder.

Every path that a row names is held here, folded, so that a free name is found by a few look-ups in an index, however many other
files are beside it, and so that two names which some disk takes for one never meet.
"""

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


class Claims:
    """Free paths for rows that are inserted later in the same transaction: `claim` each, insert the rows, `hold` them all."""

    def __init__(self, tx: Tx, base_id: BaseId) -> None:
        self._tx, self._base_id = tx, base_id
        self._claimed: dict[str, ItemId] = {}  #: by folded path

    def claim(self, item_id: ItemId, name: str, *, folder: str = "", directory: bool = False) -> str:
        """A free path: `name`, `name_1`, … in the folder.

        The first free one, except that after some tries the search doubles its step: a thousand notes with one title must not
        look a million names up.

        Args:
            folder: path of the container; empty for the top.
            directory: it is a folder's own name.
        """

        def path_of(number: int) -> str:
            chosen = numbered(name, number, directory=directory)
            return f"{folder}/{chosen}" if folder else chosen

        def taken(number: int) -> bool:
            return self._is_taken(folded(path_of(number)))

        number = next((n for n in range(_TRY_IN_ORDER) if not taken(n)), None)
        path = path_of(_gallop(taken) if number is None else number)
        self._claimed[folded(path)] = item_id
        return path

    def take(self, item_id: ItemId, path: str) -> None:
        """This very path, which nobody has."""
        self._claimed[folded(path)] = item_id

    def hold(self) -> None:
        """From now on the paths are held; the rows of the items must be there."""
        if self._claimed:
            held = [{"base_id": self._base_id, "folded": key, "item_id": owner} for key, owner in self._claimed.items()]
            self._tx.execute(_HOLD, held)
        self._claimed = {}

    def _is_taken(self, key: str) -> bool:
        return key in self._claimed or self._tx.scalar(_HOLDER, {"base_id": self._base_id, "folded": key}) is not None


def reserve(tx: Tx, base_id: BaseId, item_id: ItemId, name: str, *, folder: str = "", directory: bool = False) -> str:
    """Give an item whose row is there a free path, as `Claims.claim` finds it."""
    claims = Claims(tx, base_id)
    path = claims.claim(item_id, name, folder=folder, directory=directory)
    claims.hold()
    return path


def is_free(tx: Tx, base_id: BaseId, path: str) -> bool:
    return tx.scalar(_HOLDER, {"base_id": base_id, "folded": folded(path)}) is None


def move(tx: Tx, base_id: BaseId, item_id: ItemId, path: str, free: str) -> None:
    """The item has another path now, which nobody holds."""
    release(tx, base_id, item_id, path)
    tx.execute(_HOLD, [{"base_id": base_id, "folded": folded(free), "item_id": item_id}])


def release(tx: Tx, base_id: BaseId, item_id: ItemId, path: str) -> None:
    """The item does not need this path any more; nothing happens if it does not hold it."""
    mine = (PATH.c.base_id == base_id) & (PATH.c.folded == folded(path)) & (PATH.c.item_id == item_id)
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
