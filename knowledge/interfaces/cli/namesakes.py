"""Names need not be unique; who gives one that is taken is told, because commands by that name then need an id."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from knowledge.interfaces.cli.output import Output

if TYPE_CHECKING:
    from knowledge.model.results import Group
    from knowledge.model.views import Base
    from knowledge.service import KnowledgeService


def tell_of_bases(output: Output, service: "KnowledgeService", base: "Base") -> None:
    """On stderr, if another base has this one's name."""
    others = [other.id for other in service.list_bases() if other.name == base.name and other.id != base.id]
    _tell(output, "base", base.name, base.id, others)


def tell_of_groups(output: Output, service: "KnowledgeService", group: "Group") -> None:
    """On stderr, if another group has this one's name."""
    others = [other.id for other in service.list_groups() if other.name == group.name and other.id != group.id]
    _tell(output, "group", group.name, group.id, others)


def _tell(output: Output, kind: str, name: str, own_id: str, others: Sequence[str]) -> None:
    if others:
        output.hint(f"another {kind} is named {name} as well ({', '.join(others)}): commands need the id, here {own_id}")
