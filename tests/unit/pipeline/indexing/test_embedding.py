"""The stage that pays for no text twice."""

import numpy as np
import pytest

from knowledge.errors import CancelRequested, EmbedderBadAnswer, EmbedderSlowDown
from knowledge.model.documents import EmbedderSpec, EmbeddingUse, Unit, text_hash
from knowledge.pipeline.indexing import http_embedder
from knowledge.pipeline.indexing.embedder import EmbeddedBatch
from knowledge.pipeline.indexing.embedding import embed_missing
from tests.fakes.embedder_server import FakeEmbedderServer


class MemoryCache:
    """A `VectorCache` that notes the order of what is done with it."""

    def __init__(self):
        self.stored = {}

    def get(self, fingerprint, hashes):
        return {key: self.stored[fingerprint, key] for key in hashes if (fingerprint, key) in self.stored}

    def ensure_room(self, byte_count):
        pass

    def put(self, fingerprint, vectors):
        self.stored.update({(fingerprint, key): vector for key, vector in vectors.items()})


class ScriptedEmbedder:
    """An embedder, good or bad, whose answers are given."""

    spec = EmbedderSpec(id="scripted", kind="scripted", dimensions=2)

    def __init__(self, *batches):
        self.batches = batches

    def embed(self, texts):
        for positions, vectors in self.batches:
            yield EmbeddedBatch(positions, np.array(vectors, dtype=np.float32), EmbeddingUse(len(positions), None, 1))


@pytest.fixture(scope="module")
def running_server():
    with FakeEmbedderServer(dimensions=8) as server:
        yield server


@pytest.fixture
def server(running_server):
    running_server.reset()
    yield running_server
    running_server.reset()


@pytest.fixture
def paid(server):
    spec = EmbedderSpec(id="acme", kind="openai", dimensions=8, model="m", endpoint=server.endpoint, billed=True)
    return http_embedder.KIND.open(spec)


@pytest.fixture
def cache():
    return MemoryCache()


def units(*texts):
    return [Unit(index, text, 0, len(text)) for index, text in enumerate(texts)]


def run(texts, embedder, *, known=(), cache=None, meter=lambda use, cached: None, checkpoint=lambda: None):
    hashes = frozenset(map(text_hash, known))
    return embed_missing(
        units(*texts),
        embedder=embedder,
        known=lambda asked: hashes & frozenset(asked),
        cache=cache,
        meter=meter,
        checkpoint=checkpoint,
    )


def test_equal_texts_are_asked_for_once(server, paid):
    """However often they occur."""
    vectors = run(["a", "b", "a", "a"], paid)

    assert {text_hash("a"): 1, text_hash("b"): 1} == server.sent() == dict.fromkeys(vectors, 1)


def test_what_the_index_knows_is_neither_asked_for_nor_returned(server, paid):
    """The index keeps it."""
    assert {text_hash("b")} == set(run(["a", "b"], paid, known=["a"]))
    assert {text_hash("b"): 1} == server.sent()


def test_what_the_cache_has_is_returned_without_asking(server, paid, cache):
    """A second run costs nothing and gives the same vectors."""
    first = run(["a", "b"], paid, cache=cache)
    used = []
    second = run(["a", "b"], paid, cache=cache, meter=lambda *use: used.append(use))

    assert 1 == server.requests()
    assert all(np.array_equal(first[key], second[key]) for key in first)
    assert [(0, 2)] == [(use.texts, cached) for use, cached in used]


def test_another_model_does_not_get_these_vectors(server, paid, cache):
    """The cache is asked by fingerprint; a vector of another width is no answer either."""
    cache.put(paid.spec.fingerprint, {text_hash("a"): np.ones(3, dtype=np.float32)})
    cache.put("another", {text_hash("a"): np.ones(8, dtype=np.float32)})
    run(["a"], paid, cache=cache)

    assert 1 == server.requests()


def test_nothing_missing_asks_nothing(server, paid):
    """Not even the checkpoint is needed."""
    assert {} == run([], paid)
    assert {} == run(["a"], paid, known=["a"])
    assert 0 == server.requests()


def test_each_answer_is_stored_and_metered_before_the_next_request(server, paid, cache):
    """Checkpoint, request, store, meter, and again."""
    seen = []
    run(
        [f"text {number}" for number in range(25)],
        paid,
        cache=cache,
        checkpoint=lambda: seen.append(("checkpoint", server.requests(), len(cache.stored))),
        meter=lambda use, cached: seen.append(("meter", server.requests(), len(cache.stored))),
    )

    assert [
        ("checkpoint", 0, 0),
        ("meter", 1, 10),
        ("checkpoint", 1, 10),
        ("meter", 2, 20),
        ("checkpoint", 2, 20),
        ("meter", 3, 25),
    ] == seen


def test_a_run_that_must_stop_sends_no_further_request(server, paid, cache):
    """What came before the stop is kept."""

    def stop_after_one_request():
        if server.requests():
            raise CancelRequested

    with pytest.raises(CancelRequested):
        run([f"text {number}" for number in range(25)], paid, cache=cache, checkpoint=stop_after_one_request)

    assert 1 == server.requests()
    assert 10 == len(cache.stored)


def test_a_failure_at_chunk_900_of_1000_does_not_pay_for_the_first_900_again(server, paid, cache):
    """Case 73: the retry pays for the rest only."""
    texts = [f"chunk {number}" for number in range(1000)]
    server.behave({"behaviour": "status", "status": 429, "contains": "chunk 900", "times": 1})
    with pytest.raises(EmbedderSlowDown):
        run(texts, paid, cache=cache)
    vectors = run(texts, paid, cache=cache)

    assert 1000 == len(vectors)
    assert {1} == set(server.answered().values())
    assert sum(server.sent().values()) <= 1010


def test_one_bad_vector_is_asked_for_again_alone(server, paid, cache):
    """Case 79: its neighbours of the batch are paid for and kept."""
    texts = [f"chunk {number}" for number in range(10)]
    server.behave({"behaviour": "empty", "contains": "chunk 4", "times": 1})
    with pytest.raises(EmbedderBadAnswer):
        run(texts, paid, cache=cache)
    run(texts, paid, cache=cache)

    assert {2 if text == "chunk 4" else 1 for text in texts} == set(server.sent().values())
    assert 11 == sum(server.sent().values())


@pytest.mark.parametrize(
    "batches",
    [
        [],
        [([0], [[1, 0]])],
        [([0, 0], [[1, 0], [1, 0]])],
        [([0], [[1, 0]]), ([0], [[1, 0]])],
        [([0, 2], [[1, 0], [1, 0]])],
        [([], np.zeros((0, 2)))],
        [([0, 1], [[1, 0]])],
        [([0, 1], [[1, 0, 0], [1, 0, 0]])],
        [([0, 1], [[1, 0], [0, 0]])],
        [([0, 1], [[1, 0], [1, np.nan]])],
    ],
    ids=["none", "one left out", "twice", "again", "unknown", "empty", "too few", "too wide", "zeros", "nan"],
)
def test_a_bad_embedder_of_any_kind_is_found_out(batches):
    """Third-party kinds are checked here, whatever they check themselves; nothing bad is stored."""
    cache = MemoryCache()
    with pytest.raises(EmbedderBadAnswer):
        run(["a", "b"], ScriptedEmbedder(*batches), cache=cache)

    assert all(np.array_equal([1, 0], vector) for vector in cache.stored.values())
