"""What every index store must do. A backend subclasses `IndexStoreContract` and says what its stores are."""

import unicodedata
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from knowledge.errors import DimensionMismatch, IndexCorrupt, IndexFault
from knowledge.model.documents import Unit, text_hash
from knowledge.pipeline.vectorstore.port import IndexCounts, IndexStore, IndexStores, LaneHit
from tests.contracts.leaves import DIMENSIONS, leaf, plain_leaf, vector_of

BASE = "0b8a4c1e-6f0f-4b0e-9a51-2f6a1d3c9e77"


def items(hits: list[LaneHit]) -> list[str]:
    return [hit.item_id for hit in hits]


class IndexStoreContract:
    @pytest.fixture
    def stores(self) -> Iterator[IndexStores]:
        raise NotImplementedError("a backend overrides this fixture")

    @pytest.fixture
    def store(self, stores) -> IndexStore:
        """A vector base."""
        return stores.create(BASE, DIMENSIONS)

    @pytest.fixture
    def plain(self, stores) -> IndexStore:
        """A base without embedder."""
        return stores.create("lexical-only", None)

    # What is put in comes out

    def test_new_index_is_empty(self, store):
        """A blank index answers every question with nothing."""
        assert IndexCounts(0, 0, 0, 0) == store.counts()
        assert [] == store.lexical("lighthouse", 10)
        assert [] == store.nearest(vector_of("lighthouse"), 10)
        assert [] == list(store.item_ids())

    def test_material_is_found_and_read_back(self, store):
        """Texts, places, pages and paths come back as they were given."""
        material = leaf("a", "The lighthouse stands.", "A gull — 海鷗 — 🕊 cries.", "Über allem Nebel.")
        store.rebuild_material(material)

        assert material.text == store.content("a")
        assert list(material.units) == [stored.unit for stored in store.units("a")]
        assert ["a.txt"] * 3 == [stored.path for stored in store.units("a")]
        assert IndexCounts(materials=1, units=3, vectors=3, contents=1) == store.counts()
        assert ["a"] == list(store.item_ids())

    def test_fetch_gives_the_units_of_hits(self, store):
        """A hit's id leads to the verbatim slice it stands for."""
        material = leaf("a", "Ein Nebelhorn 霧笛 ertönt.", "Danach ist es still.")
        store.rebuild_material(material)
        hit = store.lexical("nebelhorn", 10)[0]

        fetched = store.fetch([hit.unit_id])[hit.unit_id]

        assert (material.units[0], "a", "a.txt") == (fetched.unit, fetched.item_id, fetched.path)

    def test_fetch_leaves_out_what_is_not_there(self, store):
        """Unknown, malformed and outdated ids are no error."""
        store.rebuild_material(leaf("a", "old words"))
        outdated = store.lexical("old", 1)[0].unit_id
        store.rebuild_material(leaf("a", "new words"))

        assert {} == store.fetch([outdated, "", "nonsense", "a.0", "a.-1.ff", "a.99999999999999999999.ff", "b.0.ff", "a.٣.ff"])

    def test_unknown_item_has_neither_content_nor_units(self, store):
        """Asking for a leaf that was never indexed is no error."""
        assert store.content("nobody") is None
        assert [] == list(store.units("nobody"))

    def test_leaf_without_units_is_kept(self, store):
        """A source without text has a material: its content is empty, and it can be deleted."""
        store.rebuild_material(leaf("a"))

        assert "" == store.content("a")
        assert 1 == store.delete_materials(["a"])

    # Rebuilding

    def test_identical_rebuild_changes_nothing(self, store):
        """Ids, counts and answers stay as they were."""
        material = leaf("a", "one fish", "two fish")
        store.rebuild_material(material)
        before = ([stored.unit_id for stored in store.units("a")], store.counts(), store.lexical("fish", 10))

        store.rebuild_material(material)

        assert before == ([stored.unit_id for stored in store.units("a")], store.counts(), store.lexical("fish", 10))

    def test_rebuild_replaces_every_row(self, store):
        """Nothing of the old text is found, and its vectors and content are gone."""
        store.rebuild_material(leaf("a", "one fish", "two fish", "red herring"))
        store.rebuild_material(leaf("a", "blue whale", path="b.txt"))

        assert [] == store.lexical("fish herring", 10)
        assert ["a"] == items(store.nearest(vector_of("two fish"), 10))
        assert ["b.txt"] == [stored.path for stored in store.units("a")]
        assert IndexCounts(1, 1, 1, 1) == store.counts()

    def test_unchanged_texts_need_no_vector_again(self, store):
        """Only texts that the index does not know must come with a vector."""
        store.rebuild_material(leaf("a", "kept", "dropped"))
        store.rebuild_material(leaf("a", "added", "kept", vectors={"added": vector_of("added")}))

        assert 1.0 == pytest.approx(store.nearest(vector_of("kept"), 1)[0].score, abs=1e-6)
        assert frozenset({text_hash("kept"), text_hash("added")}) == store.known_hashes(
            [text_hash(text) for text in ("kept", "added", "dropped")]
        )

    def test_several_leaves_are_one_write(self, store):
        """A fault in one of them leaves all as they were."""
        store.rebuild_materials([leaf("a", "alpha"), leaf("b", "beta")])

        with pytest.raises(IndexFault):
            store.rebuild_materials([leaf("a", "gamma"), leaf("c", "delta", vectors={})])

        assert ["a"] == items(store.lexical("alpha", 10))
        assert ["a", "b"] == sorted(store.item_ids())

    def test_later_material_of_a_leaf_counts(self, store):
        """One leaf twice in one write ends as its last material."""
        store.rebuild_materials([leaf("a", "first"), leaf("b", "other"), leaf("a", "second")])

        assert "second" == store.content("a")
        assert [] == store.lexical("first", 10)
        assert IndexCounts(materials=2, units=2, vectors=2, contents=2) == store.counts()

    @pytest.mark.parametrize(
        "flawed",
        [
            pytest.param(lambda m: replace(m, units=[Unit(0, "new text!", 0, 9)]), id="beyond-the-text"),
            pytest.param(lambda m: replace(m, units=[Unit(0, "new text", -8, 8)]), id="negative-offset"),
            pytest.param(lambda m: replace(m, units=[Unit(0, "old text", 0, 8)]), id="another-slice"),
            pytest.param(lambda m: replace(m, units=[m.units[0], m.units[0]]), id="index-twice"),
            pytest.param(lambda m: replace(m, units=[replace(m.units[0], index=-1)]), id="negative-index"),
            pytest.param(lambda m: replace(m, vectors={}), id="no-vector"),
            pytest.param(lambda m: replace(m, vectors=None), id="no-vectors"),
            pytest.param(lambda m: replace(m, path=""), id="no-path"),
            pytest.param(lambda m: replace(m, path="/etc/passwd"), id="absolute-path"),
            pytest.param(lambda m: replace(m, path="b.txt"), id="path-of-another-leaf"),
            pytest.param(lambda m: replace(m, text="new text\ud800"), id="lone-surrogate"),
        ],
    )
    def test_flawed_material_is_refused_whole(self, store, flawed):
        """The old material stays as it was."""
        store.rebuild_materials([leaf("a", "old text"), leaf("b", "neighbour")])

        with pytest.raises(IndexFault):
            store.rebuild_material(flawed(leaf("a", "new text")))

        assert ("old text", ["a"]) == (store.content("a"), items(store.lexical("old", 10)))
        assert IndexCounts(2, 2, 2, 2) == store.counts()

    def test_failing_source_of_materials_changes_nothing(self, store):
        """An error while the materials are being made reaches the caller, and the index is as before."""
        store.rebuild_material(leaf("a", "old text"))

        def broken():
            yield leaf("a", "new text")
            raise RuntimeError("reader died")

        with pytest.raises(RuntimeError, match="reader died"):
            store.rebuild_materials(broken())

        assert "old text" == store.content("a")

    @pytest.mark.parametrize("width", [DIMENSIONS - 1, DIMENSIONS + 1, 0])
    def test_vector_of_another_width_is_refused(self, store, width):
        """Both as material and as question."""
        wrong = vector_of("x", width)

        with pytest.raises(DimensionMismatch):
            store.rebuild_material(leaf("a", "text", vectors={"text": wrong}))
        with pytest.raises(DimensionMismatch):
            store.nearest(wrong, 10)

    # Sharing and deleting

    def test_equal_texts_are_stored_once(self, store):
        """Two leaves with the same text share content and vectors until the last is deleted."""
        store.rebuild_materials([leaf("a", "same words"), leaf("b", "same words")])
        shared = store.counts()
        store.delete_materials(["a"])

        assert IndexCounts(materials=2, units=2, vectors=1, contents=1) == shared
        assert ["b"] == items(store.lexical("same", 10)) == items(store.nearest(vector_of("same words"), 10))
        assert 1 == store.delete_materials(["b"])
        assert IndexCounts(0, 0, 0, 0) == store.counts()

    def test_text_repeated_in_a_leaf_is_several_units(self, store):
        """Each place is a hit of its own."""
        store.rebuild_material(leaf("a", "tick", "tock", "tick"))

        assert [0, 2] == sorted(store.fetch([hit.unit_id])[hit.unit_id].unit.index for hit in store.lexical("tick", 10))
        assert IndexCounts(materials=1, units=3, vectors=2, contents=1) == store.counts()

    def test_deleting_counts_what_was_there(self, store):
        """Unknown and repeated ids do not count."""
        store.rebuild_materials([leaf("a", "alpha"), leaf("b", "beta"), leaf("c", "gamma")])

        assert 2 == store.delete_materials(["a", "nobody", "c", "a"])
        assert ["b"] == list(store.item_ids())
        assert 0 == store.delete_materials([])

    def test_deleted_leaf_can_be_indexed_again(self, store):
        """Deletion leaves nothing behind that a new material would trip over."""
        store.rebuild_material(leaf("a", "alpha"))
        store.delete_materials(["a"])
        store.rebuild_material(leaf("z", "alpha", path="a.txt"))

        assert ["z"] == items(store.lexical("alpha", 10))

    # Words

    @pytest.mark.parametrize(
        ("text", "query"),
        [
            ("The lighthouse stands.", "LIGHTHOUSE"),
            ("He was running home", "run"),
            (unicodedata.normalize("NFD", "Crème brûlée"), "crème"),
            ("Crème brûlée", unicodedata.normalize("NFD", "brûlée")),
            ("Crème brûlée", "creme"),
            ("Die Straße", "STRASSE"),
            ("ＡＢＣ１２３", "abc123"),
            ("台北市中山區民生東路營造公司", "營造"),
            ("茲因權威事實所述", "權威事實"),
            ("流水不腐", "水"),
            ("第3章 2024年", "2024"),
            ("東京タワーへ行く", "タワー"),
            ("ｶﾞｲﾄﾞﾌﾞｯｸ", "ガイド"),
            ("서울에서 만나요", "서울"),
            ("ภาษาไทยง่าย", "ไทย"),
            ("हिन्दी में लिखा", "हिन्दी"),
            ("كِتَابٌ جديد", "كتاب"),
            ("Цена 5кг муки", "5"),
            ("PDF파일 변환", "pdf"),
            ("don’t panic", "panic"),
        ],
    )
    def test_word_is_found(self, plain, text, query):
        """Index and question are analysed alike, in whatever form and script they are written."""
        plain.rebuild_materials([plain_leaf("hit", text), plain_leaf("miss", "zzz 哈 nothing alike")])

        assert ["hit"] == items(plain.lexical(query, 10))

    @pytest.mark.parametrize(("text", "query"), [("台北市", "北台"), ("foobar", "bar"), ("流水", "火"), ("हिन्दी", "हन्द")])
    def test_other_word_is_not_found(self, plain, text, query):
        """Neither parts of spaced words nor characters in another order match."""
        plain.rebuild_material(plain_leaf("a", text))

        assert [] == plain.lexical(query, 10)

    @pytest.mark.parametrize("query", ["", " ", "?!", "\x00", "🙂", "\ud800", "*", '"', "^", "-", "——", "\u0301"])
    def test_question_without_tokens_finds_nothing(self, plain, query):
        """No letter and no digit: no hits, no error."""
        plain.rebuild_material(plain_leaf("a", "anything 🙂 * - ?"))

        assert [] == plain.lexical(query, 10)

    @pytest.mark.parametrize(
        "query",
        [
            "multi-agent",
            "POL-358",
            "20.04",
            "don't",
            '"open',
            "AND",
            "NOT x",
            "NEAR(",
            "col:x",
            "open*",
            "^open",
            "a\x00b",
            "x" * 50_000,
        ],
    )
    def test_everyday_text_is_never_syntax(self, plain, query):
        """Whatever a person types is words to look for."""
        plain.rebuild_material(plain_leaf("a", "open multi agent POL 358, 20.04 don't AND not near(col:x) a b " + "x" * 50_000))

        assert ["a"] == items(plain.lexical(query, 10))

    def test_more_and_rarer_words_rank_higher(self, plain):
        """BM25: a unit with both words leads, the one with only the common word comes last; scores fall."""
        plain.rebuild_materials(
            [plain_leaf(f"filler{n}", f"common words number {n}") for n in range(20)]
            + [plain_leaf("both", "common petrel words"), plain_leaf("rare", "petrel flight words")]
        )
        hits = plain.lexical("common petrel", 50)

        assert ["both", "rare"] == items(hits)[:2]
        assert sorted((hit.score for hit in hits), reverse=True) == [hit.score for hit in hits]
        assert 22 == len(hits)

    @pytest.mark.parametrize("limit", [0, 1, 3])
    def test_limit_holds_in_both_lanes(self, store, limit):
        """Never more hits than asked for, also when many units share a text."""
        store.rebuild_materials([leaf(name, "tick", "tick", "tock tick") for name in "abcd"])

        assert limit == len(store.lexical("tick", limit))
        assert limit == len(store.nearest(vector_of("tick"), limit))

    # Vectors

    def test_nearest_is_cosine(self, store):
        """Scores are exact cosines, whatever the length of the vectors."""
        east, north = np.eye(DIMENSIONS, dtype=np.float32)[:2]
        vectors = {"east": 5 * east, "north-east": 0.1 * (east + north), "north": north, "west": -3 * east}
        store.rebuild_material(leaf("a", *vectors, vectors=vectors))
        hits = store.nearest(7 * east, 10)

        found = store.fetch([hit.unit_id for hit in hits])

        assert ["east", "north-east", "north", "west"] == [found[hit.unit_id].unit.text for hit in hits]
        assert [1, 2**-0.5, 0, -1] == pytest.approx([hit.score for hit in hits], abs=1e-6)

    @pytest.mark.parametrize("bad", [0.0, float("nan"), float("inf"), -float("inf")])
    def test_vector_without_direction_never_appears(self, store, bad):
        """Zero, NaN and infinite vectors are stored but are nobody's neighbour; their text is still found by words."""
        vectors = {"good": vector_of("good"), "bad": np.full(DIMENSIONS, bad, np.float32)}
        store.rebuild_material(leaf("a", "good", "bad", vectors=vectors))

        assert [0] == [store.fetch([hit.unit_id])[hit.unit_id].unit.index for hit in store.nearest(vector_of("bad"), 10)]
        assert ["a"] == items(store.lexical("bad", 10))
        assert [] == store.nearest(vectors["bad"], 10)
        assert 1 == store.delete_materials(["a"])

    @pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e18, 1e30])
    def test_extreme_lengths_keep_their_direction(self, store, scale):
        """Vectors whose squares leave the range of float32 still have a cosine."""
        vector = (vector_of("text") * scale).astype(np.float32)
        store.rebuild_material(leaf("a", "text", vectors={"text": vector}))

        assert [1.0] == pytest.approx([hit.score for hit in store.nearest(vector_of("text"), 1)], abs=1e-5)
        assert [1.0] == pytest.approx([hit.score for hit in store.nearest(vector, 1)], abs=1e-5)

    def test_base_without_embedder_takes_no_vectors(self, plain):
        """Neither as material nor as question."""
        with pytest.raises(IndexFault):
            plain.rebuild_material(leaf("a", "text"))
        with pytest.raises(IndexFault):
            plain.nearest(vector_of("text"), 10)

        assert frozenset() == plain.known_hashes([text_hash("text")])
        assert IndexCounts(0, 0, 0, 0) == plain.counts()

    # Opening and ending

    def test_index_outlives_its_store(self, stores, store):
        """What was written is there after everything was closed."""
        store.rebuild_material(leaf("a", "alpha"))
        stores.close()

        assert ["a"] == items(stores.open(BASE, DIMENSIONS).lexical("alpha", 10))

    def test_creating_again_keeps_what_is_there(self, stores, store):
        """Creation is safe to repeat."""
        store.rebuild_material(leaf("a", "alpha"))

        assert ["a"] == list(stores.create(BASE, DIMENSIONS).item_ids())

    @pytest.mark.parametrize("dimensions", [DIMENSIONS + 1, None])
    def test_opening_with_another_width_is_refused(self, stores, store, dimensions):
        """A base keeps the width it was created with."""
        store.rebuild_material(leaf("a", "alpha"))

        with pytest.raises(DimensionMismatch):
            stores.open(BASE, dimensions)

        assert ["a"] == list(stores.open(BASE, DIMENSIONS).item_ids())

    def test_dropped_index_is_gone(self, stores, store):
        """After a drop there is nothing, which opening tells; dropping again is fine; a new one starts blank."""
        store.rebuild_material(leaf("a", "alpha"))
        assert stores.exists(BASE)
        stores.drop(BASE)
        stores.drop(BASE)

        assert not stores.exists(BASE)
        assert not stores.is_sound(BASE, DIMENSIONS)
        with pytest.raises(IndexCorrupt):
            stores.open(BASE, DIMENSIONS)
        assert not stores.exists(BASE)
        assert [] == list(stores.create(BASE, DIMENSIONS).item_ids())

    @pytest.mark.parametrize("dimensions", [DIMENSIONS, None])
    def test_a_whole_index_is_sound(self, stores, dimensions):
        """Blank, with material that shares texts, and after some of it was replaced and removed; looking changes nothing."""
        store = stores.create("sound", dimensions)
        make = leaf if dimensions else plain_leaf
        assert stores.is_sound("sound", dimensions)
        store.rebuild_materials([make("a", "alpha", "beta"), make("b", "beta", "é海🕊"), make("empty")])
        store.rebuild_material(make("a", "gamma"))
        store.delete_materials(["b"])

        assert stores.is_sound("sound", dimensions)
        assert ["a"] == items(store.lexical("gamma", 10))

    def test_another_base_or_width_is_not_unsound(self, stores, store):
        """It is told apart from damage: nobody may throw it away."""
        with pytest.raises(DimensionMismatch):
            stores.is_sound(BASE, DIMENSIONS + 1)

    def test_bases_do_not_see_each_other(self, stores, store):
        """The same item id and text in two bases are two things."""
        other = stores.create("another", DIMENSIONS)
        store.rebuild_material(leaf("a", "alpha"))
        other.rebuild_material(leaf("a", "alpha"))
        other.delete_materials(["a"])

        assert ["a"] == items(store.lexical("alpha", 10))
        assert [] == other.lexical("alpha", 10)

    def test_reclaiming_changes_no_answer(self, store):
        """Space is given back, content is not."""
        store.rebuild_materials([leaf(f"i{n}", f"word{n} tick", f"tock {n}") for n in range(40)])
        store.delete_materials([f"i{n}" for n in range(0, 40, 2)])
        before = (store.counts(), store.lexical("tick", 50), store.nearest(vector_of("tock 3"), 50))
        store.reclaim()

        assert before == (store.counts(), store.lexical("tick", 50), store.nearest(vector_of("tock 3"), 50))
