"""What the lexical lane leaves out of long questions in a large base."""

import pytest

from knowledge.pipeline.vectorstore.sqlite import lexical
from tests.contracts.leaves import plain_leaf


@pytest.fixture
def large(stores, monkeypatch):
    """A base that counts as large: `the` is in every text, `even` in half, `fifth` in a tenth."""
    monkeypatch.setattr(lexical, "LARGE_BASE_BODIES", 50)
    store = stores.create("large", None)
    for n in range(100):
        words = ["the", f"word{n}", *(["even"] if n % 2 == 0 else []), *(["tenth"] if n % 10 == 0 else [])]
        store.rebuild_material(plain_leaf(f"i{n}", " ".join(words)))
    return store


def test_frequent_words_are_left_out_of_long_questions(large):
    """Rows that share nothing but words that everything has do not come up."""
    assert {"i1", "i7"} == {hit.item_id for hit in large.lexical("the word1 even word7", 100)}


def test_short_questions_keep_every_word(large):
    """With few words, each matters."""
    assert 100 == len(large.lexical("the word1 even", 100))


def test_question_of_frequent_words_only_is_answered(large):
    """When the other words are nowhere, the frequent ones are all there is."""
    assert 100 == len(large.lexical("the even and or", 100))


def test_frequency_is_counted_anew_when_the_base_has_changed(large):
    """A word that became rare counts again."""
    large.lexical("the even word1 tenth", 100)
    large.delete_materials([f"i{n}" for n in range(2, 42, 2)])

    assert {f"i{n}" for n in range(0, 100, 10)} - {"i10", "i20", "i30", "i40"} <= {
        hit.item_id for hit in large.lexical("the even word1 tenth", 100)
    }


def test_long_questions_are_cut(stores):
    """Terms beyond the most that are asked for play no part."""
    store = stores.create("cut", None)
    store.rebuild_materials([plain_leaf("early", "w0"), plain_leaf("late", f"w{lexical.MAX_TERMS}")])
    question = " ".join(f"w{n}" for n in range(lexical.MAX_TERMS + 1))

    assert ["early"] == [hit.item_id for hit in store.lexical(question, 10)]
