"""The one writer of item status: transitions, and containers that always say what their children say."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from knowledge.catalog import items, status
from knowledge.catalog.rows import ITEM
from knowledge.errors import InvalidInput
from knowledge.model.status import ACTIVE, CHILD_FAILED, ItemStatus, ItemType
from tests.rows import new_base, new_folder, new_item, status_of

IDLE, PREPARING, PROCESSING = ItemStatus.IDLE, ItemStatus.PREPARING, ItemStatus.PROCESSING
READING, EMBEDDING = ItemStatus.READING, ItemStatus.EMBEDDING
COMPLETED, FAILED, DELETING = ItemStatus.COMPLETED, ItemStatus.FAILED, ItemStatus.DELETING


@pytest.fixture
def base_id(tx):
    return new_base(tx)


@pytest.mark.parametrize(
    ("expected", "error", "children"),
    [
        (COMPLETED, None, []),
        (COMPLETED, None, [COMPLETED, COMPLETED]),
        (PROCESSING, None, [COMPLETED, PROCESSING]),
        (PROCESSING, None, [FAILED, READING]),
        (PROCESSING, None, [COMPLETED, IDLE]),
        (FAILED, CHILD_FAILED, [COMPLETED, FAILED]),
        (COMPLETED, None, [COMPLETED, DELETING]),
        (COMPLETED, None, [DELETING]),
        (FAILED, CHILD_FAILED, [FAILED, DELETING]),
    ],
)
def test_a_container_says_what_its_children_say(tx, base_id, expected, error, children):
    """Active wins over failed, failed over completed; what is being deleted does not count."""
    folder = new_folder(tx, base_id)
    for child in children:
        new_item(tx, base_id, folder, status=child)
    status.reconcile(tx, base_id, [folder])
    found = items.get(tx, folder)

    assert (expected, error) == (found.status, found.error)


def test_a_preparing_container_keeps_its_status_and_the_one_above_is_recomputed(tx, base_id):
    """Expansion goes on whatever a child does."""
    above = new_folder(tx, base_id, status=COMPLETED)
    folder = new_folder(tx, base_id, above, status=PREPARING, expanded=False)
    new_item(tx, base_id, folder, status=COMPLETED)
    status.reconcile(tx, base_id, [folder])

    assert PREPARING == status_of(tx, folder)
    assert PROCESSING == status_of(tx, above)


def test_a_folder_whose_expansion_was_killed_is_not_lifted_by_its_children(tx, base_id):
    """The third of 500 children must not make a half expanded folder look complete."""
    folder = new_folder(tx, base_id, status=FAILED, expanded=False, error="indexing_interrupted")
    leaf = new_item(tx, base_id, folder, status=EMBEDDING)
    status.complete(tx, items.get(tx, leaf), chunk_count=1, notices=[])

    assert (FAILED, "indexing_interrupted") == (items.get(tx, folder).status, items.get(tx, folder).error)


def test_a_deleting_container_is_never_revived(tx, base_id):
    """Deleting ends the branch."""
    above = new_folder(tx, base_id, status=COMPLETED)
    folder = new_folder(tx, base_id, above, status=DELETING)
    leaf = new_item(tx, base_id, folder, status=READING)
    status.fail(tx, items.get(tx, leaf), "x", {})

    assert DELETING == status_of(tx, folder)
    assert COMPLETED == status_of(tx, above)


def test_starts_at_several_depths_reach_the_top_whatever_their_order(tx, base_id):
    """A parent that was looked at before its child changed is looked at again."""
    top = new_folder(tx, base_id, status=FAILED, error=CHILD_FAILED)
    inner = new_folder(tx, base_id, top, status=FAILED, error=CHILD_FAILED)
    status.reconcile(tx, base_id, [top, inner])

    assert [COMPLETED, COMPLETED] == [status_of(tx, top), status_of(tx, inner)]


@pytest.mark.parametrize("write", ["begin", "complete", "fail", "park", "restart_expansion"])
def test_deleting_is_for_ever(tx, base_id, write):
    """No status ever replaces `deleting`, and nobody is told off for trying."""
    kind = ItemType.DIRECTORY if write == "restart_expansion" else ItemType.NOTE
    item = items.get(tx, new_item(tx, base_id, kind=kind, status=DELETING))
    {
        "begin": lambda: status.begin(tx, item.id, READING),
        "complete": lambda: status.complete(tx, item, chunk_count=1, notices=[]),
        "fail": lambda: status.fail(tx, item, "x", {}),
        "park": lambda: status.park(tx, base_id, [item.id], "x", {}),
        "restart_expansion": lambda: status.restart_expansion(tx, item),
    }[write]()

    assert (DELETING, None) == (items.get(tx, item.id).status, items.get(tx, item.id).error)


def test_begin_clears_the_error_and_pulls_the_container_back(tx, base_id):
    """Work that starts again is visible all the way up."""
    folder = new_folder(tx, base_id, status=FAILED, error=CHILD_FAILED)
    leaf = new_item(tx, base_id, folder, status=FAILED)
    begun = status.begin(tx, leaf, READING)

    assert (READING, None, {}) == (begun.status, begun.error, begun.error_detail)
    assert (PROCESSING, None) == (status_of(tx, folder), items.get(tx, folder).error)


@pytest.mark.parametrize("wrong", sorted(set(ItemStatus) - ACTIVE))
def test_begin_takes_active_statuses_only(tx, base_id, wrong):
    """Ends are written by those who end things."""
    with pytest.raises(ValueError):
        status.begin(tx, new_item(tx, base_id), wrong)


@pytest.mark.parametrize("gone", ["never-was", ""])
def test_begin_of_nothing_is_nothing(tx, gone):
    """A vanished item is a clean exit."""
    assert status.begin(tx, gone, READING) is None


@pytest.mark.parametrize("blank", ["", " ", "\n"])
def test_a_failure_needs_a_reason(tx, base_id, blank):
    """A blank reason is refused and nothing changes."""
    leaf = items.get(tx, new_item(tx, base_id))

    with pytest.raises(InvalidInput):
        status.fail(tx, leaf, blank, {})
    with pytest.raises(InvalidInput):
        status.park(tx, base_id, [leaf.id], blank, {})
    assert PROCESSING == status_of(tx, leaf.id)


@pytest.mark.parametrize("before", sorted(ItemStatus))
def test_parking_touches_exactly_the_four_active_statuses(tx, base_id, before):
    """Idle, completed, failed and deleting stay what they are."""
    kind = ItemType.DIRECTORY if before is PREPARING else ItemType.NOTE
    leaf = new_item(tx, base_id, kind=kind, status=before)
    parked = status.park(tx, base_id, [leaf], "indexing_interrupted", {})

    expected = ([leaf], FAILED) if before in ACTIVE else ([], before)
    assert expected == (parked, status_of(tx, leaf))


def test_parking_never_reaches_into_another_base(tx, base_id):
    """Ids of other bases are ignored."""
    other = new_item(tx, new_base(tx))

    assert [] == status.park(tx, base_id, [other], "x", {})
    assert PROCESSING == status_of(tx, other)


def test_deleting_hides_the_whole_subtree_and_leaves_the_parent(tx, base_id):
    """One statement marks everything below; the parent changes only when the rows are gone."""
    top = new_folder(tx, base_id)
    folder = new_folder(tx, base_id, top)
    leaf = new_item(tx, base_id, folder, status=FAILED)
    beside = new_item(tx, base_id, top)
    status.mark_deleting(tx, base_id, [folder])

    assert [PROCESSING, DELETING, DELETING, PROCESSING] == [status_of(tx, one) for one in (top, folder, leaf, beside)]
    assert items.get(tx, leaf).error is None


def recomputed(tx, base_id):
    """Every container's status from scratch, deepest first."""
    rows = {row.id: row for row in tx.execute(select(ITEM).where(ITEM.c.base_id == base_id))}
    below = {}
    for row in rows.values():
        below.setdefault(row.group_id, []).append(row.id)

    found = {}

    def visit(item_id):
        children = [visit(child) for child in below.get(item_id, [])]
        row = rows[item_id]
        own = row.status
        if row.type is ItemType.DIRECTORY and own not in (DELETING, PREPARING) and row.expanded_at is not None:
            if any(child in ACTIVE | {IDLE} for child in children):
                own = PROCESSING
            else:
                own = FAILED if FAILED in children else COMPLETED
        found[item_id] = own
        return own

    for root in below.get(None, []):
        visit(root)
    return found


CHANGES = ["begin", "complete", "fail", "park", "delete", "remove"]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_containers_always_equal_a_recomputation_from_scratch(db, data):
    """Over random trees and random changes, through our own writers, no container is ever stale."""
    with db.write() as tx:
        base_id = new_base(tx)
        folders = [None]
        leaves = []
        for _ in range(data.draw(st.integers(1, 14), label="rows")):
            parent = data.draw(st.sampled_from(folders), label="parent")
            if data.draw(st.booleans(), label="folder"):
                expanded = data.draw(st.integers(0, 4), label="expanded") > 0
                folders.append(new_folder(tx, base_id, parent, expanded=expanded))
            else:
                kind = data.draw(st.sampled_from([IDLE, PROCESSING, EMBEDDING, COMPLETED, FAILED]), label="status")
                leaves.append(new_item(tx, base_id, parent, status=kind))
        tops = [folder for folder in folders if folder]
        status.reconcile(tx, base_id, tops[::-1])
        assert recomputed(tx, base_id) == {
            row.id: row.status for row in tx.execute(select(ITEM).where(ITEM.c.base_id == base_id))
        }

        for _ in range(data.draw(st.integers(1, 12), label="changes")):
            alive = [one for one in leaves if items.find(tx, one)]
            if not alive:
                break
            chosen = data.draw(st.lists(st.sampled_from(alive), min_size=1, max_size=4, unique=True), label="leaves")
            change = data.draw(st.sampled_from(CHANGES), label="change")
            first = items.get(tx, chosen[0])
            if change == "begin":
                status.begin(tx, first.id, READING)
            elif change == "complete":
                status.complete(tx, first, chunk_count=1, notices=[])
            elif change == "fail":
                status.fail(tx, first, "x", {})
            elif change == "park":
                status.park(tx, base_id, chosen, "x", {})
            else:
                groups = {items.get(tx, one).group_id for one in chosen}
                status.mark_deleting(tx, base_id, chosen)
                if change == "remove":
                    items.remove(tx, base_id, chosen)
                status.reconcile(tx, base_id, groups)

            now = {row.id: row.status for row in tx.execute(select(ITEM).where(ITEM.c.base_id == base_id))}
            assert recomputed(tx, base_id) == now
