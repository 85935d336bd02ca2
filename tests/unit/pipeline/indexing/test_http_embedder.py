"""The OpenAI-compatible embedder against a real HTTP server that fails on command."""

import logging
import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import numpy as np
import pytest

from knowledge.errors import (
    ConfigurationError,
    EmbedderBadAnswer,
    EmbedderRefused,
    EmbedderSlowDown,
    EmbedderUnavailable,
    EmbeddingFault,
)
from knowledge.model.documents import EmbedderSpec, text_hash
from knowledge.pipeline.http.retry_after import MAX_SECONDS
from knowledge.pipeline.indexing import http_embedder
from knowledge.pipeline.indexing.http_embedder import QWEN3_QUERY_PREFIX
from knowledge.pipeline.indexing.registry import Embedders
from tests.contracts.embedder_contract import EmbedderContract, all_vectors
from tests.fakes.embedder_server import FakeEmbedderServer

KEY = "sk-very-secret-key"
WORDS = [f"text number {number}" for number in range(25)]


@pytest.fixture(scope="module")
def running_server():
    with FakeEmbedderServer(dimensions=16, key=KEY) as server:
        yield server


@pytest.fixture
def server(running_server):
    running_server.reset()
    yield running_server
    running_server.reset()


def opened(server, **fields):
    spec = EmbedderSpec(
        **{
            "id": "acme/embed",
            "kind": "openai",
            "dimensions": 16,
            "model": "embed-1",
            "endpoint": server.endpoint,
            "api_key": KEY,
            "timeout_seconds": 20,
            **fields,
        }
    )
    return http_embedder.KIND.open(spec)


def answered_before_error(embedder, texts):
    """Positions of the batches that came, and the error that ended them."""
    positions = []
    try:
        for batch in embedder.embed(texts):
            positions.extend(batch.positions)
    except EmbeddingFault as error:
        return positions, error
    raise AssertionError("no error came")


class TestHttpEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self, server):
        return opened(server)


def test_texts_go_out_in_batches_as_strings(server):
    """25 texts, at most 10 a request: 3 requests, each text once. The server answers 400 to anything but strings."""
    vectors = all_vectors(opened(server), WORDS)

    assert 3 == server.requests()
    assert {text_hash(text): 1 for text in WORDS} == server.sent()
    assert np.allclose([server.vector(text) for text in WORDS], vectors, atol=1e-6)


def test_the_next_request_leaves_only_when_the_next_batch_is_asked_for(server):
    """The caller can store what is paid for, and stop."""
    batches = opened(server).embed(WORDS)
    assert 0 == server.requests()
    next(batches)

    assert 1 == server.requests()


def test_batches_keep_to_the_declared_tokens(server):
    """A request is full when the next text would lift it over the limit; a longer text goes alone."""
    server.behave({"behaviour": "token_limit", "tokens": 120})
    all_vectors(opened(server, max_batch_tokens=100), ["word " * 50, "word " * 50, "word " * 20, "word " * 120, "word"])

    assert 4 == server.requests()


def test_a_request_refused_by_size_is_halved(server):
    """The provider's limit on a whole request need not be known; what follows stays below it."""
    server.behave({"behaviour": "token_limit", "tokens": 30})
    vectors = all_vectors(opened(server), ["one two three four five"] * 25)

    assert np.isfinite(vectors).all()
    assert 25 == sum(server.answered().values())
    assert 1 == server.requests() - server.stats()["answered"]


def test_a_request_with_too_many_texts_is_halved(server):
    """413 says the same without words."""
    server.behave({"behaviour": "text_limit", "texts": 3})
    all_vectors(opened(server), WORDS)

    assert {1} == set(server.answered().values())
    assert 2 == server.requests() - server.stats()["answered"]


def test_one_text_that_is_too_long_is_named_by_its_position(server):
    """Halving ends at one text; those before it are good."""
    server.behave({"behaviour": "token_limit", "tokens": 50})
    got, error = answered_before_error(opened(server), [*WORDS[:7], "word " * 100, *WORDS[7:]])

    assert list(range(7)) == got
    assert EmbedderRefused is type(error)
    assert (7, 1) == (error.details["position"], error.details["texts"])


def test_answers_out_of_order_are_sorted_by_index(server):
    """The protocol has an index for a reason."""
    server.behave({"behaviour": "shuffle"})

    assert np.allclose([server.vector(text) for text in WORDS], all_vectors(opened(server), WORDS), atol=1e-6)


@pytest.mark.parametrize("behaviour", ["short", "wide", "indexes", "html"])
def test_an_answer_that_cannot_be_trusted_gives_nothing(server, behaviour):
    """Wrong count, width, indexes, or no JSON at all."""
    server.behave({"behaviour": behaviour})
    got, error = answered_before_error(opened(server), WORDS)

    assert [] == got
    assert EmbedderBadAnswer is type(error)


@pytest.mark.parametrize("behaviour", ["nan", "infinity", "zeros", "empty"])
def test_one_bad_vector_costs_only_itself(server, behaviour):
    """The good ones of its batch are handed over first: they are paid for. The error names the position."""
    server.behave({"behaviour": behaviour, "contains": WORDS[13]})
    got, error = answered_before_error(opened(server), WORDS)

    assert [number for number in range(20) if number != 13] == got
    assert EmbedderBadAnswer is type(error)
    assert 13 == error.details["position"]
    assert error.transient


@pytest.mark.parametrize("behaviour", ["nan", "infinity", "zeros", "empty", "short", "wide"])
def test_queries_are_checked_like_documents(server, behaviour):
    """No index is asked with such a vector."""
    server.behave({"behaviour": behaviour})

    with pytest.raises(EmbedderBadAnswer):
        opened(server).embed_query("lamp")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (EmbedderRefused, 400),
        (EmbedderRefused, 401),
        (EmbedderRefused, 403),
        (EmbedderRefused, 404),
        (EmbedderRefused, 422),
        (EmbedderRefused, 301),
        (EmbedderUnavailable, 500),
        (EmbedderUnavailable, 502),
        (EmbedderUnavailable, 503),
        (EmbedderUnavailable, 408),
        (EmbedderSlowDown, 429),
        (EmbedderBadAnswer, 204),
    ],
)
def test_each_status_has_its_error(server, error, status):
    """With the provider's code, and without its prose."""
    server.behave({"behaviour": "status", "status": status, "message": f"no {WORDS[0]} for {KEY}", "code": "its_code"})
    with pytest.raises(error) as caught:
        next(opened(server).embed(WORDS))

    assert error is type(caught.value)
    assert status == caught.value.details["status"]
    assert "embed-1" == caught.value.details["model"]


@pytest.mark.parametrize(
    ("seconds", "header"),
    [
        (3, "3"),
        (0.5, "0.5"),
        (MAX_SECONDS, "999999"),
        (5, None),
        (5, "soon"),
        (0, "-3"),
        (0, format_datetime(datetime(2001, 1, 1, tzinfo=UTC), usegmt=True)),
        (MAX_SECONDS, format_datetime(datetime.now(UTC) + timedelta(days=30), usegmt=True)),
    ],
    ids=["seconds", "half", "too long", "none", "words", "negative", "past date", "far date"],  # no clock in a test's name
)
def test_slow_down_carries_the_wait(server, seconds, header):
    """Seconds or a date, never more than an hour; 5 seconds where it says nothing sensible."""
    server.behave({"behaviour": "status", "status": 429, "headers": {} if header is None else {"Retry-After": header}})
    with pytest.raises(EmbedderSlowDown) as caught:
        next(opened(server).embed(WORDS))

    assert seconds == caught.value.retry_after_seconds


def test_a_retry_date_becomes_seconds_from_now(server):
    """Within the second that the date is rounded to."""
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    server.behave({"behaviour": "status", "status": 503, "headers": {"Retry-After": date}})
    with pytest.raises(EmbedderSlowDown) as caught:
        next(opened(server).embed(WORDS))

    assert 60 < caught.value.retry_after_seconds <= 100


def test_an_empty_account_does_not_wait_for_ever(server):
    """Providers say 429 there too, but no wait will help."""
    server.behave({"behaviour": "status", "status": 429, "code": "insufficient_quota"})

    with pytest.raises(EmbedderRefused):
        next(opened(server).embed(WORDS))


def test_a_closed_connection_is_unavailable(server):
    """Not our crash."""
    server.behave({"behaviour": "close"})

    with pytest.raises(EmbedderUnavailable):
        next(opened(server).embed(WORDS))


def test_no_server_is_unavailable(server):
    """Nobody listens on this port."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"

        with pytest.raises(EmbedderUnavailable):
            opened(server, endpoint=endpoint).embed_query("lamp")


def test_a_provider_that_does_not_answer_times_out(server):
    """After the declared seconds, while the request still stands at the gate."""
    server.behave({"behaviour": "gate"})
    with pytest.raises(EmbedderUnavailable) as caught:
        opened(server, timeout_seconds=0.2).embed_query("lamp")

    assert "timeout" == caught.value.details["reason"]


def test_a_question_waits_less_than_documents(server, monkeypatch):
    """Somebody sits before a search; words alone give an answer too."""
    monkeypatch.setattr(http_embedder, "QUERY_SECONDS", 0.2)
    server.behave({"behaviour": "delay", "seconds": 1.0})
    with pytest.raises(EmbedderUnavailable) as caught:
        opened(server).embed_query("lamp")

    assert "timeout" == caught.value.details["reason"]
    assert 1 == len(all_vectors(opened(server), WORDS[:1]))


@pytest.mark.parametrize(
    "rule",
    [
        {"behaviour": "status", "status": 401, "message": f"{KEY} {WORDS[0]}", "code": KEY},
        {"behaviour": "status", "status": 400, "message": f"maximum exceeded by {WORDS[0]} {KEY}", "code": KEY},
        {"behaviour": "nan"},
        {"behaviour": "close"},
    ],
)
def test_neither_keys_nor_texts_leave_in_errors_or_logs(server, rule, caplog):
    """Whatever the provider says."""
    caplog.set_level(logging.DEBUG, logger="knowledge")
    server.behave(rule)
    with pytest.raises(EmbeddingFault) as caught:
        list(opened(server).embed(WORDS[:2]))
    logged = [str(vars(record)) for record in caplog.records if record.name.startswith("knowledge")]
    said = " ".join([str(caught.value), repr(caught.value), str(caught.value.to_wire()), *logged])

    assert KEY not in said
    assert WORDS[0] not in said
    assert KEY not in repr(opened(server).spec)


def test_a_wrong_key_is_refused(server):
    """And the server, which quotes it, is not quoted."""
    with pytest.raises(EmbedderRefused) as caught:
        opened(server, api_key="sk-wrong").embed_query("lamp")

    assert "sk-wrong" not in str(caught.value.to_wire())
    assert "invalid_api_key" == caught.value.details["provider_code"]


@pytest.mark.parametrize(
    ("sent", "fields"),
    [
        ("lamp", {}),
        ("query: lamp", {"query_prefix": "query: "}),
        (f"{QWEN3_QUERY_PREFIX}lamp", {"model": "Qwen/Qwen3-Embedding-0.6B"}),
        ("ask: lamp", {"model": "qwen3-embedding", "query_prefix": "ask: "}),
    ],
)
def test_queries_get_the_prefix_of_their_model(server, sent, fields):
    """The declared one; for qwen3-embedding its published instruction if none is declared."""
    opened(server, **fields).embed_query("lamp")

    assert {text_hash(sent): 1} == server.sent()


@pytest.mark.parametrize(("sent", "fields"), [("lamp", {"model": "qwen3-embedding"}), ("d: lamp", {"document_prefix": "d: "})])
def test_documents_get_only_the_declared_prefix(server, sent, fields):
    """Never the query's."""
    all_vectors(opened(server, **fields), ["lamp"])

    assert {text_hash(sent): 1} == server.sent()


@pytest.mark.parametrize("tail", ["", "/", "/embeddings", "/embeddings/"])
def test_the_address_may_be_written_in_any_usual_way(server, tail):
    """With or without what we append."""
    opened(server, endpoint=server.endpoint + tail).embed_query("lamp")

    assert 1 == server.requests()


@pytest.mark.parametrize("endpoint", ["", "api.example.com/v1", "file:///etc/passwd"])
def test_an_endpoint_must_be_an_http_address(server, endpoint):
    """Found when it is opened, not at the first search."""
    spec = EmbedderSpec(id="m", kind="openai", dimensions=3, endpoint=endpoint)

    with pytest.raises(ConfigurationError):
        Embedders([spec]).open("m")


def test_the_providers_token_count_is_reported(server):
    """Beside our own estimate."""
    uses = [batch.use for batch in opened(server).embed(WORDS)]

    assert [10, 10, 5] == [use.texts for use in uses]
    assert [use.estimated_tokens for use in uses] == [use.tokens for use in uses]
