"""What is not ours: a paid embedder, a message broker, and the time. Doubles, because they belong to third parties."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from knowledge import clock
from knowledge.errors import BrokerUnavailable, EmbedderBadAnswer, EmbedderRefused, EmbedderSlowDown, EmbedderUnavailable
from knowledge.model.documents import EmbedderSpec, EmbeddingUse, Vector, text_hash
from knowledge.model.jobs import Job
from knowledge.pipeline.indexing.embedder import EmbeddedBatch
from knowledge.pipeline.indexing.hashing_embedder import KIND as HASHING
from knowledge.pipeline.indexing.registry import EmbedderKind
from tests.chaos import fate

BATCH: Final = 2  #: texts a request
WINDOW: Final = 2  #: jobs of a base in flight
PAID: Final = EmbedderSpec(
    id="paid", kind="paid", dimensions=8, billed=True, max_batch_texts=BATCH, price_per_million_tokens=1.0
)
FREE: Final = EmbedderSpec(id="free", kind="hashing", dimensions=8)
FAILURES: Final = {
    "unavailable": EmbedderUnavailable,
    "refused": EmbedderRefused,
    "slow down": EmbedderSlowDown,
    "bad answer": EmbedderBadAnswer,
}


class Provider:
    """Embeds for money, and counts what it was sent."""

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()  #: by text hash
        self.failures: list[str] = []  #: what the next requests end in
        self.watch: Callable[[Sequence[str]], None] = lambda hashes: None  #: called with each request before it counts

    def receive(self, hashes: Sequence[str]) -> None:
        self.watch(hashes)
        if not fate.report({"sent": list(hashes)}):
            self.sent.update(hashes)

    def kinds(self) -> dict[str, EmbedderKind]:
        return {"paid": EmbedderKind(open=lambda spec: _PaidEmbedder(spec, self)), "hashing": HASHING}


class _PaidEmbedder:
    def __init__(self, spec: EmbedderSpec, provider: Provider) -> None:
        self.spec = spec
        self._provider = provider
        self._vectors = HASHING.open(spec)

    def embed(self, texts: Sequence[str]) -> Iterator[EmbeddedBatch]:
        for start in range(0, len(texts), BATCH):
            batch = texts[start : start + BATCH]
            fate.step("embedder.ask", can_wait=False)  # what a checkpoint has let through is on its way
            if self._provider.failures:
                raise FAILURES[self._provider.failures.pop(0)]
            self._provider.receive([text_hash(text) for text in batch])
            fate.step("embedder.answered")
            (answer,) = self._vectors.embed(batch)
            positions = [start + position for position in answer.positions]
            yield EmbeddedBatch(positions, answer.vectors, EmbeddingUse(len(batch), len(batch), len(batch)))

    def embed_query(self, text: str) -> Vector:
        return np.asarray(self._vectors.embed_query(text))


class Broker:
    """Implements `dispatch.Sender`. Delivers, loses, doubles and mixes up on command."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.is_away = False

    def send(self, job: Job) -> None:
        fate.step("broker.send")
        if self.is_away:
            raise BrokerUnavailable("away, as ordered")
        if not fate.report({"message": job.id}):
            self.messages.append(job.id)
        fate.step("broker.sent")

    def answers(self) -> bool:
        return not self.is_away

    def broker_run_id(self) -> str | None:
        return None if self.is_away else "one"

    def queue_length(self, job: Job) -> int:
        if self.is_away:
            raise BrokerUnavailable("away, as ordered")
        return len(self.messages)


class Clock:
    """Time stands still until somebody lets it pass."""

    def __init__(self, start: float) -> None:
        self.now = start
        self.asleep: Callable[[], None] = lambda: None  #: called whenever somebody sleeps: others may move

    def pass_(self, seconds: float) -> None:
        self.now += seconds

    def _sleep(self, seconds: float) -> None:
        fate.step("sleep")
        self.now += max(seconds, 6.0)  # a sleep may last longer than asked for; six end any of our waits soon
        self.asleep()

    @contextmanager
    def installed(self) -> Iterator[None]:
        before: dict[str, Any] = {name: getattr(clock, name) for name in ("seconds", "monotonic", "sleep")}
        clock.seconds = clock.monotonic = lambda: self.now
        clock.sleep = self._sleep
        try:
            yield
        finally:
            for name, function in before.items():
                setattr(clock, name, function)
