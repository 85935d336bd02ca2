"""What an operating system does with files and folders, in our errors. Knows nothing of bases."""

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Final, NoReturn

from knowledge import clock
from knowledge.errors import StorageFailed, StorageFull

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC  #: to open one, not through a link
_PAUSES: Final = (0.001, 0.01, 0.05, 0.1, 0.2, 0.4)  #: seconds between attempts at a folder that somebody else still fills
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@contextmanager
def storage(base_id: str | None = None, **details: str) -> Iterator[None]:
    """Our own errors for whatever the operating system answers."""
    try:
        yield
    except OSError as error:
        _refuse(error, details if base_id is None else {"base_id": base_id, **details})


def _refuse(error: OSError, details: dict[str, str]) -> NoReturn:
    kind = StorageFull if error.errno in _NO_ROOM else StorageFailed
    raise kind(reason=os.strerror(error.errno or 0), **details) from error


def write(writing: int, data: bytes) -> None:
    """All of it, however much the system takes at a time."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(writing, rest) :]


def sync_folder(folder: Path) -> None:
    """What it names is on the disk when this returns."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def entry(name: str, folder: int) -> os.stat_result | None:
    """What has this name in an open folder, links not followed; None if nothing has."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def entries(folder: Path) -> list[os.DirEntry[str]]:
    """Everything in a folder; nothing if there is none."""
    try:
        with os.scandir(folder) as found:
            return list(found)
    except FileNotFoundError:
        return []


@contextmanager
def parent_of(root: Path, path: str, *, create: bool = False) -> Iterator[int | None]:
    """A descriptor of the folder that holds `path` below `root`, reached without following links below `root`.

    None if there is no such folder, or a link or a file is in the way: nothing of ours can lie behind it.
    """
    if create:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder: int | None = None
    try:
        try:
            folder = os.open(root, FOLDER)
            for part in PurePosixPath(path).parts[:-1]:
                inner = _inner_folder(part, folder, create=create)
                os.close(folder)
                folder = inner
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                raise
            if folder is not None:
                os.close(folder)
                folder = None
        yield folder
    finally:
        if folder is not None:
            os.close(folder)


def _inner_folder(part: str, folder: int, *, create: bool) -> int:
    if create:
        with suppress(FileExistsError):
            os.mkdir(part, mode=0o700, dir_fd=folder)
    return os.open(part, FOLDER, dir_fd=folder)


def remove_tree(name: str, folder: int) -> None:
    """Remove a folder, file or link; what somebody else removes meanwhile is fine."""
    found = entry(name, folder)
    if found is None:
        return
    if not stat.S_ISDIR(found.st_mode):
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        return
    shutil.rmtree(name, dir_fd=folder, onerror=_unless_gone)


def remove_filling(name: str, folder: int) -> None:
    """The same for a folder that somebody may still fill."""
    for pause in _PAUSES:
        try:
            remove_tree(name, folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        else:
            return
        clock.sleep(pause)
    remove_tree(name, folder)


def _unless_gone(_function: object, _path: object, fault: tuple[type[BaseException], BaseException, object]) -> None:
    if not isinstance(fault[1], FileNotFoundError):
        raise fault[1]
