"""Free paths: found the same way at the top and in every folder, at a cost that does not grow with what is there."""

import pytest

from knowledge.catalog import items, paths
from knowledge.catalog.items import NewItem
from knowledge.db.columns import utc_now
from knowledge.ingestion import capture, convert
from knowledge.model.ids import new_item_id
from knowledge.model.names import folded
from knowledge.model.status import ItemStatus, ItemType

WAYS = {
    "a page": lambda rt, tx, item: capture._free_path(rt, tx, item, "Page 1.md"),
    "the text of a scan": lambda rt, tx, item: convert._free_path(rt, tx, item),
    "a file of a folder": lambda rt, tx, item: paths.Claims(tx, item.base_id).claim(item.id, "Page 1.md", folder="docs"),
}


def filled(house, files):
    """A base whose folder `docs` holds so many files, and a scan; the scan."""
    base = house.base(None)
    folder = NewItem(
        new_item_id(), ItemType.DIRECTORY, "/docs", ItemStatus.COMPLETED, relative_path="docs", expanded_at=utc_now()
    )
    names = [*(f"page {number}.md" for number in range(files)), "Page 1.tif"]
    rows = [
        NewItem(new_item_id(), ItemType.FILE, f"/docs/{name}", ItemStatus.COMPLETED, folder.id, f"docs/{name}")
        for name in names
    ]
    with house.db.write() as tx:
        items.insert(tx, base.id, [folder, *rows])
        claims = paths.Claims(tx, base.id)
        for row in (folder, *rows):
            claims.take(row.id, str(row.relative_path))
        claims.hold()
    return house.item(rows[-1].id)


def steps_of(tx, ask):
    """(what it answers, the steps of SQLite's machine that it takes)."""
    taken = 0

    def count():
        nonlocal taken
        taken += 1
        return 0

    connection = tx.connection.driver_connection
    connection.set_progress_handler(count, 1)
    try:
        return ask(), taken
    finally:
        connection.set_progress_handler(None, 0)


@pytest.mark.parametrize("way", WAYS)
def test_a_free_path_costs_the_same_in_every_folder(house, way):
    """Not a step more among a thousand files than among ten; names that differ in case only are kept apart."""
    found = []
    for scan in (filled(house, 10), filled(house, 1000)):
        with house.db.write() as tx:
            found.append(steps_of(tx, lambda: WAYS[way](house.rt, tx, scan)))  # noqa: B023 - asked at once

    (of_few, steps), (of_many, more) = found
    assert ("docs/page 1_1.md", of_few) == (folded(of_many), of_many)
    assert 0 < steps == more


def test_leftovers_in_a_folder_are_stepped_over(house):
    """What a crash left on the disk under a name that no row has is not written over."""
    scan = filled(house, 2)
    for name in ("Page 1.md", "Page 1_1.md"):
        house.rt.files.publish(house.rt.files.stage_text(scan.base_id, "left"), f"docs/{name}")

    with house.db.write() as tx:
        found = {way: WAYS[way](house.rt, tx, scan) for way in ("a page", "the text of a scan")}

    assert {"a page": "docs/Page 1_2.md", "the text of a scan": "docs/Page 1_3.md"} == found
