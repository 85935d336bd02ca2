"""Names need not be unique; who gives one that is taken is told, because commands by that name then need an id."""

from typing import TYPE_CHECKING

from knowledge.interfaces.cli.output import Output
from knowledge.model.inputs import BaseQuery

if TYPE_CHECKING:
    from knowledge.model.results import Group
    from knowledge.model.views import Base
    from knowledge.service import KnowledgeService

PAGE = 100  #: bases asked for at once: the most that the service gives


def tell_of_bases(output: Output, service: "KnowledgeService", base: "Base") -> None:
    """On stderr, if another base has this one's name."""
    others: list[str] = []
    cursor: str | None = None
    while True:
        page = service.find_bases(BaseQuery(search=base.name, limit=PAGE, cursor=cursor))
        others += [other.id for other in page.bases if other.name == base.name and other.id != base.id]
        cursor = page.next_cursor
        if cursor is None:
            return _tell(output, "base", base.name, base.id, others)


def tell_of_groups(output: Output, service: "KnowledgeService", group: "Group") -> None:
    """On stderr, if another group has this one's name."""
    others = [other.id for other in service.list_groups() if other.name == group.name and other.id != group.id]
    _tell(output, "group", group.name, group.id, others)


def _tell(output: Output, kind: str, name: str, own_id: str, others: list[str]) -> None:
    if others:
        output.hint(f"another {kind} is named {name} as well ({', '.join(others)}): commands need the id, here {own_id}")
