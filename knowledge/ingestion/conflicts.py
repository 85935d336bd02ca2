"""Which roots of a base are in the way of what is being added: same type, same name."""

from collections.abc import Sequence

from knowledge.catalog import items
from knowledge.db.engine import Tx
from knowledge.ingestion.incoming import Incoming
from knowledge.model.ids import BaseId
from knowledge.model.names import folded
from knowledge.model.results import Conflict
from knowledge.model.status import ItemType
from knowledge.model.views import Item


def in_the_way(tx: Tx, base_id: BaseId, incoming: Sequence[Incoming]) -> list[Item]:
    """Visible roots with the type and name of one of these, each once."""
    wanted = {one.key for one in incoming}
    return [item for item in items.roots_at(tx, base_id, {name for _, name in wanted}) if _key(item) in wanted]


def report(tx: Tx, base_id: BaseId, incoming: Sequence[Incoming]) -> list[Conflict]:
    """One entry for each type and name that is taken, or wanted twice."""
    titles = {_key(item): item.title for item in in_the_way(tx, base_id, incoming)}
    seen = set()
    for one in incoming:
        if one.key in seen:
            titles.setdefault(one.key, one.name)
        seen.add(one.key)
    return [Conflict(kind, title) for (kind, _), title in titles.items()]


def last_of_each(incoming: Sequence[Incoming]) -> list[Incoming]:
    """Without those that a later one of the same type and name replaces."""
    return list({one.key: one for one in incoming}.values())


def _key(item: Item) -> tuple[ItemType, str]:
    return item.type, folded(item.relative_path or item.title)
