"""What a directory import takes from a folder, and what it leaves out and why.

Entries come sorted by name, folders depth first, so two scans of one tree agree. Memory holds the open folders' listings only.
Symbolic links are never followed, so a loop cannot make a scan endless.

Left out are: hidden entries (`.git`, `.obsidian`, `.venv` and other caches among them), what tools make (see `tooling`), what
`.knowledgeignore` and `.gitignore` say in the folder and in those below it, and what the person's own patterns leave out. The
rules of an inner folder stand above those of the outer ones; nothing brings back what lies in a folder that is left out.
"""

import os
import re
import stat
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote_from_bytes

from knowledge.errors import PathNotAllowed, PathNotFound, PathUnreadable
from knowledge.model.documents import Checkpoint
from knowledge.model.item_data import DataKey
from knowledge.model.names import safe_name
from knowledge.model.skip_reason import SkipReason
from knowledge.model.status import ItemType
from knowledge.pipeline.sources.children import Child, Entry, Folder, Left, Pinned, Skipped
from knowledge.pipeline.sources.ignore import FILES, Opens, Rules, Selection, rules_of
from knowledge.pipeline.tooling import is_marked, is_tool_file, is_tool_folder

_SURROGATES: Final = re.compile(r"[\ud800-\udfff]")

Accepts = Callable[[str, Path], SkipReason | None]  #: (name, path) -> why not, or None to take it
Names = Callable[[str], Iterable[str]]  #: (folder) -> what it holds, in any order
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
        names: lists a folder for a caller whose reach ends somewhere; a folder outside it counts as the link that led there.
        opens: opens an ignore file for such a caller; those of folders above its reach do not count.
        pinned: gives the path by which `accepts` looks at a file.
        inside: asked for each file before `accepts`; the entries of an archive come instead of it.
    """

    root: Path
    accepts: Accepts
    is_own: Callable[[Path], bool] = _nothing
    selection: Selection = field(default_factory=Selection)
    inside: Inside = _no_archive
    above: str = ""
    names: Names | None = None
    opens: Opens | None = None
    pinned: Pinned = nullcontext

    def scan(self, checkpoint: Checkpoint) -> Generator[Entry, None, None]:
        """Every entry below the folder, lazily.

        A folder below that cannot be listed is reported and the rest goes on; what vanishes during the scan is left out.

        Raises:
            PathNotFound, PathUnreadable, PathNotAllowed: the folder itself, or its ignore file, cannot be read.
        """
        checkpoint()
        pending = [_opened_root(str(self.root), self.above, self._names, self.opens)]
        while pending:
            folder = pending[-1]
            if not folder.names:
                pending.pop()
                if pending:
                    yield Left(folder.inside.rstrip("/"))
                continue
            checkpoint()
            found = self._look(folder, folder.names.pop())
            if isinstance(found, _Open):
                pending.append(found)
                yield Folder(found.inside.rstrip("/"), data=place_of(found.path))
            elif isinstance(found, Child | Skipped):
                yield found
            elif found is not None:
                yield from found

    def _names(self, folder: str) -> list[str]:
        """Last first."""
        if self.names is not None:
            return sorted(self.names(folder), reverse=True)
        return _names(folder)

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
                return self._opened(path, f"{relative}/", folder) or Skipped(relative, SkipReason.TOOLING, is_directory=True)
            return self._child(path, relative, state)
        except FileNotFoundError:
            return None
        except PathNotAllowed:  # a moment ago it was a folder or a file
            return Skipped(relative, SkipReason.SYMLINK)
        except OSError:
            return Skipped(relative, SkipReason.UNREADABLE, is_directory=is_directory)

    def _opened(self, path: str, inside: str, above: "_Open") -> "_Open | None":
        """A folder with its rules; None if it says of itself that it is a cache."""
        names = self._names(path)
        present = frozenset(names)
        if is_marked(present):
            return None
        own = tuple((self.above + inside, rules) for rules in rules_of(path, present, self.opens))
        return _Open(path, inside, names, own + above.rules)

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

    def ignores(self, relative: str, *, is_directory: bool) -> bool:
        for inside, rules in self.rules:
            said = rules.decide(relative.removeprefix(inside), is_directory=is_directory)
            if said is not None:
                return said
        return False


def _opened_root(path: str, above: str, list_names: Callable[[str], list[str]], opens: Opens | None) -> _Open:
    """The folder to scan, with the rules that come from it and from the folders above it."""
    try:
        names = list_names(path)
        rules = tuple((above, found) for found in rules_of(path, frozenset(names), opens))
        place, inside = path, above
        while inside:
            place, inside = place.rpartition("/")[0], inside[:-1].rpartition("/")[0] + "/" if "/" in inside[:-1] else ""
            try:
                rules += tuple((inside, found) for found in rules_of(place, FILES, opens))
            except PathNotAllowed:  # nor is what lies above it
                break
        return _Open(path, "", names, rules)
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:
        raise PathNotFound(path=shown(path)) from error
    except OSError as error:
        raise PathUnreadable(path=shown(path), reason=os.strerror(error.errno or 0)) from error


def _names(folder: str) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted((entry.name for entry in entries), reverse=True)
