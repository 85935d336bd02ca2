"""Chroma: one persistent collection; it finds substrings, but has no ranked full text."""

import importlib
from collections.abc import Sequence
from pathlib import Path

from tests.bench.peers.load import Cut


class Chroma:
    def __init__(self, directory: Path) -> None:
        client = importlib.import_module("chromadb").PersistentClient(str(directory))
        self._collection = client.create_collection("chunks", embedding_function=None)

    def add(self, batch: Sequence[Cut]) -> None:
        self._collection.add(
            ids=[f"{cut.name}-{unit.index}" for cut in batch for unit in cut.units],
            documents=[unit.text for cut in batch for unit in cut.units],
            embeddings=[vector for cut in batch for vector in cut.vectors],
        )

    def finish(self) -> None:
        """Searchable at once."""

    def count(self) -> int:
        return int(self._collection.count())


open = Chroma  # noqa: A001 - the name that `load` asks every store for
