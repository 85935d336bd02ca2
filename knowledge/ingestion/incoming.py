"""What an add brings: inputs of callers, and roots of another base that is being restored, in one shape."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import urlsplit

from knowledge.db.columns import utc_now
from knowledge.errors import InvalidInput, PathNotFound, PathUnreadable, SourceFault
from knowledge.files.reach import ANYWHERE, Reach
from knowledge.ingestion import origin, readable
from knowledge.model.inputs import DirectoryInput, FileInput, ItemInput, NoteInput, SitemapInput, UrlInput
from knowledge.model.item_data import DataKey
from knowledge.model.names import folded, numbered, safe_name
from knowledge.model.status import CONTAINERS, ItemStatus, ItemType
from knowledge.model.urls import host_of, normal_url
from knowledge.model.views import Base
from knowledge.pipeline.sources import note
from knowledge.pipeline.sources.archive import is_archive
from knowledge.pipeline.sources.directory import shown
from knowledge.pipeline.sources.ignore import require_patterns
from knowledge.runtime import Runtime

BY_ADDRESS: Final = frozenset({ItemType.URL, ItemType.SITEMAP})


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
    converted_at: Path | None = None  #: Markdown of an earlier conversion of these bytes, to be indexed in their place

    @classmethod
    def of(cls, rt: Runtime, one: ItemInput) -> "Incoming":
        """What a caller hands in.

        Raises:
            PathNotFound, PathUnreadable, PathNotAllowed: it is another one than a moment ago, when it was checked.
        """
        match one:
            case FileInput():
                path = one.path.absolute()
                name, data = safe_name(path.name), origin.data_of(path, confined=rt.reach.is_confined)
                with _pinned(rt, path) as place:
                    is_container = is_archive(place, name)
                if is_container:  # like a folder, it is read when its turn comes
                    return cls(ItemType.ARCHIVE, shown(str(path)), name, data=data)
                return cls(ItemType.FILE, shown(str(path)), name, bytes_at=path, reach=rt.reach, data=data)
            case DirectoryInput():
                path = one.path.absolute()
                data = origin.data_of(path, confined=rt.reach.is_confined)
                patterns = {DataKey.INCLUDE: one.include, DataKey.EXCLUDE: one.exclude}
                data |= {key: list(kept) for key, kept in patterns.items() if kept}
                return cls(ItemType.DIRECTORY, shown(str(path)), directory_name(str(path)), data=data)
            case NoteInput():
                return cls.note(one.source, one.content)
            case UrlInput():
                return cls.page(one.url)
            case SitemapInput():
                url = normal_url(one.url)
                return cls(ItemType.SITEMAP, url, sitemap_name(url))

    @classmethod
    def note(cls, source: str, content: str) -> "Incoming":
        snapshot = note.snapshot(source, content, utc_now())
        name = numbered(f"{note.stem(source)}.md", 0)  # cut again: 80 characters can be more than a name may have bytes
        return cls(ItemType.NOTE, source, name, text=snapshot, data={DataKey.CONTENT: content})

    @classmethod
    def page(cls, url: str) -> "Incoming":
        """Raises `InvalidUrl`."""
        url = normal_url(url)
        return cls(ItemType.URL, url, url)

    @property
    def key(self) -> tuple[ItemType, str]:
        """Roots with one key are in each other's way: one name, or for what is behind an address one address."""
        return self.type, self.source if self.type in BY_ADDRESS else folded(self.name)

    @property
    def is_named_later(self) -> bool:
        """Whether it gets its name when it is fetched."""
        return self.type is ItemType.URL and self.bytes_at is None and self.text is None

    @property
    def status(self) -> ItemStatus:
        return ItemStatus.PREPARING if self.type in CONTAINERS else ItemStatus.PROCESSING


def sitemap_name(url: str) -> str:
    """What the folder of its pages is called."""
    last = PurePosixPath(urlsplit(url).path).stem
    host = host_of(url)
    return safe_name(host if last in ("", "sitemap", "sitemap_index") else f"{host}-{last}", fallback="sitemap")


def directory_name(source: str) -> str:
    return safe_name(PurePosixPath(source).name, fallback="root")


def check(rt: Runtime, base: Base, one: ItemInput) -> None:
    """Refuse what can be seen to fail, before anything is copied.

    Raises:
        PathNotFound, PathUnreadable, PathNotAllowed, InvalidInput, InvalidUrl, UnsupportedSource, BinarySource
    """
    if isinstance(one, NoteInput):
        return
    if isinstance(one, UrlInput | SitemapInput):
        normal_url(one.url)
        return
    if isinstance(one, DirectoryInput):
        require_patterns("include", one.include)
        require_patterns("exclude", one.exclude)
    path = one.path.absolute()
    label = shown(str(path))
    with _pinned(rt, path) as place:
        is_kind = place.is_file() if isinstance(one, FileInput) else place.is_dir()
        if not is_kind and not place.exists():
            raise PathNotFound(path=label)
        if not is_kind:
            raise InvalidInput(f"This is not a {one.type}.", path=label)
        if not os.access(place, os.R_OK if isinstance(one, FileInput) else os.R_OK | os.X_OK):
            raise PathUnreadable(path=label)
        if rt.files.holds(path):
            raise InvalidInput("This path belongs to Knowledge itself: it lies in the data directory.", path=label)
        if isinstance(one, FileInput):
            try:
                readable.require(rt, base, place, path.name)
            except SourceFault as error:  # which of the many that were handed in
                error.details = {"path": label, **error.details}
                raise


@contextmanager
def _pinned(rt: Runtime, path: Path) -> Iterator[Path]:
    """Where to look at what lies at a path; for a confined caller it stays the file that was judged.

    Raises:
        PathNotFound, PathUnreadable, PathNotAllowed: it cannot be opened, or the system refuses the look.
    """
    if "\0" in str(path):
        raise PathNotFound(path=shown(str(path)))
    try:
        with rt.reach.pinned(path, rt.files.holds) as place:
            yield place
    except (FileNotFoundError, NotADirectoryError) as error:
        raise PathNotFound(path=shown(str(path))) from error
    except OSError as error:  # a name too long, a loop of links, no right to look
        raise PathUnreadable(path=shown(str(path)), reason=os.strerror(error.errno or 0)) from error
