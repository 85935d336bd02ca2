"""From documents to units."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.model.documents import Chunking, Document, EmbedderSpec
from knowledge.pipeline.indexing import chunker

SENTENCE = "The keeper lit the lamp of the lighthouse at dusk, and slept. "


class Letters:
    """A model that takes `limit` letters, wherever they are."""

    def __init__(self, limit):
        self.limit = limit

    def longest_prefix(self, text):
        letters = 0
        for place, char in enumerate(text):
            letters += char.isalpha()
            if letters > self.limit:
                return place
        return len(text)


def test_documents_are_joined_by_a_blank_line_and_never_mixed():
    """A unit lies inside one document and knows its page."""
    text, units = chunker.split([Document("First page.", 1), Document("Second page.", 2)], Chunking())

    assert "First page.\n\nSecond page." == text
    assert [("First page.", 1, 0, 0), ("Second page.", 2, 1, 13)] == [(u.text, u.page, u.index, u.char_start) for u in units]


def test_no_documents_no_units():
    """And an empty text."""
    assert ("", []) == chunker.split([], Chunking())


def test_blank_documents_keep_their_place_but_give_no_units():
    """Offsets of later pages count the blank one."""
    text, units = chunker.split([Document(" \u200b"), Document(""), Document("x")], Chunking())

    assert " \u200b\n\n\n\nx" == text
    assert ["x"] == [text[unit.char_start : unit.char_end] for unit in units]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.builds(Document, st.text(max_size=200), st.none() | st.integers(1, 9)), max_size=6),
    st.integers(1, 30),
    st.integers(0, 29),
    st.none() | st.integers(1, 20),
)
def test_units_are_slices_numbered_in_order(documents, size, overlap, limit):
    """Whatever the documents, the chunking and the model's own limit."""
    chunking = Chunking(size=size, overlap=min(overlap, size - 1))
    text, units = chunker.split(documents, chunking, None if limit is None else Letters(limit))

    assert list(range(len(units))) == [unit.index for unit in units]
    for unit in units:
        assert text[unit.char_start : unit.char_end] == unit.text == unit.text.strip()
        assert limit is None or len(unit.text) == Letters(limit).longest_prefix(unit.text)


def test_chunks_too_long_for_the_model_are_cut_at_sentences():
    """Nothing is left out, and the cut is a place a reader would choose."""
    text = SENTENCE * 50
    _, units = chunker.split([Document(text)], Chunking(size=1000, overlap=0), Letters(200))

    assert all(len(unit.text) == Letters(200).longest_prefix(unit.text) for unit in units)
    assert all(unit.text.endswith(".") for unit in units)
    assert text.replace(" ", "") == "".join(unit.text for unit in units).replace(" ", "")


def test_pieces_of_one_chunk_overlap_in_proportion():
    """The base's overlap holds inside a chunk that was cut again."""
    _, units = chunker.split([Document(SENTENCE * 50)], Chunking(size=1000, overlap=200), Letters(200))

    assert all(left.char_start < right.char_start < left.char_end for left, right in pairwise(units))


@pytest.mark.parametrize(
    ("limit", "size", "overlap"), [(8191, 1024, 200), (1024, 1024, 200), (254, 254, 49), (10, 10, 1), (1, 1, 0)]
)
def test_the_embedders_limit_wins(limit, size, overlap):
    """A base asks for 1024/200; a smaller model gets smaller chunks with the same share of overlap."""
    spec = EmbedderSpec(id="m", kind="openai", dimensions=3, max_input_tokens=limit)

    assert (size, overlap) == (chunker.effective(Chunking(), spec).size, chunker.effective(Chunking(), spec).overlap)


def test_a_base_without_embedder_keeps_its_chunking():
    """Words need no limit."""
    assert Chunking() == chunker.effective(Chunking(), None)
