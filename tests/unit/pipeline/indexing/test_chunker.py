"""From documents to units."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.model.documents import Chunking, Document, EmbedderSpec
from knowledge.pipeline.indexing import chunker
from knowledge.pipeline.indexing.tokens import estimate_tokens

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
    st.lists(
        st.builds(Document, st.text(max_size=200), st.none() | st.integers(1, 9), shares=st.booleans()),
        max_size=6,
    ),
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


def records(count, text="id: {0}\nname: lamp {0}\nplace: the northern rock"):
    return [Document(text.format(number), shares=True) for number in range(count)]


@pytest.mark.parametrize("size", [50, 254, 1024])
@pytest.mark.parametrize("limit", [None, 300])
def test_small_records_fill_chunks_whole(size, limit):
    """As many as a chunk of this base takes; none is cut, left out, or told twice."""
    found = records(2000)
    text, units = chunker.split(found, Chunking(size, size // 5), None if limit is None else Letters(limit))
    told = [record for unit in units for record in unit.text.split("\n\n")]

    assert [record.text for record in found] == told
    if limit is None:
        assert len(units) == pytest.approx(estimate_tokens(text) / size, rel=0.35)
        assert len(units) >= estimate_tokens(text) / size


def test_record_longer_than_a_chunk_is_cut_alone():
    """Its neighbours stay whole on either side."""
    long = Document("\n".join(f"line {number}: the lamp of the lighthouse" for number in range(400)), shares=True)
    first, *inner, last = chunker.split([*records(3), long, *records(3)], Chunking(200, 0)).units

    assert (3, 3) == (first.text.count("id:"), last.text.count("id:"))
    assert all("id:" not in unit.text for unit in inner)
    assert long.text.split() == " ".join(unit.text for unit in inner).split()


def test_records_are_not_put_together_across_places():
    """A sheet or page ends a chunk, and so does what is no record."""
    found = [
        Document("one", locator="a", shares=True),
        Document("two", locator="a", shares=True),
        Document("three", locator="b", shares=True),
        Document("four"),
        Document("five", shares=True),
        Document("six", shares=True),
    ]
    text, units = chunker.split(found, Chunking())

    assert ["one\n\ntwo", "three", "four", "five\n\nsix"] == [unit.text for unit in units]
    assert ["a", "b", None, None] == [unit.locator for unit in units]
    assert all(text[unit.char_start : unit.char_end] == unit.text for unit in units)


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("shape", ["one text", "pages", "records"])
def test_cutting_looks_at_its_checkpoint_on_the_way(shape):
    """Every few units: when it says stop, no more than a few further texts are measured, however many there are."""
    measured, looks = [], []

    class Counting(Letters):
        def longest_prefix(self, text):
            measured.append(len(looks))
            return super().longest_prefix(text)

    def checkpoint():
        looks.append(len(measured))
        if len(looks) == 4:
            raise Interrupted

    found = {
        "one text": [Document(SENTENCE * 20_000)],
        "pages": [Document(SENTENCE, page) for page in range(20_000)],
        "records": [Document(SENTENCE, shares=True)] * 20_000,
    }[shape]

    with pytest.raises(Interrupted):
        chunker.split(found, Chunking(100, 20), Counting(200), checkpoint)
    assert len(measured) < 3 * 3 * 64


def test_text_with_blanks_is_measured_once_a_unit():
    """A cut behind a blank changes no word: what was measured with the rest need not be measured again."""
    measured = []

    class Counting(Letters):
        def longest_prefix(self, text):
            measured.append(text)
            return super().longest_prefix(text)

    _, units = chunker.split([Document(SENTENCE * 400)], Chunking(size=1000, overlap=200), Counting(200))

    assert all(len(unit.text) == Letters(200).longest_prefix(unit.text) for unit in units)
    assert 100 < len(units) <= len(measured) <= len(units) * 1.3
