"""What an index store is: the rebuildable projection of one base. Two implementations, one contract suite."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from knowledge.model.documents import Material, Unit, Vector


@dataclass(frozen=True, slots=True)
class LaneHit:
    """One unit as one lane ranks it; `score` is comparable inside the lane only (higher is better)."""

    unit_id: str
    item_id: str
    score: float


@dataclass(frozen=True, slots=True)
class StoredUnit:
    unit_id: str
    item_id: str
    path: str  #: concept id of its material
    unit: Unit


@dataclass(frozen=True, slots=True)
class IndexCounts:
    materials: int
    units: int
    vectors: int
    contents: int


class IndexStore(Protocol):
    """The index of one base. Writers hold the base lock; readers need none.

    Every method raises `IndexFault` (or a kind of it), `StorageFull`, `StorageFailed`, `DatabaseBusy`, or `Unavailable` if the
    store was closed during the call; never a driver's own error. What makes no sense when it is read is `IndexCorrupt`.
    """

    def known_hashes(self, hashes: Collection[str]) -> frozenset[str]:
        """Those text hashes that have a stored vector."""
        ...

    def rebuild_material(self, material: Material) -> None:
        """Replace everything the index holds of one leaf, in one transaction; idempotent.

        Unchanged texts keep their vectors. Vectors and contents that nothing uses any more are removed.

        Raises:
            IndexFault: a unit whose text is not the slice at its offsets, a duplicate unit index, a unit without a vector in a
                base with an embedder (or with one in a base without); the old material stays as it was.
            DimensionMismatch: a vector of another width.
        """
        ...

    def rebuild_materials(self, materials: Iterable[Material]) -> None:
        """The same for several leaves in one transaction."""
        ...

    def delete_materials(self, item_ids: Collection[str]) -> int:
        """Remove these leaves; unknown ids are no error. Returns how many were there."""
        ...

    def lexical(self, query: str, limit: int) -> list[LaneHit]:
        """Units that share words with the query, best first; empty if the query holds no searchable token."""
        ...

    def nearest(self, vector: Vector, limit: int) -> list[LaneHit]:
        """Units by cosine similarity to the vector, best first, exact scores in [-1, 1]."""
        ...

    def fetch(self, unit_ids: Sequence[str]) -> dict[str, StoredUnit]:
        """Texts and places of these units; absent ones are left out."""
        ...

    def units(self, item_id: str) -> Iterator[StoredUnit]:
        """The units of one leaf in index order."""
        ...

    def content(self, item_id: str) -> str | None:
        """The whole text of one leaf, or None if the index has none."""
        ...

    def item_ids(self) -> Iterator[str]:
        """Every leaf that has material."""
        ...

    def counts(self) -> IndexCounts: ...

    def reclaim(self, *, whole: bool = False) -> None:
        """Wipe what was taken out, and give free space back; never fails the caller.

        Of a large index a little may stay in places that only rewriting it reaches; `whole` is for callers with time for that.
        A very large one is not rewritten for it.
        """
        ...

    def is_to_wipe(self) -> bool:
        """Whether text was taken out that may still be found in the file or its log."""
        ...

    def close(self) -> None: ...


class IndexStores(Protocol):
    """Opens the index of a base."""

    def create(self, base_id: str, dimensions: int | None) -> IndexStore:
        """The store of a new base, whole or, after an error, not at all; creating what is there already changes nothing."""
        ...

    def blank(self, base_id: str, dimensions: int | None) -> AbstractContextManager[Callable[[], None]]:
        """A blank index beside whatever there is, and how to put it in that one's place, which needs no further room.

        Raises:
            StorageFull, StorageFailed, IndexFault: it cannot be made; nothing has changed.
        """
        ...

    def open(self, base_id: str, dimensions: int | None) -> IndexStore:
        """The store of an existing base; cached in this process.

        Raises:
            IndexCorrupt: it is gone, blank, of an older layout, or damaged, as far as opening shows. Whoever made it blank
                would hide that everything in it is lost.
            IndexMismatch, DimensionMismatch: it is another one; it is left as it is.
            StorageFailed: it cannot be looked at, which says nothing about what it holds.
        """
        ...

    def is_sound(self, base_id: str, dimensions: int | None) -> bool:
        """Whether everything in it can be read and agrees. Reads all of it, so it is asked after a fault, under the base lock.

        Raises:
            IndexMismatch, DimensionMismatch, StorageFailed, StorageFull, DatabaseBusy
        """
        ...

    def exists(self, base_id: str) -> bool:
        """Whether it is there. Raises `StorageFailed`: that cannot be told."""
        ...

    def drop(self, base_id: str) -> None:
        """Close and remove the index; absent is fine."""
        ...

    def close(self) -> None:
        """Close every store this process has open."""
        ...
