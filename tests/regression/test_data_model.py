"""Behaviours 1 to 9: what the tables refuse."""

import pytest
from sqlalchemy import update
from sqlalchemy.exc import IntegrityError

from knowledge.catalog import bases, items
from knowledge.catalog.rows import BASE
from knowledge.errors import InvalidInput
from knowledge.model.ids import new_item_id
from knowledge.model.status import BaseStatus, ItemStatus, ItemType
from tests.rows import new_base, new_folder, new_item


def _refused(house, write):
    """The name of the constraint that a write breaks."""
    with pytest.raises(IntegrityError) as refusal, house.db.write() as tx:
        write(tx)
    return str(refusal.value.orig)


def _base_with(tx, **values):
    tx.execute(update(BASE).where(BASE.c.id == new_base(tx)).values(**values))


@pytest.mark.parametrize("half", [{"embedding_model_id": "hashing"}, {"dimensions": 32}])
def test_001_a_completed_base_has_model_and_dimensions_or_neither(house, half):
    """One without the other is refused; both, and neither, are taken."""
    with house.db.write() as tx:
        _base_with(tx, embedding_model_id="hashing", dimensions=32)

    assert "ck_base_status_error" in _refused(house, lambda tx: _base_with(tx, **half))


@pytest.mark.parametrize("error", [None, "", "  "])
def test_002_a_failed_base_says_why(house, error):
    """Without a reason it is refused; with one, any mix of model and dimensions is taken."""
    with house.db.write() as tx:
        _base_with(tx, status=BaseStatus.FAILED, error="missing_embedding_model", embedding_model_id="gone")
        _base_with(tx, status=BaseStatus.FAILED, error="missing_vector_store", dimensions=7)

    assert "ck_base_status_error" in _refused(house, lambda tx: _base_with(tx, status=BaseStatus.FAILED, error=error))


def test_003_only_failed_items_carry_an_error(house, base):
    """A completed item with an error text is refused."""
    refusal = _refused(house, lambda tx: new_item(tx, base.id, status=ItemStatus.COMPLETED, error="x"))

    assert "ck_item" in refusal


@pytest.mark.parametrize("error", ["", "   "])
def test_004_a_failed_item_says_why(house, base, error):
    """A blank reason is refused."""
    refusal = _refused(house, lambda tx: new_item(tx, base.id, status=ItemStatus.FAILED, error=error))

    assert "ck_item_failed_has_error" in refusal


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (ItemType.NOTE, ItemStatus.PREPARING),
        (ItemType.FILE, ItemStatus.PREPARING),
        (ItemType.DIRECTORY, ItemStatus.READING),
        (ItemType.DIRECTORY, ItemStatus.EMBEDDING),
    ],
)
def test_005_leaves_are_not_prepared_and_containers_not_read(house, base, kind, status):
    """Each kind has its own active statuses."""
    assert "ck_item_type_status" in _refused(house, lambda tx: new_item(tx, base.id, kind=kind, status=status))


def test_006_a_parent_lives_in_the_same_base(house, base):
    """A child that names a directory of another base is refused by the database itself."""
    with house.db.write() as tx:
        elsewhere = new_folder(tx, new_base(tx))

    assert "FOREIGN KEY" in _refused(house, lambda tx: new_item(tx, base.id, elsewhere))


def test_007_a_directory_takes_its_subtree_along(house, base):
    """Deleting its row deletes what is below, and nothing beside it."""
    with house.db.write() as tx:
        docs = new_folder(tx, base.id)
        inner = new_folder(tx, base.id, docs)
        leaf, sibling = new_item(tx, base.id, inner), new_item(tx, base.id)
        items.remove(tx, base.id, [docs])

        assert [None, None] == [items.find(tx, inner), items.find(tx, leaf)]
        assert sibling == items.get(tx, sibling).id


@pytest.mark.parametrize("parent", ["missing", "a leaf", "deleting", "blank", "of another base"])
def test_008_children_are_made_below_open_directories_only(house, base, parent):
    """Anything else as a parent is refused and named, and nothing is inserted."""
    with house.db.write() as tx:
        named = {
            "missing": new_item_id(),
            "a leaf": new_item(tx, base.id),
            "deleting": new_folder(tx, base.id, status=ItemStatus.DELETING),
            "blank": "",
            "of another base": new_folder(tx, new_base(tx)),
        }[parent]
        child = items.NewItem(new_item_id(), ItemType.NOTE, "x", ItemStatus.PROCESSING, group_id=named)

        with pytest.raises(InvalidInput) as refusal:
            items.insert(tx, base.id, [child])

        assert ("group_id", [named]) == (refusal.value.details["field"], refusal.value.details["item_ids"])
        assert items.find(tx, child.id) is None


def test_009_a_base_takes_its_own_items_along_only(house, base):
    """An empty base takes none; one with items takes these; those of others stay."""
    with house.db.write() as tx:
        other = new_base(tx)
        mine, theirs = new_item(tx, base.id), new_item(tx, other)
        bases.remove(tx, new_base(tx))

        assert mine == items.get(tx, mine).id

        bases.remove(tx, base.id)

        assert items.find(tx, mine) is None
        assert theirs == items.get(tx, theirs).id
