"""Behaviours 10 to 15: what lists show, and in which order."""

from datetime import timedelta

import pytest
from sqlalchemy import update

from knowledge.catalog import items
from knowledge.catalog.items import NewItem
from knowledge.catalog.rows import ITEM
from knowledge.db.columns import utc_now
from knowledge.errors import BaseNotFound, InvalidInput
from knowledge.model.ids import BaseId, new_item_id
from knowledge.model.inputs import BaseQuery, NoteInput
from knowledge.model.status import ItemStatus, ItemType
from tests.rows import new_folder, new_item


def _set_created(tx, item_ids, moment):
    tx.execute(update(ITEM).where(ITEM.c.id.in_(item_ids)).values(created_at=moment))


def _listed(house, base, **options):
    return [item.id for item in house.service.list_items(base.id, **options).items]


def test_010_directories_first_then_newest_then_by_id(house, base):
    """Whatever the order of their making."""
    twins = sorted(new_item_id() for _ in range(4))
    with house.db.write() as tx:
        items.insert(tx, base.id, [NewItem(item_id, ItemType.NOTE, "x", ItemStatus.PROCESSING) for item_id in reversed(twins)])
        old_folder, old = new_folder(tx, base.id), new_item(tx, base.id)
        now = utc_now()
        _set_created(tx, [old_folder, old], now - timedelta(days=1))
        _set_created(tx, twins, now)

    assert [old_folder, *twins, old] == _listed(house, base)


def test_011_pages_show_each_item_once(house, base):
    """Also when all were made in the same moment; a last page that is exactly full leads nowhere."""
    with house.db.write() as tx:
        made = [new_item(tx, base.id) for _ in range(4)]
        _set_created(tx, made, utc_now())

    first = house.service.list_items(base.id, limit=2)
    second = house.service.list_items(base.id, limit=2, cursor=first.next_cursor)

    assert sorted(made) == sorted(item.id for item in [*first.items, *second.items])
    assert second.next_cursor is None
    assert (4, 4) == (first.total, second.total)


MALFORMED = [
    "!",
    "é",
    "bm90IGpzb24",  # not JSON
    "WzEsMiwzXQ",  # [1,2,3]
    "eyJhIjoxfQ",  # an object
    "Ijk5OSI",  # a string
    "WyI5IiwieCIsInkiXQ",  # no rank, no time
    "WyIxIiwiMjAyNC0wMS0wMVQwMDowMDowMCIsIngiXQ",  # a time without a zone
    "WyIxIiwiMjAyNC0wMS0wMVQwMDowMDowMCswMDowMCIsIlx1ZDgwMCJd",  # half a surrogate pair as the id
    "WzFlOTk5LDEsMV0",  # infinity
    "W" * 4000,
]


@pytest.mark.parametrize("cursor", MALFORMED)
def test_012_a_broken_cursor_gives_the_first_page(house, base, cursor):
    """Of items and of bases; never an error, whoever made it up."""
    house.notes(base, "one", "two")

    assert 2 == len(_listed(house, base, cursor=cursor))
    assert [base.id] == [found.id for found in house.service.find_bases(BaseQuery(cursor=cursor)).bases]


def test_013_what_is_being_deleted_is_in_no_list(house, base):
    """Nor in a total or a base's count; asked for by id, it is there."""
    kept, gone = house.notes(base, "kept", "gone")
    house.service.delete_items(base.id, [gone.id])

    page = house.service.list_items(base.id)

    assert ([kept.id], 1) == ([item.id for item in page.items], page.total)
    assert 1 == house.service.base(base.id).item_count
    assert 1 == house.service.find_bases(BaseQuery()).bases[0].item_count
    assert ItemStatus.DELETING is house.service.item(gone.id).status


def test_014_lists_of_roots_of_children_and_of_all(house, base):
    """Asked by level, or not at all."""
    with house.db.write() as tx:
        docs = new_folder(tx, base.id)
        inner = new_folder(tx, base.id, docs)
        leaf = new_item(tx, base.id, inner)

    assert [docs]
    assert [inner] == _listed(house, base, group_id=docs)
    assert {docs, inner, leaf} == set(_listed(house, base))


def test_015_a_page_holds_one_to_a_hundred(house, base):
    """Twenty if nothing is said; anything else is refused."""
    house.add(base, *(NoteInput(content=f"note {number}") for number in range(21)))

    assert [20, 1, 21] == [len(_listed(house, base, **limit)) for limit in ({}, {"limit": 1}, {"limit": 100})]
    for limit in (0, 101, -1):
        with pytest.raises(InvalidInput):
            house.service.list_items(base.id, limit=limit)
    with pytest.raises(BaseNotFound):
        house.service.list_items(BaseId("nowhere"))
