"""What a container holds: one protocol for folders, archives and sitemaps, so that one flow expands them all.

`ingestion.prepare` asks a container for its children and makes rows, jobs and stored bytes of them, batch by batch; after a
reindex it brings the rows that are there in step with what is found. It knows nothing of where children come from.

To add a kind of container:

1. its `ItemType` in `model.status.CONTAINERS`, an input in `model.inputs`, and the input's case in `ingestion.incoming`;
2. a class with `scan`, in this folder, that obeys the rules below;
3. its line in `ingestion.expansion.children_of`, and what `ingestion.reindex.probe` answers for it.

What the flow relies on:

*Order.* Any, but `Left` says that a folder is done with: then it need not be remembered. Two scans of an unchanged source give
the same children; memory does not grow with their number.

*Completeness.* A row vanishes only if its own folder was seen completely in this scan. Whatever could not be looked at is told
as `Skipped` with `UNREADABLE` (or as `Broken`): nothing that is at or below its `relative` is removed. `relative=""` is the
container itself: with it, nothing at all is removed. A folder that did not stay in its place while it was read is `Partial`.
If the source cannot be read at all, or became another one meanwhile, `scan` raises instead, also at its end; the container
fails with that error and keeps what it has.

*Identity.* `key` tells a child from all others of its container and is the same in each scan; the child's row gives the same
key (`key_of`). It is made of the child's source and of `data`, never of where it is stored.

*Bytes.* `content` is read when the child comes, once, before the scan goes on. None: there are no bytes yet; the job that
indexes the child fetches them.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from knowledge.errors import KnowledgeError
from knowledge.model.documents import Checkpoint
from knowledge.model.item_data import DataKey
from knowledge.model.skip_reason import SkipReason
from knowledge.model.status import ItemType

Opener = Callable[[], AbstractContextManager[IO[bytes]]]
Pinned = Callable[[Path], AbstractContextManager[Path]]
"""(path) -> the path to look at and read from. For a caller who may not have every file read it leads to the file that was
judged, whatever lies at `path` by now."""


@dataclass(frozen=True, slots=True)
class Child:
    """One leaf: a file to copy in, or a page to fetch later."""

    type: ItemType  #: FILE or URL
    relative: str  #: below the container, parts joined by "/"; for people, so bytes that are no text appear as U+FFFD
    source: str  #: where it came from, as a person knows it
    content: Path | Opener | None  #: a file to copy, a stream to read, or None: fetched when it is indexed
    size: int | None = None  #: bytes, if known
    stamp: str | None = None  #: another one when its bytes have changed; None where only the bytes themselves tell
    data: Mapping[str, object] = field(default_factory=dict)  #: kept on its row

    @property
    def key(self) -> str:
        return key_of(self.source, self.data)


@dataclass(frozen=True, slots=True)
class Folder:
    """A container below the container is entered. What is not announced, but lies in a child's `relative`, is a directory.

    It gets a row when the first child in it does.
    """

    relative: str
    type: ItemType = ItemType.DIRECTORY  #: or ARCHIVE
    data: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Left:
    """A folder is done with: nothing at or below it comes any more. What is never left is done with at the end."""

    relative: str


@dataclass(frozen=True, slots=True)
class Broken:
    """A container below the container that could not be read, or not to its end: it gets a row that says why.

    Nothing below it is removed.
    """

    relative: str
    type: ItemType
    error: KnowledgeError
    data: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Skipped:
    """One entry left out; `is_directory` says that everything below it is left out as well."""

    relative: str
    reason: SkipReason
    is_directory: bool = False
    source: str | None = None  #: of the row it may have, if that is not the container's source, a slash, and `relative`


@dataclass(frozen=True, slots=True)
class Partial:
    """Not all of a folder is told of, as of a feed that names its latest entries, or a folder that was moved while it was read:
    nothing in it has vanished.
    """

    relative: str


Entry = Child | Folder | Left | Broken | Skipped | Partial


class Children(Protocol):
    """What a container's source holds now."""

    def scan(self, checkpoint: Checkpoint) -> Generator[Entry, None, None]:
        """Everything below the container, lazily; closed when its caller stops early.

        Args:
            checkpoint: called before each entry and before anything that takes long.

        Raises:
            KnowledgeError: the container itself cannot be read; nothing is known of its children.
        """
        ...


def key_of(source: str, data: Mapping[str, object]) -> str:
    """What tells a child from all others of its container; a NUL is in no path and in no address."""
    place = data.get(DataKey.PATH_BYTES)
    occurrence = data.get(DataKey.OCCURRENCE, 1)
    return f"{source}\0{occurrence}" if place is None else f"{place}\0{occurrence}\0"
