"""Reading items: pages, cursors, subtrees, counts, names, and what recovery looks for."""

import base64
import json

import pytest

from knowledge.catalog import items, paths, tree
from knowledge.catalog.rows import ITEM
from knowledge.db.columns import utc_now
from knowledge.errors import BaseNotFound, InvalidInput, ItemNotFound, ItemNotInBase
from knowledge.model.names import folded
from knowledge.model.status import ItemStatus, ItemType
from tests.rows import new_base, new_folder, new_item

COMPLETED, DELETING, FAILED = ItemStatus.COMPLETED, ItemStatus.DELETING, ItemStatus.FAILED


@pytest.fixture
def base_id(tx):
    return new_base(tx)


def page(tx, base_id, **more):
    wanted = {"group_id": None, "roots_only": False, "type": None, "status": None, "limit": 20, "cursor": None}
    return items.page(tx, base_id, **wanted | more)


def test_directories_first_then_newest_then_by_id(tx, base_id):
    """The order of every list."""
    notes = [new_item(tx, base_id) for _ in range(3)]
    folder = new_folder(tx, base_id)
    shown = [item.id for item in page(tx, base_id).items]

    assert folder == shown[0]
    assert set(notes) == set(shown[1:])


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_pages_show_each_row_once_also_if_all_are_of_one_instant(tx, base_id, size):
    """A page that ends exactly at the last row has no next one."""
    ids = {new_item(tx, base_id) for _ in range(4)} | {new_folder(tx, base_id)}
    tx.execute(ITEM.update().values(created_at=utc_now()))
    seen, cursor, pages = [], None, 0
    while pages == 0 or cursor:
        found = page(tx, base_id, limit=size, cursor=cursor)
        seen += [item.id for item in found.items]
        cursor, pages = found.next_cursor, pages + 1

    assert (sorted(ids), 5) == (sorted(seen), found.total)
    assert -(-5 // size) == pages


def packed(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


@pytest.mark.parametrize(
    "cursor",
    [
        "x",
        "!!!!",
        "é",
        "\ud800",
        packed(5),
        packed([]),
        packed([0, "yesterday", "a"]),
        packed([0, "2020-01-01", "a"]),
        packed([7, "2020-01-01T00:00:00+00:00", "a"]),
        packed([10**40, "2020-01-01T00:00:00+00:00", "a"]),
        packed([0, "2020-01-01T00:00:00+00:00", "\ud800"]),
        base64.urlsafe_b64encode(b"[" * 100_000).decode(),
    ],
)
def test_a_cursor_that_nobody_wrote_gives_the_first_page(tx, base_id, cursor):
    """It is no error and no way to break the query."""
    item = new_item(tx, base_id)

    assert [item] == [found.id for found in page(tx, base_id, cursor=cursor).items]


def test_filters_and_hidden_rows(tx, base_id):
    """All levels, roots, or the children of one folder; `deleting` rows never."""
    folder = new_folder(tx, base_id)
    inside = new_item(tx, base_id, folder, status=COMPLETED)
    root = new_item(tx, base_id, status=FAILED)
    new_item(tx, base_id, status=DELETING)

    assert 3 == page(tx, base_id).total
    assert {folder, root} == {item.id for item in page(tx, base_id, roots_only=True).items}
    assert [inside] == [item.id for item in page(tx, base_id, group_id=folder).items]
    assert [root] == [item.id for item in page(tx, base_id, status=FAILED).items]
    assert [folder] == [item.id for item in page(tx, base_id, type=ItemType.DIRECTORY).items]


@pytest.mark.parametrize("limit", [0, 101, -1])
def test_limits_and_bases_are_checked(tx, base_id, limit):
    """1 to 100, and a base that exists."""
    with pytest.raises(InvalidInput):
        page(tx, base_id, limit=limit)
    with pytest.raises(BaseNotFound):
        page(tx, "nobody")


def test_an_item_is_read_by_id_also_while_it_is_deleting(tx, base_id):
    """Only lists hide it."""
    item = new_item(tx, base_id, status=DELETING)

    assert DELETING is items.get(tx, item).status
    assert items.find_wanted(tx, item) is None
    with pytest.raises(ItemNotFound):
        items.get(tx, "nobody")


def test_data_is_merged_key_by_key(tx, base_id):
    """None removes a key; a row that is gone is named."""
    item = new_item(tx, base_id)
    items.set_data(tx, item, a=1, b=2)
    items.set_data(tx, item, a=None, c=3)

    assert {"b": 2, "c": 3} == items.get(tx, item).data
    with pytest.raises(ItemNotFound):
        items.set_data(tx, "nobody", a=1)


def test_outermost_picks_in_the_order_given(tx, base_id):
    """Duplicates and nested picks collapse, at any depth."""
    top = new_folder(tx, base_id)
    middle = new_folder(tx, base_id, top)
    leaf, beside = new_item(tx, base_id, middle), new_item(tx, base_id)

    assert [beside, top] == tree.outermost(tx, base_id, [leaf, beside, top, leaf, middle])
    assert [leaf] == tree.outermost(tx, base_id, [leaf, leaf])
    assert [] == tree.outermost(tx, base_id, [])


def test_outermost_names_every_wrong_id(tx, base_id):
    """Unknown ones before those of other bases."""
    mine, other = new_item(tx, base_id), new_item(tx, new_base(tx))

    with pytest.raises(ItemNotFound) as unknown:
        tree.outermost(tx, base_id, [mine, "x", other, "y"])
    with pytest.raises(ItemNotInBase) as foreign:
        tree.outermost(tx, base_id, [mine, other])
    assert (["x", "y"], [other]) == (unknown.value.details["item_ids"], foreign.value.details["item_ids"])


def test_deep_trees_are_walked_to_the_end(tx, base_id):
    """500 folders inside each other."""
    folder = None
    folders = []
    for _ in range(500):
        folder = new_folder(tx, base_id, folder)
        folders.append(folder)
    leaf = new_item(tx, base_id, folder)

    assert folders[:1] == tree.outermost(tx, base_id, [*reversed(folders), leaf])
    assert [leaf] == [item.id for item in tree.leaves(tx, base_id, folders[:1])]
    assert 501 == tree.status_counts(tx, base_id, folders[:1]).total


def test_counts_of_a_subtree_and_of_a_base(tx, base_id):
    """Leaves and containers apart; a base counts what is visible, a subtree what is there."""
    folder = new_folder(tx, base_id)
    new_item(tx, base_id, folder, status=COMPLETED)
    new_item(tx, base_id, folder, status=DELETING)
    of_base, of_folder = tree.status_counts(tx, base_id, None), tree.status_counts(tx, base_id, [folder])

    assert ({COMPLETED: 1}, 2) == (dict(of_base.leaves), of_base.total)
    assert ({COMPLETED: 1, DELETING: 1}, False) == (dict(of_folder.leaves), of_folder.is_settled)


def test_names_are_free_in_every_spelling_that_a_disk_confuses(tx, base_id):
    """Case and normal form make no difference; another base is another disk."""
    other = new_base(tx)
    names = [
        paths.reserve(tx, base_id, new_item(tx, base_id), name)
        for name in ("Rück.pdf", "Ru\u0308ck.pdf", "RÜCK.PDF", "rück_1.pdf")
    ]

    assert 4 == len({folded(name) for name in names})
    assert ("Rück.pdf", "Rück.pdf") == (names[0], paths.reserve(tx, other, new_item(tx, other), "Rück.pdf"))


def test_names_in_a_folder_are_kept_apart_as_at_the_top(tx, base_id):
    """Each folder has its own, and what is claimed for rows to come counts as well."""
    rows = [new_item(tx, base_id) for _ in range(4)]
    claims = paths.Claims(tx, base_id)
    claimed = [claims.claim(row, name, folder="docs") for row, name in zip(rows, ("Rück.md", "RU\u0308CK.md"), strict=False)]
    claims.hold()

    assert ["docs/Rück.md", "docs/RU\u0308CK_1.md"] == claimed
    assert "docs/rück_2.md" == paths.reserve(tx, base_id, rows[2], "rück.md", folder="docs")
    assert "Rück.md" == paths.reserve(tx, base_id, rows[3], "Rück.md")


def test_a_name_is_free_again_when_its_row_is_gone(tx, base_id):
    """Not before: bytes of a `deleting` item may still be there."""
    item = new_item(tx, base_id)
    paths.reserve(tx, base_id, item, "a.md")
    items.remove(tx, base_id, [item])

    assert "a.md" == paths.reserve(tx, base_id, new_item(tx, base_id), "a.md")


def test_numbers_go_before_the_extension_of_files_and_after_the_name_of_folders(tx, base_id):
    """`report.v2` is no extension of a folder."""
    names = [
        paths.reserve(tx, base_id, new_item(tx, base_id), name, directory=directory)
        for name, directory in (("report.v2", True), ("report.v2", True), ("a.tar.gz", False), ("a.tar.gz", False))
    ]

    assert ["report.v2", "report.v2_1", "a.tar.gz", "a.tar_1.gz"] == names
