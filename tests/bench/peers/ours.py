"""The project's own index store, as a job uses it."""

from collections.abc import Sequence
from pathlib import Path

from knowledge.model.documents import Material
from knowledge.pipeline.vectorstore.sqlite import SqliteIndexStores
from tests.bench.peers.load import DIMENSIONS, Cut


class Ours:
    def __init__(self, directory: Path) -> None:
        stores = SqliteIndexStores(lambda base_id: directory / base_id / "index.sqlite", busy_timeout_seconds=30)
        self._store = stores.create("bench", DIMENSIONS)

    def add(self, batch: Sequence[Cut]) -> None:
        self._store.rebuild_materials([_material(cut) for cut in batch])

    def finish(self) -> None:
        """Each transaction leaves nothing to do."""

    def count(self) -> int:
        return self._store.counts().units


def _material(cut: Cut) -> Material:
    vectors = {unit.text_hash: vector for unit, vector in zip(cut.units, cut.vectors, strict=True)}
    return Material(cut.name, f"{cut.name}.txt", cut.text, cut.units, vectors)


open = Ours  # noqa: A001 - the name that `load` asks every store for
