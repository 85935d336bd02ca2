"""Behaviours 27 to 37: statuses, and containers recomputed from their children."""

import pytest

from knowledge.catalog import items, status
from knowledge.errors import InvalidInput
from knowledge.ingestion import prepare
from knowledge.model.status import ACTIVE, CHILD_FAILED, ItemStatus
from tests.regression.faults import refusing
from tests.rows import new_folder, new_item, status_of

COMPLETED, FAILED, PROCESSING = ItemStatus.COMPLETED, ItemStatus.FAILED, ItemStatus.PROCESSING
PREPARING, DELETING = ItemStatus.PREPARING, ItemStatus.DELETING


def test_027_deleting_is_never_left(house, base):
    """Whatever else is written is ignored, without an error."""
    with house.db.write() as tx:
        item = items.get(tx, new_item(tx, base.id, status=DELETING))

        assert all(status.begin(tx, item.id, active) is None for active in ACTIVE)

        status.complete(tx, item, chunk_count=1, notices=())
        status.fail(tx, item, "x", {})
        status.park(tx, base.id, [item.id], "x", {})

        assert DELETING is status_of(tx, item.id)


def test_028_work_begins_without_the_old_error(house, base):
    """Status and error are written together."""
    with house.db.write() as tx:
        begun = status.begin(tx, new_item(tx, base.id, status=FAILED), PROCESSING)

        assert (PROCESSING, None, {}) == (begun.status, begun.error, begun.error_detail)


def test_029_a_failure_needs_a_reason(house, base):
    """A blank one is refused, and nothing changes."""
    with house.db.write() as tx:
        item = items.get(tx, new_item(tx, base.id))
        for blank in ("", "  \n"):
            with pytest.raises(InvalidInput):
                status.fail(tx, item, blank, {})
            with pytest.raises(InvalidInput):
                status.park(tx, base.id, [item.id], blank, {})

        assert PROCESSING is status_of(tx, item.id)


@pytest.mark.parametrize(
    ("children", "expected", "error"),
    [
        ([COMPLETED, PROCESSING], PROCESSING, None),
        ([COMPLETED, COMPLETED], COMPLETED, None),
        ([COMPLETED, FAILED], FAILED, CHILD_FAILED),
        ([FAILED, ItemStatus.EMBEDDING], PROCESSING, None),
        ([ItemStatus.IDLE, COMPLETED], PROCESSING, None),
        ([], COMPLETED, None),
    ],
)
def test_030_a_container_is_what_its_children_are(house, base, children, expected, error):
    """Active before failed before completed; without any child it is done."""
    with house.db.write() as tx:
        folder = new_folder(tx, base.id, status=FAILED, error="old")
        for child in children:
            new_item(tx, base.id, folder, status=child)
        status.reconcile(tx, base.id, [folder])

        assert (expected, error) == (items.get(tx, folder).status, items.get(tx, folder).error)


@pytest.mark.parametrize("other", [COMPLETED, FAILED])
def test_031_what_is_being_deleted_does_not_count(house, base, other):
    """Neither as active nor as failed."""
    with house.db.write() as tx:
        folder = new_folder(tx, base.id)
        new_item(tx, base.id, folder, status=DELETING)
        new_item(tx, base.id, folder, status=other)
        status.reconcile(tx, base.id, [folder])

        assert other is status_of(tx, folder)


def test_032_a_container_that_is_being_expanded_stays_so(house, base):
    """A finished leaf below does not lift it; what is above it is at work."""
    with house.db.write() as tx:
        above = new_folder(tx, base.id, status=COMPLETED)
        folder = new_folder(tx, base.id, above, status=PREPARING, expanded=False)
        status.complete(tx, items.get(tx, new_item(tx, base.id, folder)), chunk_count=1, notices=())

        assert (PREPARING, PROCESSING) == (status_of(tx, folder), status_of(tx, above))


def test_033_a_container_that_is_being_deleted_stays_so(house, base):
    """A leaf below that completes late brings nothing back."""
    with house.db.write() as tx:
        above = new_folder(tx, base.id)
        folder = new_folder(tx, base.id, above, status=DELETING)
        status.complete(tx, items.get(tx, new_item(tx, base.id, folder)), chunk_count=1, notices=())

        assert (DELETING, PROCESSING) == (status_of(tx, folder), status_of(tx, above))


def test_034_a_container_keeps_its_own_failure(house, base):
    """It is not recomputed at that moment; what is above it is."""
    with house.db.write() as tx:
        above = new_folder(tx, base.id)
        folder = new_folder(tx, base.id, above)
        new_item(tx, base.id, folder, status=COMPLETED)
        status.fail(tx, items.get(tx, folder), "no_indexable_files", {})

        assert (FAILED, "no_indexable_files") == (items.get(tx, folder).status, items.get(tx, folder).error)
        assert (FAILED, CHILD_FAILED) == (items.get(tx, above).status, items.get(tx, above).error)


def test_035_the_last_active_child_gone_completes_what_is_above(house, root):
    """All the way up, when its row is removed."""
    leaves = [item for item in house.items(root.base_id) if item.relative_path.endswith("c.md")]
    with house.db.write() as tx:
        status.begin(tx, leaves[0].id, ItemStatus.READING)

        assert PROCESSING is status_of(tx, root.id)

    house.service.delete_items(root.base_id, [leaves[0].id])
    house.work()

    assert [COMPLETED] * 5 == [item.status for item in house.items(root.base_id)]


def test_036_a_completed_directory_is_at_work_with_its_new_child(house, root, docs, monkeypatch):
    """In the same commit; if the child is refused, the directory stays as it was."""
    inner = next(item for item in house.items(root.base_id) if item.relative_path == "docs/inner")
    (docs / "inner" / "new.md").write_text("A new page.")
    house.service.reindex_items(root.base_id, [root.id], only_changed=True)
    house.deliver(house.sender.waiting.popleft())

    with refusing(house, "INSERT ON knowledge_item"):
        house.deliver(house.sender.waiting.popleft())

        assert COMPLETED is house.item(inner).status

    seen = []
    monkeypatch.setattr(prepare._Expansion, "_finish", lambda expansion: seen.append(house.item(inner).status))
    house.hasten()
    house.rt.dispatch.publish_all_due()
    house.deliver(house.sender.waiting.popleft())

    assert [PROCESSING] == seen


def test_037_parking_a_subtree_spares_what_is_being_deleted(house, base):
    """And recomputes what is above it."""
    with house.db.write() as tx:
        above = new_folder(tx, base.id)
        folder = new_folder(tx, base.id, above)
        leaf, going = new_item(tx, base.id, folder), new_item(tx, base.id, folder, status=DELETING)
        status.park(tx, base.id, [folder, leaf, going], "indexing_interrupted", {})

        assert (FAILED, FAILED, DELETING) == (status_of(tx, folder), status_of(tx, leaf), status_of(tx, going))
        assert CHILD_FAILED == items.get(tx, above).error
