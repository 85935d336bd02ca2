"""The files inside a zip or tar archive, as children of the archive.

An archive inside the archive is a container of its own. Names that try to leave the archive are made plain by `members`; links
and devices are told and not opened. One budget holds for the archive with all that is packed inside it.

Ignore files inside an archive mean nothing: it is read in one pass, and they may come after what they speak of.
"""

import os
import shutil
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, BinaryIO, Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

from knowledge.errors import (
    EncryptedSource,
    PathNotAllowed,
    PathNotFound,
    PathUnreadable,
    ReaderBudgetExceeded,
    SourceFault,
    StorageFull,
)
from knowledge.model.budget import Budget, Meter, most_inflated_bytes
from knowledge.model.documents import Checkpoint
from knowledge.model.item_data import DataKey
from knowledge.model.names import safe_name
from knowledge.model.skip_reason import SkipReason
from knowledge.model.status import ItemType
from knowledge.pipeline.readers.archive import ARCHIVES, Member, MemberFault, members
from knowledge.pipeline.readers.media_type import ARCHIVE_SUFFIXES, detect
from knowledge.pipeline.sources.children import Broken, Child, Entry, Folder, Left, Opener, Pinned, Skipped
from knowledge.pipeline.sources.directory import Accepts, shown, stamp_of
from knowledge.pipeline.sources.ignore import Selection
from knowledge.pipeline.tooling import is_tool_file, is_tool_folder

MAX_INFLATED_BYTES: Final = 8 << 30  #: of all that is packed in one archive
MAX_ENTRIES: Final = 200_000
MAX_DEPTH: Final = 4  #: the archive itself, and three levels inside it

_HEAD_BYTES: Final = 8_000  #: enough to tell text from binary data
_FAULTS: Final = {
    MemberFault.ENCRYPTED: SkipReason.ENCRYPTED,
    MemberFault.LINK: SkipReason.SYMLINK,
    MemberFault.SPECIAL: SkipReason.SPECIAL,
}


def is_archive(path: Path, name: str) -> bool:
    """Whether the bytes of a file are an archive whose members are read one by one; office documents are none."""
    try:
        return detect(path, name) in ARCHIVES
    except SourceFault:
        return False


def member_of(data: Mapping[str, object]) -> tuple[Path, str] | None:
    """The archive on disk that a row's bytes come from, and where they lie in it; None for what comes from no archive."""
    archive, member = data.get(DataKey.ARCHIVE), data.get(DataKey.MEMBER)
    if not isinstance(archive, str) or not isinstance(member, str):
        return None
    return Path(os.fsdecode(unquote_to_bytes(archive))), member


@dataclass(frozen=True, slots=True)
class ArchiveChildren:
    """The files in the archive at `path`, or those at and below one place in it.

    Args:
        source: the archive, or the place in it, as its item shows it.
        accepts: see `directory.DirectoryChildren`; it is given a file with the first bytes of the member.
        place: below what the children lie; empty for the archive itself.
        pinned: gives the path to read the bytes of `path` from.
        prefix: stands before the `relative` of each entry, with a closing slash; for an archive that lies in a folder.
    """

    path: Path
    source: str
    accepts: Accepts
    place: str = ""
    prefix: str = ""
    selection: Selection = field(default_factory=Selection)
    pinned: Pinned = nullcontext

    def scan(self, checkpoint: Checkpoint) -> Generator[Entry, None, None]:
        """Every file, in the order of the archive, read in one pass.

        A member that cannot be read is told, and the rest goes on; an archive inside that is damaged is `Broken`.

        Raises:
            PathNotFound, PathUnreadable, PathNotAllowed: the file is gone, is no plain file, or changed while it was read.
            SourceFault: it is no archive or a damaged one, all of it needs a password, or it is more than the budget allows.
                What was yielded before stays.
        """
        checkpoint()
        with self._readable() as place:
            before = _state(place)
            walk = _Walk(self, place, Meter(_budget(before.st_size)), checkpoint, stamp_of(before))
            yield from walk.entries()
            after = _state(place)
        if _version(before) != _version(after):
            raise PathUnreadable("This archive changed while it was being read; try again.", path=shown(str(self.path)))

    @contextmanager
    def _readable(self) -> Iterator[Path]:
        with ExitStack() as stack:
            try:
                place = stack.enter_context(self.pinned(self.path))
            except OSError as error:
                raise _unreadable(self.path, error) from error
            yield place


def inside(
    child: Child, accepts: Accepts, selection: Selection, checkpoint: Checkpoint, pinned: Pinned = nullcontext
) -> Iterator[Entry] | None:
    """The entries of an archive that lies in a folder, in its place; None if the file is none.

    Raises:
        PathNotAllowed, OSError: as `pinned`.
    """
    if not isinstance(child.content, Path) or Path(child.relative).suffix.lower() not in ARCHIVE_SUFFIXES:
        return None
    with pinned(child.content) as place:
        if not is_archive(place, child.relative):
            return None
    return _nested(
        child, ArchiveChildren(child.content, child.source, accepts, "", f"{child.relative}/", selection, pinned), checkpoint
    )


def _nested(child: Child, children: ArchiveChildren, checkpoint: Checkpoint) -> Iterator[Entry]:
    yield Folder(child.relative, ItemType.ARCHIVE, child.data)
    try:
        yield from children.scan(checkpoint)
    except (SourceFault, PathNotFound, PathUnreadable, PathNotAllowed) as error:  # the other files go on
        yield Broken(child.relative, ItemType.ARCHIVE, error, child.data)
    yield Left(child.relative)


def _state(path: Path) -> os.stat_result:
    try:
        state = path.stat()
    except OSError as error:
        raise _unreadable(path, error) from error
    if not stat.S_ISREG(state.st_mode):
        raise PathUnreadable(path=shown(str(path)), reason="not a plain file")
    return state


def _version(state: os.stat_result) -> tuple[int, ...]:
    return state.st_mtime_ns, state.st_size, state.st_dev, state.st_ino


def _unreadable(path: Path, error: OSError) -> PathNotFound | PathUnreadable:
    kind = PathNotFound if isinstance(error, FileNotFoundError | NotADirectoryError) else PathUnreadable
    return kind(path=shown(str(path)), reason=os.strerror(error.errno or 0))


def _budget(packed_bytes: int) -> Budget:
    """Time is no limit here: the job that expands has its own ways to stop."""
    inflated = min(MAX_INFLATED_BYTES, most_inflated_bytes(packed_bytes))
    return Budget(inflated_bytes=inflated, entries=MAX_ENTRIES, depth=MAX_DEPTH, seconds=float("inf"))


class _Walk:
    """One pass through an archive and those inside it."""

    def __init__(self, asked: ArchiveChildren, place: Path, meter: Meter, checkpoint: Checkpoint, stamp: str) -> None:
        self._asked, self._place, self._meter, self._checkpoint = asked, place, meter, checkpoint
        self._stamp = stamp  # of the archive on disk: while it is the same file, so are its members
        self._archive = quote_from_bytes(os.fsencode(asked.path))
        self._below = f"{asked.place}/" if asked.place else ""
        self._times: Counter[str] = Counter()
        self._told: set[str] = set()  # folders that were announced
        self._has_any = self._has_locked = False

    def entries(self) -> Iterator[Entry]:
        self._meter.enter()
        yield from self._members(self._place, "", self._asked.path.name)
        self._meter.leave()
        if self._has_locked and not self._has_any:
            raise EncryptedSource(path=shown(str(self._asked.path)))

    def _members(self, path: Path, inside: str, name: str) -> Iterator[Entry]:
        """Entries of one archive whose members lie at `inside` (with a closing slash) in the outermost one."""
        for member in members(path, self._meter, name=name):
            self._checkpoint()
            place = inside + member.name
            if place.startswith(self._below) or f"{place}/" == self._below:
                yield from self._member(member, place)
            elif self._below.startswith(f"{place}/"):  # an archive on the way to what is asked for
                yield from self._deeper(member, place)

    def _member(self, member: Member, place: str) -> Iterator[Entry]:
        relative = self._asked.prefix + place.removeprefix(self._below)
        reason = self._reason(member, relative)
        if reason is not None:
            self._has_locked |= reason is SkipReason.ENCRYPTED
            yield Skipped(relative, reason)
            return
        if Path(member.name).suffix.lower() in ARCHIVE_SUFFIXES:
            yield from self._deeper(member, place)
            return
        try:
            with member.open() as stream:
                yield from self._file(stream, relative, place, member.size)
        except EncryptedSource:
            self._has_locked = True
            yield Skipped(relative, SkipReason.ENCRYPTED)
        except ReaderBudgetExceeded:
            raise
        except SourceFault:
            yield Skipped(relative, SkipReason.CORRUPT)
        self._meter.inflate(0)  # whoever read the child may have met the limit

    def _reason(self, member: Member, relative: str) -> SkipReason | None:
        *folders, name = relative.split("/")
        if any(is_tool_folder(folder) for folder in folders):
            return SkipReason.TOOLING
        if any(part.startswith(".") for part in (*folders, name)):
            return SkipReason.HIDDEN
        if is_tool_file(name):
            return SkipReason.TOOLING
        above = ""
        for folder in folders:
            above = f"{above}/{folder}" if above else folder
            if self._asked.selection.leaves_out(above, is_directory=True):
                return SkipReason.EXCLUDED
        if self._asked.selection.leaves_out(relative, is_directory=False):
            return SkipReason.EXCLUDED
        if member.fault is not None:
            return _FAULTS[member.fault]
        return SkipReason.EMPTY if member.size == 0 else None

    def _file(self, stream: BinaryIO, relative: str, place: str, size: int | None) -> Iterator[Entry]:
        """A plain file: its first bytes are looked at, all of them are given."""
        head = _head(stream)
        if not head:
            yield Skipped(relative, SkipReason.EMPTY)
            return
        with tempfile.NamedTemporaryFile(prefix="knowledge-member-") as file:
            file.write(head[:_HEAD_BYTES])
            file.flush()
            reason = self._asked.accepts(safe_name(relative.rpartition("/")[2]), Path(file.name))
        if reason is not None:
            yield Skipped(relative, reason)
            return
        yield from self._announced(relative, place)
        yield self._child(relative, place, lambda: _kept(stream), size)

    def _deeper(self, member: Member, place: str) -> Iterator[Entry]:
        """An archive inside the archive, or a file that is only called like one."""
        relative = self._asked.prefix + place.removeprefix(self._below)
        is_on_the_way = self._below.startswith(f"{place}/")
        data = self._data(place)
        try:
            with member.open() as stream, tempfile.NamedTemporaryFile(prefix="knowledge-archive-") as file:
                _unpack(stream, file)
                path = Path(file.name)
                if not is_archive(path, member.name):
                    if not is_on_the_way:
                        yield from self._plain(path, relative, place)
                    return
                if not is_on_the_way:
                    yield from self._announced(relative, place)
                    self._told.add(relative)
                    yield Folder(relative, ItemType.ARCHIVE, data)
                try:
                    self._meter.enter()
                    yield from self._members(path, f"{place}/", member.name)
                finally:
                    self._meter.leave()
        except EncryptedSource:
            self._has_locked = True
            if is_on_the_way:
                raise
            yield Skipped(relative, SkipReason.ENCRYPTED)
        except SourceFault as error:
            if is_on_the_way or (isinstance(error, ReaderBudgetExceeded) and error.details.get("figure") != "depth"):
                raise
            yield from self._announced(relative, place)
            yield Broken(relative, ItemType.ARCHIVE, error, data)
            self._has_any = True

    def _plain(self, path: Path, relative: str, place: str) -> Iterator[Entry]:
        reason = self._asked.accepts(safe_name(relative.rpartition("/")[2]), path)
        if reason is not None:
            yield Skipped(relative, reason)
            return
        yield from self._announced(relative, place)
        yield self._child(relative, place, lambda: path.open("rb"), path.stat().st_size)

    def _child(self, relative: str, place: str, content: Opener, size: int | None) -> Child:
        self._has_any = True
        self._times[relative] += 1
        times = self._times[relative]
        data = self._data(place) | ({DataKey.OCCURRENCE: times} if times > 1 else {})
        source = f"{self._asked.source}/{relative.removeprefix(self._asked.prefix)}"
        return Child(ItemType.FILE, relative, source, content, size=size, stamp=self._stamp, data=data)

    def _announced(self, relative: str, place: str) -> Iterator[Folder]:
        """The folders above, each once: their rows must know where in the archive they lie."""
        levels = relative.removeprefix(self._asked.prefix).count("/")
        parts, places = relative.split("/"), place.split("/")
        for level in range(levels, 0, -1):
            folder = "/".join(parts[:-level])
            if folder not in self._told:
                self._told.add(folder)
                yield Folder(folder, data=self._data("/".join(places[:-level])))

    def _data(self, place: str) -> dict[str, object]:
        return {DataKey.ARCHIVE: self._archive, DataKey.MEMBER: place}


def _unpack(stream: BinaryIO, file: IO[bytes]) -> None:
    """
    Raises:
        StorageFull: nothing else refuses here; what is wrong with the stream is a `SourceFault`.
    """
    try:
        shutil.copyfileobj(stream, file)
        file.flush()
    except OSError as error:
        raise StorageFull("There is no space left to unpack an archive.", reason=os.strerror(error.errno or 0)) from error


def _head(stream: BinaryIO) -> bytes:
    """The first bytes of a buffered stream, which stay in it."""
    peek: Callable[[int], bytes] = stream.peek  # type: ignore[attr-defined]  # `members` gives buffered readers
    return peek(_HEAD_BYTES)


@contextmanager
def _kept(stream: BinaryIO) -> Iterator[IO[bytes]]:
    """The stream is closed by whoever opened it."""
    yield stream
