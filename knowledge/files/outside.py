"""Files of others, from which bytes are copied."""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from knowledge.errors import PathNotFound, PathUnreadable
from knowledge.files.disk import storage, write
from knowledge.files.reach import Reach

CHUNK_BYTES: Final = 1 << 20
_NO_SUCH: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})


@contextmanager
def opened(source: Path, reach: Reach, is_own: Callable[[Path], bool]) -> Iterator[tuple[int, os.stat_result]]:
    """A plain file open for reading; a pipe or device is refused instead of waited for."""
    try:
        reading = reach.open(source, os.O_RDONLY | os.O_NONBLOCK, is_own)
    except ValueError as error:  # a NUL inside
        raise PathNotFound(path=shown(source)) from error
    except OSError as error:
        kind = PathNotFound if error.errno in _NO_SUCH else PathUnreadable
        raise kind(path=shown(source), reason=os.strerror(error.errno or 0)) from error
    try:
        state = os.fstat(reading)
        if not stat.S_ISREG(state.st_mode):
            raise PathUnreadable(path=shown(source), reason="not a plain file")
        yield reading, state
    finally:
        os.close(reading)


def copy(reading: int, writing: int, source: Path) -> int:
    """Between open files, to the end; returns how many bytes. `source` is for what goes wrong."""
    size = 0
    while True:
        try:
            data = os.read(reading, CHUNK_BYTES)
        except OSError as error:
            raise PathUnreadable(path=shown(source), reason=os.strerror(error.errno or 0)) from error
        if not data:
            return size
        with storage():
            write(writing, data)
        size += len(data)


def shown(path: Path) -> str:
    """The path as text that every error can carry."""
    return os.fsencode(str(path).replace("\x00", "\ufffd")).decode(errors="replace")
