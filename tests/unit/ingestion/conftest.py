"""A base, a folder of documents, and a paid embedder on HTTP."""

import pytest

from knowledge.model.documents import EmbedderSpec
from tests.fakes.embedder_server import FakeEmbedderServer
from tests.house import DIMENSIONS


@pytest.fixture
def base(house):
    return house.base()


@pytest.fixture
def docs(tmp_path):
    """docs/{a.md, inner/{b.md, deep/c.md}}"""
    docs = tmp_path / "docs"
    (docs / "inner" / "deep").mkdir(parents=True)
    (docs / "a.md").write_text("The lighthouse stands on the northern rock.")
    (docs / "inner" / "b.md").write_text("The fog signal sounds every ninety seconds.")
    (docs / "inner" / "deep" / "c.md").write_text("The keeper writes the log at midnight.")
    return docs


@pytest.fixture
def paid_server():
    with FakeEmbedderServer(dimensions=DIMENSIONS, key="right") as server:
        yield server


@pytest.fixture
def paid_spec(paid_server):
    return EmbedderSpec(
        id="paid",
        kind="openai",
        dimensions=DIMENSIONS,
        model="text-1",
        endpoint=paid_server.endpoint,
        api_key="right",
        max_batch_texts=2,
        timeout_seconds=2.0,
        billed=True,
        price_per_million_tokens=1.0,
    )
