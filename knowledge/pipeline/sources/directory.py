"""What a directory import takes from a folder, and what it leaves out and why.

Entries come sorted by name, folders depth first, so two scans of one tree agree. Memory holds the open folders' listings only.
Symbolic links are never followed, so a loop cannot make a scan endless.

What is not found has vanished only if it is not in the very folder that was listed, which is held open while its entries are
looked at. A folder that is moved away, unmounted or replaced meanwhile counts as not listed; if it is the root, the scan fails.

Left out are: hidden entries (`.git`, `.obsidian`, `.venv` and other caches among them), what tools make (see `tooling`), what
`.knowledgeignore` and `.gitignore` say in the folder and in those below it, and what the person's own patterns leave out. The
rules of an inner folder stand above those of the outer ones; nothing brings back what lies in a folder that is left out.
"""

import os
import re
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote_from_bytes

from knowledge.errors import PathNotAllowed, PathNotFound, PathUnreadable, SourcesUnverifiable
from knowledge.model.documents import Checkpoint
from knowledge.model.item_data import DataKey
from knowledge.model.names import safe_name
from knowledge.model.skip_reason import SkipReason
from knowledge.model.status import ItemType
from knowledge.pipeline.sources.children import Child, Entry, Folder, Left, Partial, Pinned, Skipped
from knowledge.pipeline.sources.ignore import FILES, Opens, Rules, Selection, rules_of
from knowledge.pipeline.tooling import is_marked, is_tool_file, is_tool_folder

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_SURROGATES: Final = re.compile(r"[\ud800-\udfff]")

Accepts = Callable[[str, Path], SkipReason | None]  #: (name, path) -> why not, or None to take it
Inside = Callable[[Child], Iterator[Entry] | None]  #: what an archive holds instead of itself; None: it is none


def _nothing(_path: Path) -> bool:
    return False


def _no_archive(_child: Child) -> None:
    return None


def shown(name: str) -> str:
    """A name fit for texts: each byte that was not valid UTF-8 appears as U+FFFD."""
    return _SURROGATES.sub("\ufffd", name)


def place_of(path: str) -> dict[str, object]:
    """What must be remembered of a path that `shown` does not say: nothing, for most."""
    return {} if shown(path) == path else {DataKey.PATH_BYTES: quote_from_bytes(os.fsencode(path))}


def stamp_of(state: os.stat_result) -> str:
    """Another one when a file has changed, as far as its size and time tell."""
    return f"{state.st_size}:{state.st_mtime_ns}"


@dataclass(frozen=True, slots=True)
class DirectoryChildren:
    """The files below a folder.

    Args:
        above: where this folder lies in the one that was added, with a closing slash: ignore files of the folders above count
            here too. Empty for the one that was added.
        accepts: asked for plain, visible, wanted, non-empty files only; may open the file.
        is_own: asked for each folder below `root` and each file before `accepts`; what is own is neither listed nor opened.
        opens: opens a folder or an ignore file for a caller whose reach ends somewhere. A folder outside it counts as the link
            that led there; ignore files of folders above it do not count.
        pinned: gives the path by which `accepts` looks at a file.
        inside: asked for each file before `accepts`; the entries of an archive come instead of it.
    """

    root: Path
    accepts: Accepts
    is_own: Callable[[Path], bool] = _nothing
    selection: Selection = field(default_factory=Selection)
    inside: Inside = _no_archive
    above: str = ""
    opens: Opens | None = None
    pinned: Pinned = nullcontext

    def scan(self, checkpoint: Checkpoint) -> Generator[Entry, None, None]:
        """Every entry below the folder, lazily.

        A folder below that cannot be listed is reported and the rest goes on; what vanishes during the scan is left out.

        Raises:
            PathNotFound, PathUnreadable, PathNotAllowed: the folder itself, or its ignore file, cannot be read, or no more.
            SourcesUnverifiable: the folder was moved, unmounted or replaced during the scan. What was yielded before stays.
        """
        checkpoint()
        pending = [self._root()]
        try:
            while pending:
                folder = pending[-1]
                if not folder.names:
                    yield from self._left(folder, pending[-2] if len(pending) > 1 else None)
                    pending.pop().close()
                    continue
                checkpoint()
                found = self._look(folder, folder.names.pop())
                if isinstance(found, _Open):
                    pending.append(found)
                    folder.close()  # a path may have more parts than a process may have files open
                    mount = {DataKey.MOUNT: True} if found.place[0] != folder.place[0] else {}
                    yield Folder(found.inside.rstrip("/"), data=place_of(found.path) | mount)
                elif isinstance(found, Child | Skipped):
                    yield found
                elif found is not None:
                    yield from found
        finally:
            for folder in pending:
                folder.close()

    def _look(self, folder: "_Open", name: str) -> "_Open | Child | Skipped | Iterator[Entry] | None":
        """A folder to go into, an entry to report, those of an archive, or None for what has vanished since it was listed."""
        path, relative = f"{folder.path}/{name}", folder.inside + shown(name)
        is_directory = False
        try:
            state = os.lstat(path)
            is_directory = stat.S_ISDIR(state.st_mode)
            reason = self._reason(folder, name, path, relative, state)
            if reason is not None:
                return Skipped(relative, reason, is_directory=is_directory)
            if is_directory:
                inner = self._opened(path, f"{relative}/", folder.rules)
                return inner or Skipped(relative, SkipReason.TOOLING, is_directory=True)
            return self._child(path, relative, state)
        except FileNotFoundError:
            if folder.lacks(name) or not self._find(folder):
                return None
        except PathNotAllowed:  # a moment ago it was a folder or a file
            return Skipped(relative, SkipReason.SYMLINK) if self._find(folder) else None
        except OSError:
            pass
        return Skipped(relative, SkipReason.UNREADABLE, is_directory=is_directory)

    def _left(self, folder: "_Open", above: "_Open | None") -> Iterator[Entry]:
        """A folder is done with; what was looked at counts as all of it only if it is still in its place.

        Raises:
            PathNotFound, PathUnreadable, PathNotAllowed, SourcesUnverifiable: it is the root, and is not.
        """
        if above is None:
            with _told(folder.path):
                folder.hold(self._again(folder))
            if folder.is_lost or folder.descriptor is None:
                why = "This directory was moved or replaced while it was being read; nothing was removed."
                raise SourcesUnverifiable(why, path=shown(folder.path))
            return
        inside = folder.inside.rstrip("/")
        self._find(above)  # before what lies in it is closed: some file systems number a folder anew when nobody holds it
        is_lost = folder.is_lost or not above.holds(folder)
        folder.close()
        if is_lost:
            yield Partial(inside)
            yield Skipped(inside, SkipReason.UNREADABLE, is_directory=True)
        yield Left(inside)

    def _root(self) -> "_Open":
        path = str(self.root)
        with _told(path):
            root = self._opened(path, "", self._rules_above(path))
        assert root is not None  # the root is never a cache
        return root

    def _rules_above(self, place: str) -> tuple[tuple[str, Rules], ...]:
        """What is said in the folders above the root, as far as they are within reach."""
        rules: tuple[tuple[str, Rules], ...] = ()
        inside = self.above
        while inside:
            place, inside = place.rpartition("/")[0], inside[:-1].rpartition("/")[0] + "/" if "/" in inside[:-1] else ""
            present = [name for name in FILES if os.path.lexists(f"{place}/{name}")]
            try:
                rules += tuple((inside, found) for found in rules_of(place, present, self.opens))
            except PathNotAllowed:  # nor is what lies above it
                break
        return rules

    def _opened(self, path: str, inside: str, rules: tuple[tuple[str, Rules], ...]) -> "_Open | None":
        """A folder, held, with its own rules and those from above; None if it lies inside and says that it is a cache."""
        descriptor = self._descriptor(path)
        try:
            names = _names(descriptor)
            if not inside or not is_marked(names):
                own = tuple((self.above + inside, found) for found in rules_of(path, names, self.opens))
                return _Open(path, inside, names, own + rules, descriptor, _place(os.fstat(descriptor)))
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None

    def _find(self, folder: "_Open") -> bool:
        """Hold a folder, anew if it is held. False, and it is lost, if its path does not lead to it any more."""
        try:
            found = self._again(folder)
        except (OSError, ValueError, PathNotAllowed):
            found = None
        folder.hold(found)
        if found is None:
            folder.lose()
        return found is not None

    def _again(self, folder: "_Open") -> int | None:
        """A descriptor of what lies where a folder was listed; None if that is another one.

        Raises:
            PathNotAllowed, OSError, ValueError: nothing can be opened there.
        """
        descriptor = self._descriptor(folder.path)
        if _place(os.fstat(descriptor)) == folder.place:
            return descriptor
        os.close(descriptor)
        return None

    def _descriptor(self, path: str) -> int:
        return (self.opens or os.open)(Path(path), _FOLDER)

    def _reason(self, folder: "_Open", name: str, path: str, relative: str, state: os.stat_result) -> SkipReason | None:
        """Why this is left out without being opened."""
        mode = state.st_mode
        is_directory = stat.S_ISDIR(mode)
        if stat.S_ISLNK(mode):
            return SkipReason.SYMLINK if os.path.exists(path) else SkipReason.DANGLING  # noqa: PTH110 - may hold surrogates
        if name.startswith("."):
            return SkipReason.HIDDEN
        if is_tool_folder(name) if is_directory else is_tool_file(name):
            return SkipReason.TOOLING
        if folder.ignores(self.above + relative, is_directory=is_directory):
            return SkipReason.IGNORED
        if self.selection.leaves_out(relative, is_directory=is_directory):
            return SkipReason.EXCLUDED
        if not is_directory and not stat.S_ISREG(mode):
            return SkipReason.SPECIAL
        if self.is_own(Path(path)):
            return SkipReason.OWN
        return SkipReason.EMPTY if not is_directory and state.st_size == 0 else None

    def _child(self, path: str, relative: str, state: os.stat_result) -> Child | Skipped | Iterator[Entry]:
        place = Path(path)
        child = Child(
            ItemType.FILE,
            relative,
            shown(path),
            place,
            size=state.st_size,
            stamp=stamp_of(state),
            data=place_of(path),
        )
        if (inside := self.inside(child)) is not None:
            return inside
        with self.pinned(place) as judged:
            reason = self.accepts(safe_name(relative.rpartition("/")[2]), judged)
        return child if reason is None else Skipped(relative, reason)


@dataclass(slots=True)
class _Open:
    """A folder whose entries are being looked at."""

    path: str
    inside: str  #: relative path with a closing slash; empty for the root
    names: list[str]  #: still to be looked at, last first
    rules: tuple[tuple[str, Rules], ...]  #: (place of the folder they stand in, what they say), the innermost first
    descriptor: int | None  #: of the folder that was listed; None while one below it is looked at
    place: tuple[int, int]  #: which folder that is, whatever lies at `path` by now
    is_lost: bool = False  #: not all of it was looked at, for it was not at `path`

    def ignores(self, relative: str, *, is_directory: bool) -> bool:
        for inside, rules in self.rules:
            said = rules.decide(relative.removeprefix(inside), is_directory=is_directory)
            if said is not None:
                return said
        return False

    def lacks(self, name: str) -> bool:
        """Whether it is certain that there is no such entry in the folder that was listed."""
        try:
            if self.descriptor is not None:
                os.lstat(name, dir_fd=self.descriptor)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return False

    def holds(self, inner: "_Open") -> bool:
        """Whether it is certain that a folder that was listed is in this one."""
        try:
            name = inner.path.rpartition("/")[2]
            return self.descriptor is not None and _place(os.lstat(name, dir_fd=self.descriptor)) == inner.place
        except OSError:
            return False

    def lose(self) -> None:
        self.is_lost = True
        self.names.clear()

    def hold(self, descriptor: int | None) -> None:
        self.close()
        self.descriptor = descriptor

    def close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


@contextmanager
def _told(path: str) -> Iterator[None]:
    """What the system says of the root, as an error of ours."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:
        raise PathNotFound(path=shown(path)) from error
    except OSError as error:
        raise PathUnreadable(path=shown(path), reason=os.strerror(error.errno or 0)) from error


def _names(folder: int) -> list[str]:
    """What a folder holds, last first."""
    with os.scandir(folder) as entries:
        return sorted((entry.name for entry in entries), reverse=True)


def _place(state: os.stat_result) -> tuple[int, int]:
    """Tells a folder from all others, for as long as it is held."""
    return state.st_dev, state.st_ino
