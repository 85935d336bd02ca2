"""The index of one base: every call leases a connection, does one transaction, and speaks our errors."""

import logging
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import apsw
import numpy as np

from knowledge.errors import DimensionMismatch, IndexCorrupt, IndexFault, KnowledgeError
from knowledge.model.documents import Material, Vector
from knowledge.pipeline.vectorstore.port import IndexCounts, LaneHit, StoredUnit
from knowledge.pipeline.vectorstore.sqlite import lexical, mark, nearest, passages
from knowledge.pipeline.vectorstore.sqlite.code_cache import CodeCache
from knowledge.pipeline.vectorstore.sqlite.codes import unit_rows
from knowledge.pipeline.vectorstore.sqlite.connection import Connections, one_row, reading, writing
from knowledge.pipeline.vectorstore.sqlite.faults import translated
from knowledge.pipeline.vectorstore.sqlite.prepare import prepare
from knowledge.pipeline.vectorstore.sqlite.process import PerProcess
from knowledge.pipeline.vectorstore.sqlite.reclaim import reclaim
from knowledge.pipeline.vectorstore.sqlite.schema import mount
from knowledge.pipeline.vectorstore.sqlite.writer import Writer

log = logging.getLogger(__name__)

_KNOWN: Final = "SELECT hash FROM body WHERE hash = ? AND EXISTS (SELECT 1 FROM vector WHERE vector.id = body.id)"

DELETE_BATCH: Final = 250  #: materials a transaction; whoever writes holds the base lock for longer than that anyway


class SqliteIndexStore:
    """An `IndexStore` in one file. Usable from any thread, by several processes at once, and on either side of a fork."""

    def __init__(self, path: Path, base_id: str, dimensions: int | None, *, busy_timeout_seconds: float) -> None:
        self.path = path
        self.base_id = base_id
        self.dimensions = dimensions
        prepare_connection = partial(mount, base_id=base_id, dimensions=dimensions)
        self._connections = Connections(path, busy_timeout_seconds, prepare_connection)
        self._memory = PerProcess(partial(_Memory, dimensions))

    def mount(self) -> None:
        """Open the file and check that it is this base's."""
        with translated(self.base_id), self._connections.lease():
            pass

    def known_hashes(self, hashes: Collection[str]) -> frozenset[str]:
        if self.dimensions is None:
            return frozenset()
        keys = ((bytes.fromhex(text_hash),) for text_hash in set(hashes))
        with self._snapshot() as connection:
            return frozenset(key.hex() for (key,) in connection.executemany(_KNOWN, keys))

    def rebuild_material(self, material: Material) -> None:
        self.rebuild_materials([material])

    def rebuild_materials(self, materials: Iterable[Material]) -> None:
        prepared = prepare(materials, self.base_id, self.dimensions)
        if prepared.materials:
            with self._transaction() as writer:
                writer.replace(prepared)

    def delete_materials(self, item_ids: Collection[str]) -> int:
        wanted = sorted(set(item_ids))
        removed = 0
        for start in range(0, len(wanted), DELETE_BATCH):
            with self._transaction() as writer:
                removed += writer.remove(wanted[start : start + DELETE_BATCH])
        return removed

    def lexical(self, query: str, limit: int) -> list[LaneHit]:
        with self._snapshot() as connection:
            found = lexical.search(connection, self._memory().term_counts, query, limit)
            return passages.hits(connection, found, limit)

    def nearest(self, vector: Vector, limit: int) -> list[LaneHit]:
        query = self._unit_query(vector)
        if query is None or limit <= 0:
            return []
        # The lock comes first: the snapshot taken inside it is never older than what the codes already show.
        with self._memory().codes() as cache, self._snapshot() as connection:
            live = cache.refresh(connection)
            small = live <= max(nearest.SCAN_ALL_UP_TO, limit)
            best = nearest.scan_all(connection, query, limit) if small else nearest.search(connection, cache, query, limit)
            return passages.hits(connection, best.ranked(), limit)

    def fetch(self, unit_ids: Sequence[str]) -> dict[str, StoredUnit]:
        with self._snapshot() as connection:
            return passages.fetch(connection, unit_ids)

    def units(self, item_id: str) -> Iterator[StoredUnit]:
        with self._snapshot() as connection:
            return iter(passages.units(connection, item_id))

    def content(self, item_id: str) -> str | None:
        with self._snapshot() as connection:
            return passages.content(connection, item_id)

    def item_ids(self) -> Iterator[str]:
        with self._snapshot() as connection:
            return iter([item_id for (item_id,) in connection.execute("SELECT item_id FROM material ORDER BY item_id")])

    def counts(self) -> IndexCounts:
        tables = ("material", "unit", "vector", "content")
        with self._snapshot() as connection:
            # The names are those above, not anyone's input.
            return IndexCounts(*(one_row(connection, f"SELECT count(*) FROM {table}")[0] for table in tables))  # noqa: S608

    def reclaim(self, *, whole: bool = False) -> None:
        try:
            with translated(self.base_id), self._connections.lease() as connection:
                reclaim(connection, self.base_id, self.dimensions, whole=whole)
        except IndexCorrupt as error:
            log.error("index is damaged", extra={"base": self.base_id, "reason": error.details.get("reason")})
        except KnowledgeError as error:
            log.warning("index space not given back", extra={"base": self.base_id, "reason": error.details.get("reason")})

    def rest(self) -> None:
        """Give up idle connections and everything kept in memory; the next call takes them up again."""
        self._connections.rest()
        self._memory.replace()

    def is_to_wipe(self) -> bool:
        with translated(self.base_id), self._connections.lease() as connection:
            return mark.found(connection) != 0

    def close(self) -> None:
        self._connections.close()
        self._memory.replace()

    @contextmanager
    def _snapshot(self) -> Iterator[apsw.Connection]:
        """One consistent view for all reads of a call."""
        with translated(self.base_id), self._connections.lease() as connection, reading(connection):
            yield connection

    @contextmanager
    def _transaction(self) -> Iterator[Writer]:
        with translated(self.base_id), self._connections.lease() as connection, writing(connection):
            yield Writer(connection, self.base_id, self.dimensions)

    def _unit_query(self, vector: Vector) -> Vector | None:
        """The question's vector with length 1; None if it has no direction."""
        if self.dimensions is None:
            raise IndexFault("This base has no embedder, so it holds no vectors.", base_id=self.base_id)
        if vector.shape != (self.dimensions,):
            raise DimensionMismatch(base_id=self.base_id, expected=self.dimensions, found=list(vector.shape))
        units, usable = unit_rows(np.asarray(vector, np.float32)[None])
        return units[0] if usable[0] else None


class _Memory:
    """What a process remembers of a base between calls. Only `codes` is used under a lock."""

    def __init__(self, dimensions: int | None) -> None:
        self.term_counts = lexical.TermCounts()
        self._lock = threading.Lock()
        self._cache = CodeCache(dimensions) if dimensions is not None else None

    @contextmanager
    def codes(self) -> Iterator[CodeCache]:
        with ExitStack() as stack:
            stack.enter_context(self._lock)
            if self._cache is None:
                raise IndexFault("This base has no embedder, so it holds no vectors.")
            yield self._cache
