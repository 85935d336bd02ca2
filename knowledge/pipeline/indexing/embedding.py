"""The stage that turns units into vectors and pays for none of them twice."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

import numpy as np

from knowledge import clock
from knowledge.errors import DatabaseBusy, EmbedderBadAnswer, KnowledgeError, StorageFailed, StorageFull
from knowledge.model.documents import Checkpoint, EmbedderSpec, EmbeddingUse, Unit, Vector, Vectors
from knowledge.pipeline.indexing.embedder import EmbeddedBatch, Embedder

log = logging.getLogger(__name__)

HOLD_SECONDS: Final = 60.0  #: how long an answer is held while the disk refuses it; it may be put right meanwhile
PAUSE_SECONDS: Final = 1.0  #: between two tries
BYTES_PER_NUMBER: Final = 4
NO_REQUEST: Final = EmbeddingUse(texts=0, tokens=0, estimated_tokens=0)


class VectorCache(Protocol):
    """Vectors that have been paid for, by embedder fingerprint and text hash."""

    def get(self, fingerprint: str, hashes: Collection[str]) -> Mapping[str, Vector]:
        """Those of them that are stored."""
        ...

    def ensure_room(self, byte_count: int) -> None:
        """Prove that this many bytes of vectors could be stored now. Raises as `put`."""
        ...

    def put(self, fingerprint: str, vectors: Mapping[str, Vector]) -> None:
        """Store these; when it returns, they survive a crash of this machine.

        Raises:
            DatabaseBusy, StorageFull, StorageFailed
        """
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

    A text is asked for once however often it occurs, and not at all if the index or the cache has its vector. No request leaves
    while the cache cannot be written, and each answer is in it before the next request leaves, so whatever ends this run, the
    next run pays only for the rest. An answer that the cache does not take is held and offered again.

    Args:
        known: which of these text hashes the index has vectors for.
        cache: None for embedders that are not billed.
        meter: called once for each answer, good or bad, after it is stored or cannot be; once without a request if everything
            came from the cache. Called again if it raises an error of a database or disk.
        checkpoint: called before each request, and while an answer is held.

    Returns:
        float32 vectors of shape (dimensions,) by text hash: every unit's, except those that `known` named.

    Raises:
        EmbeddingFault: as `Embedder.embed`; answers that came before are in the cache.
        DatabaseBusy, StorageFull, StorageFailed: all that was paid is in the cache; but not the last answer if `transient` is
            false, after it was refused for `HOLD_SECONDS`.
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
        if cache is not None:
            cache.ensure_room(_answer_bytes(embedder.spec, len(missing) - len(asked)))
        checkpoint()
        batch = next(batches, None)
        if batch is None:
            raise EmbedderBadAnswer(
                "The embedder left texts out.", embedder=embedder.spec.id, missing=len(missing) - len(asked)
            )
        try:
            _check(batch, asked, len(missing), embedder.spec)
            answered = {missing[position]: batch.vectors[row] for row, position in enumerate(batch.positions)}
            if cache is not None:
                _store(cache, fingerprint, answered, checkpoint)
        except KnowledgeError:
            _record_loss(meter, batch.use, cached)
            raise
        _insist(partial(meter, batch.use, cached), checkpoint)
        cached = 0
        asked.update(batch.positions)
        found.update(answered)
    return found


def are_sound(vectors: Vectors) -> bool:
    """Whether an index may hold all of these, float32, shape (n, dimensions): finite numbers, and no vector of zeros."""
    return bool(np.isfinite(vectors).all() and vectors.any(axis=1).all())


def _answer_bytes(spec: EmbedderSpec, texts: int) -> int:
    """Of the vectors that the next request brings, if it is as large as it may be."""
    return min(texts, max(spec.max_batch_texts, 1)) * spec.dimensions * BYTES_PER_NUMBER


def _store(cache: VectorCache, fingerprint: str, answered: Mapping[str, Vector], checkpoint: Checkpoint) -> None:
    try:
        _insist(partial(cache.put, fingerprint, answered), checkpoint)
    except (StorageFull, StorageFailed) as error:
        error.transient = False  # run again, the job would pay again
        raise


def _insist(write: Callable[[], None], checkpoint: Checkpoint) -> None:
    """Repeat a write of what cannot be had again: as long as others hold the database, and `HOLD_SECONDS` if the disk refuses.

    Raises:
        StorageFull, StorageFailed. Interrupted: from `checkpoint`.
    """
    until: float | None = None
    while True:
        try:
            return write()
        except DatabaseBusy:
            pass
        except (StorageFull, StorageFailed):
            until = clock.monotonic() + HOLD_SECONDS if until is None else until
            if clock.monotonic() >= until:
                raise
        clock.sleep(PAUSE_SECONDS)
        with suppress(DatabaseBusy, StorageFull, StorageFailed):  # the catalogue may have the same trouble
            checkpoint()


def _record_loss(meter: Meter, use: EmbeddingUse, cached: int) -> None:
    """It was answered all the same. The error that led here is the one that must be seen."""
    try:
        meter(use, cached)
    except KnowledgeError as error:
        log.warning("spend not recorded", extra={"code": error.code, "texts": use.texts})


def _check(batch: EmbeddedBatch, asked: set[int], count: int, spec: EmbedderSpec) -> None:
    """Refuse what no index should hold, whichever kind of embedder it comes from."""
    positions = list(batch.positions)
    fresh = len(set(positions)) == len(positions) and asked.isdisjoint(positions) and set(positions) <= set(range(count))
    if not fresh:
        raise EmbedderBadAnswer("The embedder answered for the wrong texts.", embedder=spec.id)
    if batch.vectors.shape != (len(positions), spec.dimensions):
        raise EmbedderBadAnswer(
            "The embedder's vectors have the wrong number or width.",
            embedder=spec.id,
            got=list(batch.vectors.shape),
            want=[len(positions), spec.dimensions],
        )
    if not are_sound(batch.vectors):
        raise EmbedderBadAnswer("The embedder's answer has a vector of zeros or not finite numbers.", embedder=spec.id)
