"""What a directory import takes from a folder, and what it leaves out and why.

Entries come sorted by name, folders depth first, so two scans of one tree agree. Memory holds the open folders' listings only.
Symbolic links are never followed, so a loop cannot make a scan endless.
"""

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from knowledge.errors import PathNotAllowed, PathNotFound, PathUnreadable
from knowledge.model.documents import Checkpoint

_SURROGATES: Final = re.compile(r"[\ud800-\udfff]")


class SkipReason(StrEnum):
    HIDDEN = "hidden"  #: its name starts with a dot
    SYMLINK = "symlink"
    SPECIAL = "special"  #: a pipe, socket or device
    UNSUPPORTED = "unsupported"  #: no reader claims its extension, and it is no text
    BINARY = "binary"  #: named like text, holds binary data
    EMPTY = "empty"  #: 0 bytes
    OWN = "own"  #: the data directory lies inside the folder, or the folder inside the data directory
    UNREADABLE = "unreadable"  #: the system refuses; below such a folder nothing is known


@dataclass(frozen=True, slots=True)
class FoundFile:
    """One file to import. `path` is what the system calls it; `relative` shows bytes that are not UTF-8 as U+FFFD.

    Two files of one folder can share a `relative`, if their names differ in such bytes only.
    """

    path: Path
    relative: str
    size: int  #: bytes


@dataclass(frozen=True, slots=True)
class Skipped:
    """One entry left out; `is_directory` says that everything below it is left out as well."""

    relative: str
    reason: SkipReason
    is_directory: bool = False


Accepts = Callable[[str, Path], SkipReason | None]  #: (name, path) -> why not, or None to take it
Names = Callable[[str], Iterable[str]]  #: (folder) -> what it holds, in any order


def _nothing(_path: Path) -> bool:
    return False


def scan(
    root: Path,
    accepts: Accepts,
    checkpoint: Checkpoint,
    is_own: Callable[[Path], bool] = _nothing,
    names: Names | None = None,
) -> Iterator[FoundFile | Skipped]:
    """Every entry below `root`, lazily.

    A folder below that cannot be listed is reported and the rest goes on; what vanishes during the scan is left out.

    Args:
        accepts: asked for plain, visible, non-empty files only; may open the file.
        checkpoint: called before each folder and each entry.
        is_own: asked for each folder below `root` and each file before `accepts`; what is own is neither listed nor opened.
        names: lists a folder for a caller whose reach ends somewhere; a folder outside it counts as the link that led there.

    Raises:
        PathNotFound, PathUnreadable, PathNotAllowed: `root` itself cannot be listed.
    """
    checkpoint()
    list_folder = _names if names is None else _sorted(names)
    pending = [_Folder(str(root), "", _listed_root(root, list_folder))]
    while pending:
        folder = pending[-1]
        if not folder.names:
            pending.pop()
            continue
        checkpoint()
        name = folder.names.pop()
        path, relative = f"{folder.path}/{name}", folder.inside + shown(name)
        found = _look(name, path, relative, accepts, is_own, list_folder)
        if isinstance(found, _Folder):
            pending.append(found)
        elif found is not None:
            yield found


def shown(name: str) -> str:
    """A name fit for texts: each byte that was not valid UTF-8 appears as U+FFFD."""
    return _SURROGATES.sub("\ufffd", name)


@dataclass(slots=True)
class _Folder:
    path: str
    inside: str  #: relative path with a closing slash; empty for the root
    names: list[str]  #: still to be looked at, last first


def _listed_root(root: Path, list_folder: Callable[[str], list[str]]) -> list[str]:
    try:
        return list_folder(str(root))
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:
        raise PathNotFound(path=shown(str(root))) from error
    except OSError as error:
        raise PathUnreadable(path=shown(str(root)), reason=os.strerror(error.errno or 0)) from error


def _names(folder: str) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted((entry.name for entry in entries), reverse=True)


def _sorted(names: Names) -> Callable[[str], list[str]]:
    return lambda folder: sorted(names(folder), reverse=True)


def _look(
    name: str,
    path: str,
    relative: str,
    accepts: Accepts,
    is_own: Callable[[Path], bool],
    list_folder: Callable[[str], list[str]],
) -> "_Folder | FoundFile | Skipped | None":
    """A folder to go into, an entry to report, or None for what has vanished since it was listed."""
    is_directory = False
    try:
        state = os.lstat(path)
        is_directory = stat.S_ISDIR(state.st_mode)
        if is_directory and not name.startswith("."):
            if is_own(Path(path)):
                return Skipped(relative, SkipReason.OWN, is_directory=True)
            return _Folder(path, f"{relative}/", list_folder(path))
        return _file(name, path, relative, state, accepts, is_own)
    except FileNotFoundError:
        return None
    except PathNotAllowed:  # a moment ago it was a folder
        return Skipped(relative, SkipReason.SYMLINK)
    except OSError:
        return Skipped(relative, SkipReason.UNREADABLE, is_directory=is_directory)


def _file(
    name: str, path: str, relative: str, state: os.stat_result, accepts: Accepts, is_own: Callable[[Path], bool]
) -> FoundFile | Skipped:
    """The entry for anything that is not descended into."""
    mode = state.st_mode
    if stat.S_ISLNK(mode):
        return Skipped(relative, SkipReason.SYMLINK)
    if name.startswith("."):
        return Skipped(relative, SkipReason.HIDDEN, is_directory=stat.S_ISDIR(mode))
    if not stat.S_ISREG(mode):
        return Skipped(relative, SkipReason.SPECIAL)
    if state.st_size == 0:
        return Skipped(relative, SkipReason.EMPTY)
    place = Path(path)
    reason = SkipReason.OWN if is_own(place) else accepts(name, place)
    return FoundFile(place, relative, state.st_size) if reason is None else Skipped(relative, reason)
