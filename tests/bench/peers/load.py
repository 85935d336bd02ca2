"""Index the same documents into one store, a slice whenever it is asked: `python -m tests.bench.peers.load STORE PER COUNT`.

Prints `ready`; then, for each line it reads, the seconds that the next slice took, and at last those of what is left to do.
Runs in the environment of the store. Cutting and embedding are the project's own and the same for all, and inside the clock;
imports, making the documents and opening the empty store are not.
"""

import importlib
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from knowledge.model.documents import Document, EmbedderSpec, Unit, Vectors
from knowledge.pipeline.indexing import chunker
from knowledge.pipeline.indexing.hashing_embedder import HashingEmbedder
from tests.bench.documents import CHUNKING, documents

SEED: Final = 20_240_919
SIZE_BYTES: Final = 2048
DIMENSIONS: Final = 384
SLICES: Final = 20


@dataclass(frozen=True, slots=True)
class Cut:
    """One document in pieces. `vectors`: float32, shape (len(units), DIMENSIONS)."""

    name: str
    text: str
    units: Sequence[Unit]
    vectors: Vectors


class Store(Protocol):
    """A store module's `open(directory)` gives one that is empty and ready."""

    def add(self, batch: Sequence[Cut]) -> None:
        """Store these documents; they survive the end of the process when this returns."""
        ...

    def finish(self) -> None:
        """Whatever is missing until words and vectors can be searched."""
        ...

    def count(self) -> int:
        """Chunks stored."""
        ...


class Load:
    """All documents into one store, in slices of equal length."""

    def __init__(self, store: Store, texts: Sequence[str], per: int) -> None:
        self._store = store
        self._texts = texts
        self._per = per
        self._done = 0
        self._stored = 0
        self._embedder = HashingEmbedder(EmbedderSpec(id="bench", kind="hashing", dimensions=DIMENSIONS))

    def slice(self) -> float:
        """Seconds for the next slice."""
        start = time.perf_counter()
        end = self._done + len(self._texts) // SLICES
        for first in range(self._done, end, self._per):
            self._add(first, self._texts[first : min(first + self._per, end)])
        self._done = end
        return time.perf_counter() - start

    def finish(self) -> float:
        """Seconds for what is left to do when all documents are in."""
        start = time.perf_counter()
        self._store.finish()
        seconds = time.perf_counter() - start
        assert self._store.count() == self._stored, f"{self._store.count()} chunks are stored instead of {self._stored}"
        return seconds

    def _add(self, first: int, texts: Sequence[str]) -> None:
        chunked = [chunker.split([Document(text)], CHUNKING) for text in texts]
        flat = [unit.text for chunks in chunked for unit in chunks.units]
        vectors = np.concatenate([answer.vectors for answer in self._embedder.embed(flat)])
        ends = np.cumsum([len(chunks.units) for chunks in chunked])
        self._store.add(
            [
                Cut(f"document{first + place}", chunks.text, chunks.units, vectors[end - len(chunks.units) : end])
                for place, (chunks, end) in enumerate(zip(chunked, ends, strict=True))
            ]
        )
        self._stored += len(flat)


def main(name: str, per: str, count: str) -> None:
    module = importlib.import_module(f"tests.bench.peers.{name}")
    texts = documents(int(count), size_bytes=SIZE_BYTES, seed=SEED)
    with tempfile.TemporaryDirectory(prefix="knowledge-bench-") as directory:
        load = Load(module.open(Path(directory)), texts, int(per))
        steps = [load.slice] * SLICES + [load.finish]
        print("ready", flush=True)
        for step in steps:
            if not sys.stdin.readline():  # whoever asked is gone
                return
            print(step(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
