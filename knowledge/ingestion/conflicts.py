"""Which roots of a base are in the way of what is being added: same type, same name; of pages, same address."""

from collections.abc import Sequence

from knowledge.catalog import items
from knowledge.db.engine import Tx
from knowledge.ingestion.incoming import BY_ADDRESS, Incoming
from knowledge.model.ids import BaseId
from knowledge.model.names import folded
from knowledge.model.results import Conflict
from knowledge.model.status import ItemType
from knowledge.model.views import Item


def in_the_way(tx: Tx, base_id: BaseId, incoming: Sequence[Incoming]) -> list[Item]:
    """Visible roots with the type and name of one of these, each once."""
    wanted = {one.key for one in incoming}
    found = items.roots_at(tx, base_id, {name for type_, name in wanted if type_ not in BY_ADDRESS})
    for type_ in BY_ADDRESS & {type_ for type_, _ in wanted}:
        found += items.roots_from(tx, base_id, type_, {address for other, address in wanted if other is type_})
    return [item for item in found if _key(item) in wanted]


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


def each_page_once(incoming: Sequence[Incoming]) -> list[Incoming]:
    """Addresses of one call that differ in their fragments only are one page, whatever else is added twice."""
    seen: set[tuple[ItemType, str]] = set()
    kept = []
    for one in incoming:
        if one.type in BY_ADDRESS and one.key in seen:
            continue
        seen.add(one.key)
        kept.append(one)
    return kept


def _key(item: Item) -> tuple[ItemType, str]:
    return item.type, item.source if item.type in BY_ADDRESS else folded(item.relative_path or item.title)
