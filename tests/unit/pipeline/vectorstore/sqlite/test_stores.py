"""How many files a process holds open, and when the file itself is rewritten."""

import os
from pathlib import Path

import pytest

from knowledge.pipeline.vectorstore.sqlite import SqliteIndexStores
from knowledge.pipeline.vectorstore.sqlite.reclaim import MIN_FREE_BYTES
from tests.contracts.leaves import DIMENSIONS, leaf, plain_leaf, vector_of
from tests.unit.pipeline.vectorstore.sqlite.soundness import assert_sound


def open_files(path: Path) -> list[str]:
    """Files below `path` that this process has open."""
    targets = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            targets.append(str(link.readlink()))
        except FileNotFoundError:
            continue
    return sorted({os.path.relpath(target, path) for target in targets if target.startswith(str(path))})


def test_store_is_opened_once(stores):
    """A process has one store for a base."""
    assert stores.create("a", DIMENSIONS) is stores.open("a", DIMENSIONS)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc to count open files")
def test_open_files_are_bounded(tmp_path):
    """However many bases are touched, only the last few stay open; the others answer all the same."""
    stores = SqliteIndexStores(lambda base_id: tmp_path / base_id / "i", busy_timeout_seconds=5, max_awake=2)
    opened = {}
    for name in "abcdef":
        opened[name] = stores.create(name, DIMENSIONS)
        opened[name].rebuild_material(leaf(name, "tick"))
    held = {file.split("/")[0] for file in open_files(tmp_path)}
    answers = [[hit.item_id for hit in opened[name].nearest(vector_of("tick"), 1)] for name in "abcdef"]
    stores.close()

    assert {"e", "f"} == held
    assert [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]] == answers
    assert [] == open_files(tmp_path)


def test_file_shrinks_only_when_much_is_free(stores):
    """Little free space is kept for later writes; a fifth of the file and 8 MiB of it are given back."""
    store = stores.create("shrink", None)
    text = "".join(chr(0x4E00 + n % 5000) for n in range(40_000))
    store.rebuild_materials(plain_leaf(f"i{n}", f"{n} {text}") for n in range(80))
    store.reclaim()
    full = store.path.stat().st_size

    store.delete_materials(["i0", "i1"])
    store.reclaim()
    little = store.path.stat().st_size
    store.delete_materials([f"i{n}" for n in range(2, 70)])
    store.reclaim()
    shrunk = store.path.stat().st_size

    assert full == little
    assert shrunk < full - MIN_FREE_BYTES
    assert not store.path.with_name("index.sqlite-wal").stat().st_size
    assert [f"i{n}" for n in range(70, 80)] == sorted(hit.item_id for hit in store.lexical("一丁", 100))
    assert_sound(store.path)


def test_large_text_is_fetched_by_its_slice(stores):
    """Passages of a long text in many scripts are cut at the right bytes."""
    store = stores.create("long", DIMENSIONS)
    texts = [f"{'é海🕊' * 300} passage{n} {'ß' * n}" for n in range(200)]
    store.rebuild_material(leaf("long", *texts))

    for n in (0, 1, 99, 199):
        hit = store.lexical(f"passage{n}", 1)[0]
        assert texts[n] == store.fetch([hit.unit_id])[hit.unit_id].unit.text
