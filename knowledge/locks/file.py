"""The base lock as `flock` on one file a base.

The system frees it at the moment its holder dies, however it dies. Lock files lie outside the bases' folders, because whoever
removes a base holds its lock meanwhile; they are removed by `forget` alone. The file names its holder, for the waiter's error.
"""

import errno
import json
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from knowledge.errors import BaseBusy, StorageFailed, StorageFull
from knowledge.locks.flock import Flocks, Held
from knowledge.process import this_process

_LINE_BYTES: Final = 120
_FLIGHT: Final = ".flight"  #: ending of files that are no base's lock
_NAME: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.-]{0,127}")


class FileLocks:
    """Implements `Locks` with files in one directory; may be shared by threads and inherited by forked processes."""

    def __init__(self, directory: Path, wait_seconds: float) -> None:
        self._directory = directory
        self._wait_seconds = wait_seconds
        self._flocks = Flocks()
        self._mine = _Mine()

    @contextmanager
    def base(self, base_id: str, *, wait_seconds: float | None = None) -> Iterator[None]:
        """See `Locks.base`. A thread that takes a base it already holds gets a RuntimeError at once."""
        path = self._path(base_id)
        if base_id in self._mine.now():
            raise RuntimeError(f"the lock of base {base_id} is already held by this thread; it is not re-entrant")
        wait = self._wait_seconds if wait_seconds is None else wait_seconds
        lock = self._take(path, wait)
        if lock is None:
            raise BaseBusy(base_id=base_id, waited_seconds=wait, holder=_holder(path))
        self._mine.now().add(base_id)
        try:
            _sign(lock)
            yield
        finally:
            self._mine.now().discard(base_id)
            self._flocks.free(lock)

    @contextmanager
    def single_flight(self, name: str) -> Iterator[bool]:
        lock = self._take(self._path(name + _FLIGHT), 0)
        try:
            yield lock is not None
        finally:
            if lock is not None:
                self._flocks.free(lock)

    def base_ids(self) -> list[str]:
        """See `Locks.base_ids`. What lies there under a name that no base could have is not ours."""
        with suppress(FileNotFoundError):
            names = [entry.name for entry in os.scandir(self._directory)]
            return sorted(name for name in names if _NAME.fullmatch(name) and not name.endswith(_FLIGHT))
        return []

    def forget(self, base_id: str) -> None:
        """See `Locks.forget`. Removed under the lock: a waiter that gets the removed file notices and takes a new one.

        Raises:
            BaseBusy: somebody uses the lock.
        """
        path = self._path(base_id)
        if path.exists():
            with self.base(base_id, wait_seconds=0):
                path.unlink(missing_ok=True)

    def _take(self, path: Path, wait_seconds: float) -> Held | None:
        try:
            return self._flocks.take(path, wait_seconds)
        except OSError as error:
            kind = StorageFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else StorageFailed
            raise kind(file="lock", name=path.name, reason=os.strerror(error.errno or 0)) from error

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot name a lock")
        return self._directory / name


class _Mine(threading.local):
    """The bases that this thread of this process holds; a forked child starts with none, since locks stay with the parent."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._names: set[str] = set()

    def now(self) -> set[str]:
        if self._process != os.getpid():
            self._process, self._names = os.getpid(), set()
        return self._names


def _sign(lock: Held) -> None:
    """Say in the lock file who holds it. Only for people, so it may fail, and the holder before may still be named.

    Padded and written over, not truncated: some file systems write a truncated file to disk when it is closed.
    """
    me = this_process()
    line = json.dumps({"pid": me.pid, "since": round(time.time(), 3), "process_started": me.started})
    with suppress(OSError):
        os.pwrite(lock.descriptor, line.ljust(_LINE_BYTES).encode(), 0)


def _holder(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
