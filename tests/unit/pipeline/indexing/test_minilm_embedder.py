"""The local default: real weights, real tokenizer."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.errors import ConfigurationError
from knowledge.model.documents import Chunking, Document, EmbedderSpec
from knowledge.pipeline.indexing import chunker, minilm_embedder, pinned_file
from knowledge.pipeline.indexing.minilm_embedder import MAX_PIECES, load_tokenizer
from tests.contracts.embedder_contract import EmbedderContract, all_vectors

load_tokenizer_once = cache(load_tokenizer)


def opened(**fields):
    return minilm_embedder.KIND.open(EmbedderSpec(id="local", kind="minilm", **{**minilm_embedder.KIND.defaults, **fields}))


@pytest.fixture(scope="module")
def minilm():
    return opened()


class TestMiniLmEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self, minilm):
        return minilm


def test_meaning_counts_more_than_words(minilm):
    """A question finds the sentence that answers it, without sharing its words."""
    texts = [
        "The keeper lit the lamp of the lighthouse at dusk.",
        "Our quarterly earnings rose by ten percent.",
        "Kittens sleep for most of the day.",
    ]
    documents = all_vectors(minilm, texts)
    questions = ["who watches over the beacon by the sea?", "financial results", "habits of cats"]

    assert [0, 1, 2] == [int((documents @ minilm.embed_query(question)).argmax()) for question in questions]


def test_vectors_have_length_one(minilm):
    """So that the inner product is the cosine."""
    assert np.allclose(1, np.linalg.norm(all_vectors(minilm, ["lamp", "a longer text about lamps"]), axis=1), atol=1e-5)


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["[CLS]", "em", "##bed", "##ding", "##s", "[SEP]"], "embeddings"),
        (["[CLS]", "naive", "cafe", "[SEP]"], "Naïve CAFÉ"),
        (["[CLS]", "don", "'", "t", "[SEP]"], "don't"),
        (["[CLS]", "北", "京", "[SEP]"], "北京"),
        (["[CLS]", "[UNK]", "[SEP]"], "x" * 101),
        (["[CLS]", "[SEP]"], "\u200b\x00"),
    ],
)
def test_tokenizer_is_berts(pieces, text):
    """Lower case, no accents, split at punctuation and around Chinese characters."""
    assert pieces == load_tokenizer().encode(text).tokens


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(codec="ascii"), max_size=60) | st.text(max_size=60))
def test_plain_text_falls_into_the_same_pieces(minilm, text):
    """The shorter way for it changes no piece and no place of one."""
    short, whole = minilm._model.get()._encoded(text), load_tokenizer_once().encode(text)

    assert (whole.ids, whole.offsets) == (short.ids, short.offsets)


def test_many_texts_are_not_all_cut_before_the_first_is_embedded(minilm):
    """Whoever wants to stop in between need not wait for the last one."""

    class Watched(list):
        last = 0

        def __getitem__(self, which):
            Watched.last = max(Watched.last, which.stop)
            return super().__getitem__(which)

    batches = minilm.embed(Watched(f"lamp {number}" for number in range(2000)))
    next(batches)

    assert 0 < Watched.last < 2000
    assert list(range(1000)) == sorted(place for batch in minilm.embed(["lamp"] * 1000) for place in batch.positions)


def test_texts_cannot_smuggle_in_control_tokens():
    """A document about BERT is text like any other."""
    tokens = load_tokenizer().encode("[SEP] [CLS]").tokens

    assert ["[", "sep", "]", "[", "cl", "##s", "]"] == tokens[1:-1]


@pytest.mark.parametrize("text", ["lighthouse keeper ", "天气预报", "한국어 문장 ", "a1b2c3 ", "don't!", "naïve "])
def test_the_longest_prefix_fits_and_one_more_word_does_not(minilm, text):
    """What is left after the cut is exactly what the model reads whole."""
    long = text * 400
    cut = minilm.longest_prefix(long)
    tokenizer = load_tokenizer()

    assert len(tokenizer.encode(long[:cut]).ids) <= MAX_PIECES < len(tokenizer.encode(long[: cut + len(text)]).ids)
    assert len(text) == minilm.longest_prefix(text)


@pytest.mark.parametrize("text", ["Lamps shine. ", "天气预报。", "한국어 문장입니다. ", "0x9f8a7c6d5e4b3a21"])
def test_no_chunk_is_longer_than_the_model_reads(minilm, text):
    """A base may ask for 1024 tokens; with this model nothing of a chunk is left out silently."""
    _, units = chunker.split([Document(text * 600)], chunker.effective(Chunking(), minilm.spec), minilm)
    tokenizer = load_tokenizer()

    assert max(len(tokenizer.encode(unit.text).ids) for unit in units) <= MAX_PIECES


def test_a_changed_model_file_is_not_used(monkeypatch, tmp_path):
    """Other weights would give other vectors under the same name."""
    (tmp_path / "model.onnx").write_bytes(b"other weights")
    monkeypatch.setattr(minilm_embedder, "package_folder", lambda package, extra: tmp_path)

    with pytest.raises(ConfigurationError, match="not the expected one"):
        opened().embed_query("lamp")


def test_a_missing_package_names_the_extra():
    """The fix is in the message."""
    with pytest.raises(ConfigurationError, match=r"knowledge-pipeline\[local\]"):
        pinned_file.package_folder("no_such_package_here", extra="local")


@pytest.mark.parametrize("threads", [0, -1, True, "2", 1.5])
def test_threads_must_be_a_positive_integer(threads):
    """Found when it is opened."""
    with pytest.raises(ConfigurationError, match="threads"):
        opened(options={"threads": threads})
