"""Every root of a base, page by page."""

from typing import TYPE_CHECKING, Final

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
