"""How much of what a base holds can be searched."""

from typing import Final

from sqlalchemy import String, bindparam, cast, func, select

from knowledge.catalog.rows import IS_CONTAINER, ITEM
from knowledge.db.engine import Tx
from knowledge.model.ids import BaseId
from knowledge.model.results import Coverage
from knowledge.model.status import ItemStatus, Notice

_HAS_TEXT: Final = ITEM.c.chunk_count > 0
_IS_PARTIAL: Final = cast(ITEM.c.notices, String).contains(f'"{Notice.PARTIAL_TEXT}"')

#: One walk over the base's rows: no index holds the notices, and one that did would cost each item more than this costs.
_COVERAGE: Final = select(
    func.count(),
    func.count().filter(_HAS_TEXT),
    func.count().filter(_HAS_TEXT, _IS_PARTIAL),
    func.count().filter(ITEM.c.chunk_count == 0, ITEM.c.status == ItemStatus.COMPLETED),
    func.count().filter(~_HAS_TEXT | ITEM.c.chunk_count.is_(None), ITEM.c.status == ItemStatus.FAILED),
).where(ITEM.c.base_id == bindparam("base_id"), ITEM.c.status != ItemStatus.DELETING, ~IS_CONTAINER)


def coverage(tx: Tx, base_id: BaseId) -> Coverage:
    """Over the leaves of a base that are not being deleted."""
    items, with_text, partial, without_text, failed = tx.execute(_COVERAGE, {"base_id": base_id}).one()
    return Coverage(items=items, with_text=with_text, partial=partial, without_text=without_text, failed=failed)
