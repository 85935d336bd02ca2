"""Behaviours 96 and 97: the search units of an item, and where its bytes are."""

import pytest

from knowledge.errors import BaseFailed, InvalidInput, InvalidOperation, ItemNotFound, ItemNotInBase
from knowledge.model.ids import new_item_id
from knowledge.model.inputs import NoteInput
from knowledge.model.status import ItemStatus
from tests.regression.failed import fail_base


def test_096_units_are_an_items_last_good_state(house, root, docs):
    """Of a directory those of all its leaves; also while it is indexed again, or has failed: the status goes along."""
    (leaf,) = [item for item in house.items(root.base_id) if item.title == "a.md"]
    whole = house.service.chunks(root.base_id, root.id)
    (docs / "a.md").write_bytes(b"")
    house.service.reindex_items(root.base_id, [root.id])
    house.work()
    house.service.reindex_items(root.base_id, [leaf.id])
    house.work(hurry=True)

    (unit,) = house.service.chunks(root.base_id, leaf.id)

    assert 3 == len(whole)
    assert ("The lighthouse stands on the northern rock.", ItemStatus.FAILED, 0) == (
        unit.content,
        unit.item_status,
        unit.chunk_index,
    )


def test_096_units_that_cannot_be_listed(house, root):
    """A base that failed, an item of another base or of none, a directory below which something is being deleted."""
    other = house.base()
    child = next(item for item in house.items(root.base_id) if item.title == "a.md")
    with pytest.raises(ItemNotInBase):
        house.service.chunks(other.id, root.id)
    with pytest.raises(ItemNotFound):
        house.service.chunks(root.base_id, new_item_id())
    house.service.delete_items(root.base_id, [child.id])
    for hidden in (root, child):
        with pytest.raises(InvalidOperation):
            house.service.chunks(root.base_id, hidden.id)
    house.work()
    assert 2 == len(house.service.chunks(root.base_id, root.id))
    fail_base(house, house.service.base(root.base_id))
    with pytest.raises(BaseFailed):
        house.service.chunks(root.base_id, root.id)


def test_096_a_preview_is_the_beginning(house, base):
    """And says how much there is; a directory, or what is being deleted, has none."""
    (note,) = house.add(base, NoteInput(content="The lighthouse " * 9))
    assert ("", 0) == (house.service.preview(note.id).text, house.service.preview(note.id).total_characters)
    house.work()

    preview = house.service.preview(note.id, characters=14)

    assert ("The lighthouse", True) == (preview.text, preview.truncated)
    for characters in (0, 20_001):
        with pytest.raises(InvalidInput):
            house.service.preview(note.id, characters=characters)
    house.service.delete_items(base.id, [note.id])
    with pytest.raises(InvalidOperation):
        house.service.preview(note.id)


def test_097_only_files_have_a_stored_copy_to_show(house, base, write, docs):
    """A note and a directory have none."""
    file, note, directory = house.add(base, write("x.md", "text"), NoteInput(content="note"), docs)

    assert "text" == house.service.file_path(file.id).read_text()
    for other in (note, directory):
        with pytest.raises(InvalidOperation) as refusal:
            house.service.file_path(other.id)

        assert (other.id, 400) == (refusal.value.details["item_id"], refusal.value.http_status)
    with pytest.raises(ItemNotFound):
        house.service.file_path(new_item_id())
