"""The stage that turns units into vectors and pays for none of them twice."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, Protocol

import numpy as np

from knowledge.errors import EmbedderBadAnswer
from knowledge.model.documents import Checkpoint, EmbedderSpec, EmbeddingUse, Unit, Vector
from knowledge.pipeline.indexing.embedder import EmbeddedBatch, Embedder

NO_REQUEST: Final = EmbeddingUse(texts=0, tokens=0, estimated_tokens=0)


class VectorCache(Protocol):
    """Vectors that have been paid for, by embedder fingerprint and text hash."""

    def get(self, fingerprint: str, hashes: Collection[str]) -> Mapping[str, Vector]:
        """Those of them that are stored."""
        ...

    def put(self, fingerprint: str, vectors: Mapping[str, Vector]) -> None:
        """Store these; when it returns, they survive a crash of this machine."""
        ...


Meter = Callable[[EmbeddingUse, int], None]
"""`meter(use, cached)`: what one request cost, and how many texts were taken from the cache since the last call."""


def embed_missing(
    units: Sequence[Unit],
    *,
    embedder: Embedder,
    known: Callable[[Collection[str]], frozenset[str]],
    cache: VectorCache | None,
    meter: Meter,
    checkpoint: Checkpoint,
) -> dict[str, Vector]:
    """Vectors of all texts that the index does not know.

    A text is asked for once however often it occurs, and not at all if the index or the cache has its vector. Each answer is in
    the cache before the next request leaves, so whatever ends this run, the next one pays only for the rest.

    Args:
        known: which of these text hashes the index has vectors for.
        cache: None for embedders that are not billed.
        meter: called once for each answer, after it is stored; once without a request if everything came from the cache.
        checkpoint: called before each request.

    Returns:
        float32 vectors of shape (dimensions,) by text hash: every unit's, except those that `known` named.

    Raises:
        EmbeddingFault: as `Embedder.embed`; answers that came before are in the cache.
        Interrupted: from `checkpoint`.
    """
    texts = {unit.text_hash: unit.text for unit in units}
    there = known(list(texts)) if texts else frozenset()
    missing = [text_hash for text_hash in texts if text_hash not in there]
    found: dict[str, Vector] = {}
    fingerprint = embedder.spec.fingerprint
    if cache is not None and missing:
        width = (embedder.spec.dimensions,)
        found = {key: vector for key, vector in cache.get(fingerprint, missing).items() if vector.shape == width}
        missing = [text_hash for text_hash in missing if text_hash not in found]
    cached = len(found)
    if cached and not missing:
        meter(NO_REQUEST, cached)
    asked: set[int] = set()
    batches = iter(embedder.embed([texts[text_hash] for text_hash in missing]))
    while len(asked) < len(missing):
        checkpoint()
        batch = next(batches, None)
        if batch is None:
            raise EmbedderBadAnswer(
                "The embedder left texts out.", embedder=embedder.spec.id, missing=len(missing) - len(asked)
            )
        _check(batch, asked, len(missing), embedder.spec)
        answered = {missing[position]: batch.vectors[row] for row, position in enumerate(batch.positions)}
        if cache is not None:
            cache.put(fingerprint, answered)
        meter(batch.use, cached)
        cached = 0
        asked.update(batch.positions)
        found.update(answered)
    return found


def _check(batch: EmbeddedBatch, asked: set[int], count: int, spec: EmbedderSpec) -> None:
    """Refuse what no index should hold, whichever kind of embedder it comes from."""
    positions = list(batch.positions)
    fresh = len(set(positions)) == len(positions) and asked.isdisjoint(positions) and set(positions) <= set(range(count))
    if not positions or not fresh:
        raise EmbedderBadAnswer("The embedder answered for the wrong texts.", embedder=spec.id)
    if batch.vectors.shape != (len(positions), spec.dimensions):
        raise EmbedderBadAnswer(
            "The embedder's vectors have the wrong number or width.",
            embedder=spec.id,
            got=list(batch.vectors.shape),
            want=[len(positions), spec.dimensions],
        )
    if not np.isfinite(batch.vectors).all() or not batch.vectors.any(axis=1).all():
        raise EmbedderBadAnswer("The embedder's answer has a vector of zeros or not finite numbers.", embedder=spec.id)
