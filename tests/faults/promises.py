"""What holds after every blow, checked from the outside: rows, ledger, index, files, the provider's bill, search."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import apsw
from sqlalchemy import text

from knowledge.model.documents import text_hash
from knowledge.model.jobs import ACTIVE_JOB
from knowledge.model.status import ItemStatus, ItemType
from knowledge.model.views import Base, Item
from tests.fleet import BATCH_TEXTS, WORKERS, Fleet, paragraphs
from tests.paid import stored_at
from tests.waiting import eventually

CLOCK_SECONDS: Final = 0.01  #: rows keep milliseconds

_UNSETTLED: Final = text(
    "SELECT id, type, status FROM knowledge_item"
    " WHERE status IN ('preparing', 'processing', 'reading', 'embedding', 'deleting')"
)
_ABANDONED: Final = text(
    "SELECT item.id, item.status, item.error FROM knowledge_job job"
    " JOIN knowledge_job_item link ON link.job_id = job.id JOIN knowledge_item item ON item.id = link.item_id"
    " WHERE job.error = 'job_abandoned' AND item.status <> 'deleting'"
    " AND NOT (item.status = 'failed' AND item.error = 'indexing_interrupted')"
)


def assert_promises(fleet: Fleet) -> None:
    """Let go whoever is held, wait until the fleet has come to rest by itself, and check everything that was promised."""
    fleet.let_go()
    eventually(lambda: not _active_jobs(fleet), "every job comes to an end")
    eventually(lambda: not _unsettled(fleet), "no item is active or deleting without a job")
    _assert_abandoned_work_is_visible(fleet)
    _assert_nothing_was_paid_twice(fleet)
    _assert_nothing_was_sent_after_an_interruption(fleet)
    for base in fleet.bases:
        _assert_index_is_whole(fleet, base)
        _assert_nothing_deleted_is_left(fleet, base)
    _assert_work_goes_on(fleet)


def _active_jobs(fleet: Fleet) -> list[tuple[str, str, str]]:
    return [(job.type.value, job.status.value, job.id) for job in fleet.jobs(*ACTIVE_JOB)]


def _unsettled(fleet: Fleet) -> list[tuple[str, ...]]:
    with fleet.service.rt.db.read() as tx:
        return [tuple(row) for row in tx.execute(_UNSETTLED)]


def _assert_abandoned_work_is_visible(fleet: Fleet) -> None:
    with fleet.service.rt.db.read() as tx:
        assert [] == tx.execute(_ABANDONED).all(), "an abandoned job left its item without a visible failure"


def _assert_nothing_was_paid_twice(fleet: Fleet) -> None:
    asked_at = {key: times["sent"] for key, times in fleet.embedder.stats()["texts"].items() if key not in _queries(fleet)}
    again = {
        key: (times, stored)
        for key, stored in stored_at(fleet.settings.data_dir).items()
        if (times := asked_at.get(key)) and max(times) > stored + CLOCK_SECONDS
    }
    assert {} == again, "texts were sent although their vectors had been stored"
    twice = sum(len(times) - 1 for times in asked_at.values())
    assert fleet.killed * BATCH_TEXTS + fleet.refused >= twice, f"{twice} texts sent twice, {fleet.killed} processes killed"


def _assert_nothing_was_sent_after_an_interruption(fleet: Fleet) -> None:
    """Nobody asked for these items again: whoever does, adds a new one."""
    owners: dict[str, list[str]] = defaultdict(list)
    for item_id, units in fleet.texts.items():
        for unit in units:
            owners[text_hash(unit)].append(item_id)
    stats = fleet.embedder.stats()["texts"]
    for item_id, units in fleet.texts.items():
        item = fleet.item(item_id)
        if item is None or item.error != "indexing_interrupted":
            continue
        since = item.updated_at.timestamp() + CLOCK_SECONDS
        alone = [key for unit in units if owners[key := text_hash(unit)] == [item_id]]
        late = [key for key in alone if any(sent > since for sent in stats.get(key, {"sent": []})["sent"])]
        assert [] == late, f"texts of {item_id} were sent after its interruption"


def _assert_index_is_whole(fleet: Fleet, base: Base) -> None:
    rt = fleet.service.rt
    index = rt.index(base)
    rows = {item.id: item for item in _rows(fleet, base)}
    found = set(index.item_ids())
    completed = {
        item.id for item in rows.values() if item.status is ItemStatus.COMPLETED and item.type is not ItemType.DIRECTORY
    }
    assert set() == completed - found, "completed items without material"
    for item_id in found & rows.keys():
        units = [stored.unit.text for stored in index.units(item_id)]
        assert fleet.texts.get(rows[item_id].id, units) == units, f"half material of {item_id}"
        if item_id in completed:
            assert rows[item_id].chunk_count == len(units), f"material of {item_id} is not what its row says"
    counts = index.counts()
    assert counts.materials == len(found)
    assert (counts.vectors > 0) is (base.embedder is not None and counts.units > 0)
    connection = apsw.Connection(str(fleet.settings.data_dir / "bases" / base.id / ".knowledge" / "index.sqlite"))
    try:
        assert "ok" == connection.pragma("integrity_check")
    finally:
        connection.close()


def _assert_nothing_deleted_is_left(fleet: Fleet, base: Base) -> None:
    rt = fleet.service.rt
    rows = list(_rows(fleet, base))
    named = {path for item in rows for path in (item.relative_path, item.indexed_path) if path}
    halfway = tuple(
        f"{item.relative_path}/"
        for item in rows
        if item.type is ItemType.DIRECTORY and item.expanded_at is None and item.relative_path
    )
    stray = [path for path, _ in rt.files.listing(base.id) if path not in named and not path.startswith(halfway)]
    assert fleet.strays.get(base.id, 0) == len(stray), f"files of no item are left in raw/: {stray}"
    assert set() == set(rt.index(base).item_ids()) - {item.id for item in rows}, "the index holds deleted items"
    assert set() == fleet.search(base, "lighthouse lamp") & fleet.deleted.get(base.id, set()), "a deleted item was found"


def _assert_work_goes_on(fleet: Fleet) -> None:
    assert ["broker", *WORKERS, "beat"] == [name for name in ("broker", *WORKERS, "beat") if fleet.lives(name)]
    fresh = {base.id: (base, fleet.add_note(base, *paragraphs(2))) for base in fleet.bases}
    for base, item_id in fresh.values():
        item = fleet.settled(item_id)
        assert (ItemStatus.COMPLETED, None) == (item.status, item.error), item.error_detail
        assert item_id in fleet.search(base, fleet.texts[item_id][0])


def _rows(fleet: Fleet, base: Base) -> Iterator[Item]:
    cursor = None
    while True:
        page = fleet.service.list_items(base.id, limit=100, cursor=cursor)
        yield from page.items
        if (cursor := page.next_cursor) is None:
            return


def _queries(fleet: Fleet) -> set[str]:
    return {text_hash(query) for query in fleet.queries}
