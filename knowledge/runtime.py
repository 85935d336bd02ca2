"""Runtime: the ports and values that every domain function gets as `rt`. Built by a composition root, frozen afterwards."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from knowledge.catalog.embeddings import EmbeddingCache
from knowledge.db.engine import Database
from knowledge.dispatch import Dispatch
from knowledge.errors import DimensionMismatch
from knowledge.files.reach import ANYWHERE, Reach
from knowledge.files.store import RawFiles
from knowledge.locks.port import Locks
from knowledge.model.documents import EmbedderSpec
from knowledge.model.views import Base
from knowledge.pipeline.conversion.registry import Processors
from knowledge.pipeline.indexing.embedder import Embedder
from knowledge.pipeline.indexing.registry import Embedders
from knowledge.pipeline.readers.registry import ReaderRegistry
from knowledge.pipeline.sources.url import Web
from knowledge.pipeline.vectorstore.port import IndexStore, IndexStores


@dataclass(frozen=True, slots=True)
class Options:
    """Times in seconds."""

    lease_seconds: float = 60.0
    stall_seconds: float = 600.0  #: without a checkpoint
    settle_seconds: float = 30.0  #: how long a cancelled job may take to stop before its lease is revoked
    republish_seconds: float = 30.0  #: a message not claimed for so long, with its queue empty, was lost
    base_concurrency: int = 5  #: jobs of one base in flight
    hanging_at_once: int = 1  #: jobs that may ask what has not answered in time: one process less than there are
    conversion_seconds: float = 1800.0  #: how long the conversion of one item may take
    conversion_poll_seconds: float = 5.0  #: between two looks at a conversion
    import_roots: tuple[Path, ...] = ()  #: real paths of the folders that clients may import from


@dataclass(frozen=True, slots=True)
class Runtime:
    db: Database
    files: RawFiles
    locks: Locks
    indexes: IndexStores
    readers: ReaderRegistry
    embedders: Embedders
    cache: EmbeddingCache
    dispatch: Dispatch
    options: Options
    processors: Processors = field(default_factory=Processors)
    web: Web = field(default_factory=Web.plain)
    reach: Reach = ANYWHERE  #: whose files the caller may have read

    def confined(self) -> "Runtime":
        """The same for a caller who need not be the owner of this host's files."""
        return replace(self, reach=Reach(self.options.import_roots))

    def index(self, base: Base) -> IndexStore:
        return self.indexes.open(base.id, base.dimensions)

    def embedder(self, base: Base) -> Embedder | None:
        """The base's embedder, None if it has none.

        Raises:
            ModelNotFound: the model is no longer declared. DimensionMismatch: it is declared with another width.
        """
        spec = self.require_embedder(base)
        return None if spec is None else self.embedders.open(spec.id)

    def require_embedder(self, base: Base) -> EmbedderSpec | None:
        """The same without opening it."""
        if base.embedder is None:
            return None
        spec = self.embedders.spec(base.embedder)
        if spec.dimensions != base.dimensions:
            raise DimensionMismatch(base_id=base.id, model=spec.id, declared=spec.dimensions, base=base.dimensions)
        return spec

    def close(self) -> None:
        self.indexes.close()
        self.readers.close()
        self.db.dispose()
