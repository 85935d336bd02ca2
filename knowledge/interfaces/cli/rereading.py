"""Every root of a base, page by page; and items read again."""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from knowledge.errors import ItemNotFound
from knowledge.model.ids import BaseId
from knowledge.model.views import Item

if TYPE_CHECKING:
    from knowledge.service import KnowledgeService

PAGE: Final = 100  #: rows asked for at once: the most that the service gives


def all_roots(service: "KnowledgeService", base_id: BaseId) -> list[Item]:
    found: list[Item] = []
    cursor: str | None = None
    while True:
        page = service.list_items(base_id, roots_only=True, limit=PAGE, cursor=cursor)
        found += page.items
        if (cursor := page.next_cursor) is None:
            return found


def as_they_are_now(service: "KnowledgeService", items: Sequence[Item]) -> list[Item]:
    """These items read again, without those that have been deleted meanwhile."""
    found = []
    for item in items:
        with suppress(ItemNotFound):
            found.append(service.item(item.id))
    return found
