"""Vector search against a plain scan of the same rows, and the rate of rebuilding materials.

`python -m tests.bench.vectors` prints both; `run()` returns them for a wider bench.
"""

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

import apsw
import numpy as np
import numpy.typing as npt
import sqlite_vec

from knowledge.model.documents import Material
from knowledge.pipeline.vectorstore.sqlite import SqliteIndexStore, SqliteIndexStores
from tests.bench.materials import materials, numbered_texts, worded_texts
from tests.bench.measured import Measured, least_medians
from tests.bench.vector_sets import MAKERS, Vectors, blended

ROWS: Final = 100_000
DIMENSIONS: Final = 384
QUERIES: Final = 100
UNITS_EACH: Final = 20
SEED: Final = 20_240_917

Rows = npt.NDArray[np.int64]


def run() -> list[Measured]:
    """Needs about a minute, 1 GiB of memory and 0.5 GiB of temporary disk."""
    with tempfile.TemporaryDirectory(prefix="knowledge-bench-") as directory:
        stores = SqliteIndexStores(lambda base_id: Path(directory) / base_id / "index.sqlite", busy_timeout_seconds=30)
        try:
            return [*_search_speed(stores), *_recalls(stores), *_rebuild_rate(stores)]
        finally:
            stores.close()


def _search_speed(stores: SqliteIndexStores) -> list[Measured]:
    rows, queries = blended(ROWS, QUERIES, DIMENSIONS, SEED)
    store = _filled(stores, "speed", rows)
    scan = _scanner(store.path)
    ours: list[Callable[[], object]] = [partial(store.nearest, query, 10) for query in queries]
    theirs: list[Callable[[], object]] = [partial(scan, query, 10) for query in queries[:10]]
    ours[0](), theirs[0]()
    ours_seconds, scan_seconds = least_medians([ours, theirs])
    note = f"({ours_seconds * 1e3:.2f} ms against {scan_seconds * 1e3:.1f} ms)"
    return [
        Measured("top-10 of 100,000 x 384: speed against a vec_distance_cosine scan", scan_seconds / ours_seconds, 20, note),
        Measured("top-10 of 100,000 x 384, blended: recall@10", _recall(store, rows, queries), 0.995),
    ]


def _recalls(stores: SqliteIndexStores) -> list[Measured]:
    found = []
    for name in ("clustered", "anisotropic", "hashed"):
        rows, queries = MAKERS[name](ROWS, QUERIES, DIMENSIONS, SEED)
        found.append(
            Measured(f"top-10 of 100,000 x 384, {name}: recall@10", _recall(_filled(stores, name, rows), rows, queries), 0.995)
        )
        stores.drop(name)
    return found


def _rebuild_rate(stores: SqliteIndexStores) -> list[Measured]:
    """Replacing 20-unit materials, one a transaction, against the same rows without full text and codes in bare SQLite."""
    count = 150
    texts = worded_texts(3 * count * UNITS_EACH, words=90, seed=SEED)
    vectors = blended(len(texts), 1, DIMENSIONS, SEED)[0]
    part = count * UNITS_EACH
    versions = [
        list(materials(texts[start : start + part], vectors[start : start + part], units_each=UNITS_EACH))
        for start in range(0, len(texts), part)
    ]
    store = stores.create("rebuild", DIMENSIONS)
    bare = _bare_rebuilder(store.path.with_name("bare.sqlite"))
    for material in versions[0]:
        store.rebuild_material(material)
        bare(material)
    ours: list[Callable[[], object]] = [partial(store.rebuild_material, material) for v in versions[1:] for material in v]
    theirs: list[Callable[[], object]] = [partial(bare, material) for v in versions[1:] for material in v]
    ours_seconds, bare_seconds = least_medians([ours, theirs], rounds=1)
    note = f"({1 / ours_seconds:.0f}/s against {1 / bare_seconds:.0f}/s)"
    # Tokens, vector codes, hashes and shared bodies against plain inserts: ten times the work is honest, twenty would be waste.
    return [Measured("rebuild of a 20-unit material: rate against bare rows", bare_seconds / ours_seconds, 0.05, note)]


def _filled(stores: SqliteIndexStores, base_id: str, rows: Vectors) -> SqliteIndexStore:
    store = stores.create(base_id, DIMENSIONS)
    leaves = materials(numbered_texts(len(rows)), rows, units_each=UNITS_EACH)
    while batch := list(islice(leaves, 200)):
        store.rebuild_materials(batch)
    store.reclaim()
    return store


def _scanner(path: Path) -> Callable[[Vectors, int], list[int]]:
    """What one would write without an index, over the very rows of the store."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_timeout(30_000)
    connection.pragma("mmap_size", 8 << 30)
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    sql = "SELECT id FROM vector ORDER BY vec_distance_cosine(data, ?) LIMIT ?"
    return lambda query, limit: [body for (body,) in connection.execute(sql, (query.tobytes(), limit))]


def _recall(store: SqliteIndexStore, rows: Vectors, queries: Vectors) -> float:
    """Mean share of the true ten that are found; a row as good as the tenth counts as true."""
    shares = []
    for query in queries:
        cosines = rows @ query
        tenth = np.partition(cosines, -10)[-10]
        found = [_row(hit.unit_id) for hit in store.nearest(query, 10)]
        shares.append(np.count_nonzero(cosines[found] >= tenth - 1e-6) / 10)
    return float(np.mean(shares))


def _row(unit_id: str) -> int:
    item, index, _ = unit_id.split(".")
    return int(item.removeprefix("item")) * UNITS_EACH + int(index)


def _bare_rebuilder(path: Path) -> Callable[[Material], None]:
    connection = apsw.Connection(str(path))
    for name, value in (("page_size", 8192), ("journal_mode", "wal"), ("synchronous", "normal")):
        connection.pragma(name, value)
    connection.execute("CREATE TABLE unit (item TEXT, position INTEGER, text TEXT, vector BLOB, PRIMARY KEY (item, position))")

    def rebuild(material: Material) -> None:
        with connection:
            connection.execute("DELETE FROM unit WHERE item = ?", (material.item_id,))
            vectors = material.vectors or {}
            rows = ((material.item_id, unit.index, unit.text, vectors[unit.text_hash].tobytes()) for unit in material.units)
            connection.executemany("INSERT INTO unit VALUES (?, ?, ?, ?)", rows)

    return rebuild


if __name__ == "__main__":
    results = run()
    print(*results, sep="\n")
    sys.exit(not all(result.ok for result in results))
