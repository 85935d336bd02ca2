"""What holds for every test: the developer's own settings and data directory are out of reach."""

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from knowledge.model.documents import EmbedderSpec
from tests.fakes.embedder_server import FakeEmbedderServer
from tests.house import DIMENSIONS, House
from tests.waiting import PATIENCE_SECONDS


def pytest_configure(config: pytest.Config) -> None:
    for name in [name for name in os.environ if name.startswith("KNOWLEDGE_")]:
        del os.environ[name]
    os.environ["KNOWLEDGE_DATA_DIR"] = tempfile.mkdtemp(prefix="knowledge-test-")
    # A shell starts what runs in its background deaf to Ctrl-C, and programs that tests start would be as deaf.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(Path(os.environ.pop("KNOWLEDGE_DATA_DIR")), ignore_errors=True)


@pytest.fixture
def make_house(tmp_path: Path) -> Iterator[Callable[..., House]]:
    """Builds runtimes on one data directory; further embedders and options as `House` takes them."""
    built: list[House] = []

    def make(*specs: EmbedderSpec, **options: Any) -> House:
        built.append(House(tmp_path / "data", *specs, **options))
        return built[-1]

    yield make
    for house in built:
        house.rt.close()


@pytest.fixture
def house(make_house: Callable[..., House]) -> House:
    """A runtime with the hashing embedder."""
    return make_house()


@pytest.fixture
def paid_server() -> Iterator[FakeEmbedderServer]:
    """A provider that counts what it is asked for."""
    with FakeEmbedderServer(dimensions=DIMENSIONS, key="right") as server:
        yield server


@pytest.fixture
def paid_spec(request: pytest.FixtureRequest, paid_server: FakeEmbedderServer) -> EmbedderSpec:
    """It, as an embedder that costs money; its answers are waited for as long as the test says, or as ever."""
    return EmbedderSpec(
        id="paid",
        kind="openai",
        dimensions=DIMENSIONS,
        model="text-1",
        endpoint=paid_server.endpoint,
        api_key="right",
        max_batch_texts=2,
        timeout_seconds=getattr(request, "param", PATIENCE_SECONDS),
        billed=True,
        price_per_million_tokens=1.0,
    )
