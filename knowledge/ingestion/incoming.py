"""What an add brings: inputs of callers, and roots of another base that is being restored, in one shape."""

import os
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from knowledge.db.columns import utc_now
from knowledge.errors import InvalidInput, PathNotFound, PathUnreadable, SourceFault
from knowledge.files.reach import ANYWHERE, Reach
from knowledge.ingestion import origin
from knowledge.model.inputs import FileInput, ItemInput, NoteInput
from knowledge.model.names import folded, numbered, safe_name
from knowledge.model.status import ItemStatus, ItemType
from knowledge.pipeline.sources import note
from knowledge.pipeline.sources.directory import shown
from knowledge.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Incoming:
    """One root to be."""

    type: ItemType
    source: str  #: where it came from, as the person knows it
    name: str  #: wanted top-level name below raw/, safe for every disk
    bytes_at: Path | None = None  #: a file to copy in before the row is committed
    reach: Reach = ANYWHERE  #: within which that file must lie
    text: str | None = None  #: or a snapshot to write
    data: dict[str, object] = field(default_factory=dict)

    @classmethod
    def of(cls, one: ItemInput, reach: Reach) -> "Incoming":
        """What a caller of this reach hands in."""
        if isinstance(one, NoteInput):
            return cls.note(one.source, one.content)
        path = one.path.absolute()
        data = origin.data_of(path, confined=reach.is_confined)
        if isinstance(one, FileInput):
            return cls(ItemType.FILE, shown(str(path)), safe_name(path.name), bytes_at=path, reach=reach, data=data)
        return cls(ItemType.DIRECTORY, shown(str(path)), directory_name(str(path)), data=data)

    @classmethod
    def note(cls, source: str, content: str) -> "Incoming":
        snapshot = note.snapshot(source, content, utc_now())
        name = numbered(f"{note.stem(source)}.md", 0)  # cut again: 80 characters can be more than a name may have bytes
        return cls(ItemType.NOTE, source, name, text=snapshot, data={"content": content})

    @property
    def key(self) -> tuple[ItemType, str]:
        """Roots with one key are in each other's way."""
        return self.type, folded(self.name)

    @property
    def status(self) -> ItemStatus:
        return ItemStatus.PREPARING if self.type is ItemType.DIRECTORY else ItemStatus.PROCESSING


def directory_name(source: str) -> str:
    return safe_name(PurePosixPath(source).name, fallback="root")


def check(rt: Runtime, one: ItemInput) -> None:
    """Refuse what can be seen to fail, before anything is copied.

    Raises:
        PathNotFound, PathUnreadable, InvalidInput, UnsupportedSource, BinarySource
    """
    if isinstance(one, NoteInput):
        return
    path = one.path.absolute()
    label = shown(str(path))
    try:
        is_kind = path.is_file() if isinstance(one, FileInput) else path.is_dir()
        if not is_kind and not path.exists():
            raise PathNotFound(path=label)
    except OSError as error:  # a name too long, a loop of links, no right to look
        raise PathUnreadable(path=label, reason=os.strerror(error.errno or 0)) from error
    except ValueError as error:  # a NUL in the name
        raise PathNotFound(path=label) from error
    if not is_kind:
        raise InvalidInput(f"This is not a {one.type}.", path=label)
    if not os.access(path, os.R_OK if isinstance(one, FileInput) else os.R_OK | os.X_OK):
        raise PathUnreadable(path=label)
    if rt.files.holds(path):
        raise InvalidInput("This path belongs to Knowledge itself: it lies in the data directory.", path=label)
    if isinstance(one, FileInput):
        try:
            rt.readers.require_reader(path, path.name)
        except SourceFault as error:  # which of the many that were handed in
            error.details = {"path": label, **error.details}
            raise
