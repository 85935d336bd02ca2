"""What was taken out of an index is neither in its file nor in its log once it was wiped."""

import hashlib
import random
from contextlib import closing

import apsw
import pytest

from knowledge.pipeline.vectorstore.sqlite import SqliteIndexStores, reclaim
from tests.contracts.leaves import plain_leaf
from tests.unit.pipeline.vectorstore.sqlite.soundness import assert_sound


def files_of(store):
    return b"".join(path.read_bytes() for path in store.path.parent.iterdir())


def word(number):
    """One that shares no beginning with others: word lists keep only the rest."""
    return (
        hashlib.sha256(str(number).encode()).hexdigest().translate(str.maketrans("0123456789abcdef", "bcdfghjkqrtvwxzp"))[:16]
    )


@pytest.mark.parametrize("seed", [11, 13])
def test_no_copy_of_a_row_that_once_moved_is_left(stores, seed):
    """A row that moved to another page, when its neighbours went, left its words in the free middle of the old one."""
    store = stores.create("moved", None)
    dice = random.Random(seed)
    alive, gone = [], []
    for number in range(400):
        some = " ".join(f"w{dice.randrange(3000)}" for _ in range(dice.choice([3, 30, 150, 300, 600, 1200])))
        store.rebuild_material(plain_leaf(str(number), f"{word(number)} {some}"))
        alive.append(number)
        if dice.random() < 0.4:
            gone.append(alive.pop(dice.randrange(len(alive))))
            store.delete_materials([str(gone[-1])])
    store.reclaim()
    after = files_of(store)

    assert [] == [number for number in gone if word(number)[5:14].encode() in after]
    assert all(word(number)[5:14].encode() in after for number in alive)


def test_a_reader_keeps_the_mark_and_the_next_call_wipes(tmp_path):
    """The log cannot be cut while somebody reads in it; nobody fails because of that."""
    stores = SqliteIndexStores(lambda base_id: tmp_path / base_id / "index.sqlite", busy_timeout_seconds=0.05)
    store = stores.create("read", None)
    store.rebuild_materials([plain_leaf("odd", "zqwarkx " * 20), plain_leaf("even", "others")])
    with closing(apsw.Connection(str(store.path))) as reader:
        reader.execute("BEGIN; SELECT * FROM material").fetchall()
        store.delete_materials(["odd"])
        store.reclaim()
        while_read = (store.is_to_wipe(), b"zqwarkx" in files_of(store))
    store.reclaim()
    after = (store.is_to_wipe(), b"zqwarkx" in files_of(store))
    stores.close()

    assert ((True, True), (False, False)) == (while_read, after)


def test_a_large_file_is_rewritten_only_by_who_has_time(stores, monkeypatch):
    """Its mark stays until then; what is taken out later brings it back."""
    monkeypatch.setattr(reclaim, "SMALL_BYTES", 0)
    store = stores.create("large", None)
    store.rebuild_materials([plain_leaf(name, f"{name} words") for name in "abc"])
    added = store.is_to_wipe()
    store.delete_materials(["a"])
    store.reclaim()
    at_once = store.is_to_wipe()
    store.reclaim(whole=True)
    wiped = store.is_to_wipe()
    store.rebuild_material(plain_leaf("b", "b words"))
    same = store.is_to_wipe()
    store.rebuild_material(plain_leaf("b", "other words"))
    other = store.is_to_wipe()

    assert [False, True, False, False, True] == [added, at_once, wiped, same, other]
    assert_sound(store.path)


def test_words_of_a_deleted_text_are_wiped_when_a_merge_was_left_halfway(stores, monkeypatch):
    """A process died in it, or a writer came in between: what was merged by then is merged again."""
    store = stores.create("halfway", None)
    for number in range(60):
        some = " ".join(word(1000 + number * 100 + position) for position in range(100))
        store.rebuild_material(plain_leaf(f"i{number}", some))
    store.rebuild_material(plain_leaf("odd", "aqzvkwxrtj"))  # first in the alphabet, so merged first
    with closing(apsw.Connection(str(store.path))) as dead:
        dead.execute("INSERT INTO lexical(lexical, rank) VALUES ('merge', -4)")
    store.delete_materials(["odd"])
    store.reclaim()

    assert b"qzvkwx" not in files_of(store)
    assert_sound(store.path)


def test_words_of_a_deleted_text_are_wiped(stores):
    """One among many, whose word lists were merged long ago: FTS5 by itself only marks its row."""
    store = stores.create("wipe", None)
    for number in range(60):
        store.rebuild_material(plain_leaf(f"i{number}", f"{number} and others " * 20))
    store.rebuild_material(plain_leaf("odd", "zqwarkx " * 20))
    store.reclaim()
    before = store.path.read_bytes()
    store.delete_materials(["odd"])
    store.reclaim()
    after = files_of(store)

    assert b"zqwarkx" in before
    assert b"zqwarkx" not in after
    assert ["i7"] == [hit.item_id for hit in store.lexical("7", 5)]
    assert_sound(store.path)
