"""A base that was searched by words alone gets vectors: text by text, as its items are indexed again."""

import pytest

from knowledge.errors import IndexFault
from knowledge.model.documents import Material, Unit, text_hash
from knowledge.pipeline.vectorstore.sqlite import SqliteIndexStores
from knowledge.pipeline.vectorstore.sqlite.connection import connect
from tests.bench.vector_sets import blended

COUNT, WIDTH = 60, 8


@pytest.fixture
def stores(tmp_path):
    stores = SqliteIndexStores(lambda base_id: tmp_path / base_id / "index.sqlite", busy_timeout_seconds=5)
    yield stores
    stores.close()


def _texts(number):
    """One of its own, and one that all share."""
    return [f"item {number} stands alone", "a sentence that everybody has"]


def _material(number, vectors=None):
    texts = _texts(number)
    text, units, at = "\n".join(texts), [], 0
    for index, one in enumerate(texts):
        units.append(Unit(index=index, text=one, char_start=at, char_end=at + len(one)))
        at += len(one) + 1
    supplied = None if vectors is None else {text_hash(one): vectors[one] for one in texts if one in vectors}
    return Material(f"item{number}", f"{number}.md", text, units, supplied)


@pytest.fixture
def vectors():
    texts = sorted({one for number in range(COUNT) for one in _texts(number)})
    return dict(zip(texts, blended(len(texts), 1, WIDTH, 7)[0], strict=True))


@pytest.fixture
def lexical(stores):
    stores.create("shelf", None).rebuild_materials([_material(number) for number in range(COUNT)])
    return stores


def test_texts_of_the_time_before_are_not_known(lexical, vectors):
    """They have no vector, so they must be embedded; until then they are found by words, and nothing is found by meaning."""
    store = lexical.open("shelf", WIDTH)

    assert frozenset() == store.known_hashes([text_hash(one) for one in vectors])
    assert [] == store.nearest(vectors["item 3 stands alone"], 5)
    assert ["item3"] == [hit.item_id for hit in store.lexical("3", 5)]
    with pytest.raises(IndexFault, match="2 texts have no vector"):
        store.rebuild_material(_material(3))


def test_each_item_that_is_indexed_again_has_its_vectors(lexical, vectors, tmp_path):
    """A text that others share gets its vector with the first of them, and counts once everywhere."""
    store = lexical.open("shelf", WIDTH)
    for number in range(COUNT):
        missing = {one: vectors[one] for one in _texts(number) if text_hash(one) not in store.known_hashes([text_hash(one)])}
        store.rebuild_material(_material(number, missing))

        assert number + 2 == store.counts().vectors
        assert [f"item{number}"] == [hit.item_id for hit in store.nearest(vectors[f"item {number} stands alone"], 1)]
        assert [f"item{number}"] == [
            hit.item_id for hit in store.lexical(f"{number} alone", COUNT) if hit.item_id == f"item{number}"
        ]

    connection = connect(tmp_path / "shelf" / "index.sqlite", 5)
    ((bodies, counted, words),) = connection.execute(
        "SELECT (SELECT count(*) FROM body), (SELECT bodies FROM state), (SELECT count(*) FROM lexical)"
    )
    ((lost,),) = connection.execute("SELECT count(*) FROM unit WHERE body_id NOT IN (SELECT id FROM body)")
    connection.close()
    assert [COUNT + 1] * 3 == [bodies, counted, words]
    assert 0 == lost
    assert COUNT == len(store.lexical("sentence everybody", 200))


def test_half_of_the_items_can_be_deleted_meanwhile(lexical, vectors):
    """With and without vectors."""
    store = lexical.open("shelf", WIDTH)
    store.rebuild_materials([_material(number, vectors) for number in range(0, COUNT, 2)])

    store.delete_materials([f"item{number}" for number in range(COUNT // 2)])

    assert COUNT // 2 == store.counts().materials
    assert COUNT // 4 + 1 == store.counts().vectors
    store.delete_materials([f"item{number}" for number in range(COUNT)])
    assert (0, 0, 0, 0) == tuple(getattr(store.counts(), name) for name in ("materials", "units", "vectors", "contents"))
