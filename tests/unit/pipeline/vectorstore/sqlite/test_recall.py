"""The vector lane finds what an exact scan finds, on easy and on hard vectors, whatever was written in between."""

from itertools import islice

import apsw
import numpy as np
import pytest

from knowledge.pipeline.vectorstore.sqlite.nearest import SCAN_ALL_UP_TO
from tests.bench.materials import materials, numbered_texts
from tests.bench.vector_sets import MAKERS
from tests.unit.pipeline.vectorstore.sqlite.exact import nearest_exact
from tests.unit.pipeline.vectorstore.sqlite.soundness import assert_sound

ROWS, QUERIES, EACH = 6000, 60, 20


def fill(store, rows, *, first=0):
    leaves = materials([f"{first} {text}" for text in numbered_texts(len(rows))], rows, units_each=EACH, first=first)
    while batch := list(islice(leaves, 50)):
        store.rebuild_materials(batch)


def recall(store, queries, limit=10):
    """Mean share of the exact best that are found; a hit as good as the last of them counts."""
    shares = []
    for query in queries:
        last = nearest_exact(store.path, query, limit)[-1].score
        shares.append(sum(hit.score >= last - 1e-6 for hit in store.nearest(query, limit)) / limit)
    return float(np.mean(shares))


@pytest.mark.parametrize("kind", sorted(MAKERS))
def test_recall_is_kept_through_a_life_of_writes(stores, kind):
    """After filling, growing, deleting, rebuilding with other vectors, and renewing the codes: recall@10 of 0.995 or more."""
    dimensions = 384
    rows, queries = MAKERS[kind](ROWS, QUERIES, dimensions, 11)
    store = stores.create(kind, dimensions)
    seen = {}

    fill(store, rows[: ROWS // 2])
    seen["filled"] = recall(store, queries)
    fill(store, rows[ROWS // 2 :], first=ROWS // 2 // EACH)
    seen["grown"] = recall(store, queries)
    store.delete_materials([f"item{n}" for n in range(0, ROWS // EACH, 3)])
    seen["deleted"] = recall(store, queries)
    fill(store, rows[::-1][: ROWS // 3].copy(), first=10_000)
    fill(store, rows[: ROWS // 4], first=10_000)
    seen["rebuilt"] = recall(store, queries)
    store.reclaim()
    seen["renewed"] = recall(store, queries)
    seen["hundred"] = recall(store, queries[:20], limit=100)

    assert {} == {stage: value for stage, value in seen.items() if value < 0.995}
    assert store.counts().vectors > SCAN_ALL_UP_TO  # else the codes would not have been used
    assert_sound(store.path)


@pytest.mark.parametrize("dimensions", [64, 100, 257])
def test_width_need_not_fill_words(stores, dimensions):
    """Widths that are no multiple of 64 are found just as well."""
    rows, queries = MAKERS["blended"](4000, QUERIES, dimensions, 3)
    store = stores.create("width", dimensions)
    fill(store, rows)

    assert recall(store, queries) >= 0.995


def test_scores_are_exact(stores):
    """What the codes let through is scored from the stored vectors: the same numbers as the scan's."""
    rows, queries = MAKERS["hashed"](3000, 5, 128, 4)
    store = stores.create("scores", 128)
    fill(store, rows * 3)

    for query in queries:
        exact = {hit.unit_id: hit.score for hit in nearest_exact(store.path, query, 10)}
        found = {hit.unit_id: hit.score for hit in store.nearest(query, 10)}
        assert exact == pytest.approx(found, abs=1e-5)


def test_mass_deletion_renews_codes(stores):
    """When most slots are dead the writer itself codes afresh, and a reader that knew the old blocks follows."""
    rows, queries = MAKERS["clustered"](6000, 20, 64, 5)
    store = stores.create("mass", 64)
    fill(store, rows)
    recall(store, queries)
    store.delete_materials([f"item{n}" for n in range(200)])

    connection = apsw.Connection(str(store.path))
    slots, dead = connection.execute("SELECT slots, dead_slots FROM state").fetchone()

    assert slots < 4100 > dead
    assert recall(store, queries) >= 0.995
    assert_sound(store.path)


def test_emptied_base_answers_nothing_and_fills_again(stores):
    """Down to no vector and up again."""
    rows, queries = MAKERS["blended"](3000, 20, 64, 6)
    store = stores.create("emptied", 64)
    fill(store, rows)
    recall(store, queries[:1])
    store.delete_materials(list(store.item_ids()))

    assert [] == store.nearest(queries[0], 10)
    fill(store, rows)
    assert recall(store, queries) >= 0.995
    assert_sound(store.path)
