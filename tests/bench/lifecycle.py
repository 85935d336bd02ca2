"""What the catalogue costs beside raw SQL, with 100,000 items; and how fast a directory of 10,000 goes.

`python -m tests.bench.lifecycle` prints the figures; `run()` returns them for a wider bench.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from pysqlite3 import dbapi2

from knowledge.catalog import items, jobs
from knowledge.catalog.rows import ITEM
from knowledge.db.columns import utc_now
from knowledge.ingestion import recovery
from knowledge.model.documents import Material, Unit, text_hash
from knowledge.model.ids import ItemId, new_item_id
from knowledge.model.jobs import JobSpec
from knowledge.model.status import ItemStatus, ItemType
from knowledge.model.views import Base
from tests.bench.measured import Measured
from tests.bench.vector_sets import blended
from tests.house import DIMENSIONS, House

ITEMS: Final = 100_000
FOLDERS: Final = 100
SMALL: Final = 10_000
BATCH: Final = 50
WITHIN: Final = 1 / 20  #: of the speed of one raw statement

_SUBTREE: Final = """WITH RECURSIVE below(base_id, id) AS (
    SELECT ?2, ?1
    UNION SELECT child.base_id, child.id FROM below JOIN knowledge_item child
        ON child.base_id = below.base_id AND child.group_id = below.id
)"""
_LISTING: Final = """SELECT *, (SELECT count(*) FROM knowledge_item WHERE base_id = ?1 AND status <> 'deleting')
    FROM knowledge_item WHERE base_id = ?1 AND status <> 'deleting'
    ORDER BY type <> 'directory', created_at DESC, id LIMIT 20"""
_COUNTS: Final = f"""{_SUBTREE} SELECT type = 'directory', status, count(*) FROM knowledge_item
    WHERE id IN (SELECT id FROM below) GROUP BY 1, 2"""
_MARK: Final = f"""{_SUBTREE} UPDATE knowledge_item SET status = 'deleting', error = NULL, updated_at = 1
    WHERE id IN (SELECT id FROM below)"""
_LOST: Final = """SELECT id FROM knowledge_item WHERE status IN ('preparing', 'processing', 'reading', 'embedding')
    AND type <> 'directory' AND NOT EXISTS (SELECT 1 FROM knowledge_job_item link JOIN knowledge_job job ON job.id = link.job_id
    WHERE link.item_id = knowledge_item.id AND job.status IN ('pending', 'running'))"""


def run() -> list[Measured]:
    """Needs about two minutes and 0.5 GiB of temporary disk."""
    with tempfile.TemporaryDirectory(prefix="knowledge-bench-") as directory:
        house = House(Path(directory))
        try:
            return [*_catalogue(house), _deletion(house)]
        finally:
            house.rt.close()


def _catalogue(house: House) -> list[Measured]:
    base = house.base(embedder=None)
    root = _large_tree(house, base)
    with closing(_raw(house)) as raw:
        found = [
            _beside_raw(
                f"listing 20 of {ITEMS:,} items",
                lambda: house.service.list_items(base.id),
                lambda: raw.execute(_LISTING, (base.id,)).fetchall(),
            ),
            _beside_raw(
                f"status counts of a subtree of {ITEMS:,} rows",
                lambda: house.service.status_counts(base.id, [root]),
                lambda: raw.execute(_COUNTS, (root, base.id)).fetchall(),
            ),
            _beside_raw(
                f"recovery sweep over {ITEMS:,} items and jobs",
                lambda: recovery.sweep(house.rt),
                lambda: raw.execute(_LOST).fetchall(),
            ),
        ]

        def visible_again() -> None:
            raw.execute("DELETE FROM knowledge_job WHERE type = 'knowledge.delete-subtree'")
            raw.execute("UPDATE knowledge_item SET status = 'processing'")

        found.append(
            _beside_raw(
                f"marking {ITEMS:,} rows deleting, their waiting jobs cancelled",
                lambda: house.service.delete_items(base.id, [root]),
                lambda: raw.execute(_MARK, (root, base.id)),
                before=visible_again,
            )
        )
    return found


def _large_tree(house: House, base: Base) -> ItemId:
    """One directory, a hundred folders, 100,000 active leaves with a waiting job each."""
    root, now = new_item_id(), utc_now()
    folders = [new_item_id() for _ in range(FOLDERS)]

    def row(item_id: ItemId, parent: ItemId | None, kind: ItemType, path: str) -> dict[str, Any]:
        return {
            "id": item_id,
            "base_id": base.id,
            "group_id": parent,
            "type": kind,
            "source": f"/somewhere/{path}",
            "data": {},
            "relative_path": path,
            "status": ItemStatus.PROCESSING,
            "error_detail": {},
            "notices": [],
            "expanded_at": now if kind is ItemType.DIRECTORY else None,
            "created_at": now,
            "updated_at": now,
        }

    rows = [row(root, None, ItemType.DIRECTORY, "docs")]
    rows += [row(folder, root, ItemType.DIRECTORY, f"docs/{number}") for number, folder in enumerate(folders)]
    leaves = [new_item_id() for _ in range(ITEMS)]
    for number, leaf in enumerate(leaves):
        rows.append(row(leaf, folders[number % FOLDERS], ItemType.FILE, f"docs/{number % FOLDERS}/{number}.md"))
    with house.db.write() as tx:
        tx.execute(ITEM.insert(), rows)
        jobs.enqueue_all(tx, [JobSpec.index_documents(base.id, leaf) for leaf in leaves], shard=base.shard)
    return root


def _beside_raw(
    what: str, ours: Callable[[], object], raw: Callable[[], object], *, before: Callable[[], None] | None = None
) -> Measured:
    seconds: dict[str, list[float]] = {"ours": [], "raw": []}
    for _ in range(3):
        for name, call in (("ours", ours), ("raw", raw)):
            if before is not None:
                before()
            started = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - started)
    mine, theirs = min(seconds["ours"]), min(seconds["raw"])
    note = f"({mine * 1e3:.1f} ms against {theirs * 1e3:.1f} ms)"
    return Measured(f"{what}: speed against one raw statement", theirs / mine, WITHIN, note)


def _deletion(house: House) -> Measured:
    """A directory goes by its job; the rival deletes the same from index, disk and a table, knowing what to delete."""
    base, rival = house.base(), house.base()
    root = _small_documents(house, base, rows=True)
    _small_documents(house, rival, rows=False)

    started = time.perf_counter()
    house.service.delete_items(base.id, [root])
    house.work(hurry=True)
    ours = time.perf_counter() - started
    assert [] == house.items(base) == house.raw(base)

    raw = house.root / "bases" / rival.id / "raw"
    with closing(dbapi2.connect(house.root / "bare.sqlite", isolation_level=None)) as table:
        table.execute("PRAGMA journal_mode=WAL")
        table.execute("PRAGMA synchronous=NORMAL")
        table.execute("CREATE TABLE item (id TEXT PRIMARY KEY, path TEXT)")
        names = [f"{number:05}" for number in range(SMALL)]
        table.executemany("INSERT INTO item VALUES (?, ?)", [(name, f"docs/{name}.md") for name in names])
        index = house.rt.index(rival)
        started = time.perf_counter()
        for start in range(0, SMALL, BATCH):
            part = names[start : start + BATCH]
            index.delete_materials(part)
            for name in part:
                (raw / "docs" / f"{name}.md").unlink()
            table.execute("BEGIN IMMEDIATE")
            table.executemany("DELETE FROM item WHERE id = ?", [(name,) for name in part])
            table.execute("COMMIT")
        theirs = time.perf_counter() - started
    note = f"({SMALL / ours:,.0f}/s against {SMALL / theirs:,.0f}/s)"
    return Measured(
        f"deleting a directory of {SMALL:,} small items: rate against bare deletes in batches", theirs / ours, 0.5, note
    )


def _small_documents(house: House, base: Base, *, rows: bool) -> ItemId:
    """Bytes and material of so many notes below one directory, and their rows if wanted."""
    root = new_item_id()
    folder = house.root / "bases" / base.id / "raw" / "docs"
    folder.mkdir(parents=True)
    vectors = blended(SMALL, 1, DIMENSIONS, 5)[0]
    ids: Sequence[ItemId] = [new_item_id() if rows else ItemId(f"{number:05}") for number in range(SMALL)]
    materials = []
    for number, item_id in enumerate(ids):
        text = f"small document {number} about lighthouse {number * 7919 % SMALL}"
        (folder / f"{number:05}.md").write_text(text)
        unit = Unit(index=0, text=text, char_start=0, char_end=len(text))
        materials.append(Material(item_id, f"docs/{number:05}.md", text, [unit], {text_hash(text): vectors[number]}))
    index = house.rt.index(base)
    for start in range(0, SMALL, 500):
        index.rebuild_materials(materials[start : start + 500])
    if rows:
        completed, now = ItemStatus.COMPLETED, utc_now()
        new = [items.NewItem(root, ItemType.DIRECTORY, "/docs", completed, None, "docs", expanded_at=now)]
        for number, item_id in enumerate(ids):
            path = f"docs/{number:05}.md"
            new.append(items.NewItem(item_id, ItemType.FILE, f"/{path}", completed, root, path))
        with house.db.write() as tx:
            items.insert(tx, base.id, new)
    return root


def _raw(house: House) -> Any:
    connection = dbapi2.connect(house.root / "catalogue.sqlite", isolation_level=None)
    connection.execute("PRAGMA synchronous=FULL")
    return connection


if __name__ == "__main__":
    results = run()
    print(*results, sep="\n")
    sys.exit(not all(result.ok for result in results))
