"""`flock` on files of one directory: exclusive between threads and processes, freed by the system when its holder dies.

Each holder has an open file of its own. A forked child closes what its parent had open and so keeps nothing, and a program that
is started inherits nothing.
"""

import fcntl
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FIRST_PAUSE_SECONDS: Final = 0.0002  #: most holders let go within milliseconds, so a waiter looks again soon …
LONGEST_PAUSE_SECONDS: Final = 0.01  #: … and then ever less often; each look costs one system call
PAUSE_GROWTH: Final = 1.5
_OPEN: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, eq=False, slots=True)
class Held:
    """One open file that is, or waits to be, locked. Told apart by identity: a forked child may get the same number again."""

    descriptor: int


class Flocks:
    """Takes and frees locks; one for a process and those that it forks."""

    def __init__(self) -> None:
        self._open: set[Held] = set()
        self._changing = threading.Lock()  # no fork between opening a file and noting that it is open
        os.register_at_fork(
            before=self._changing.acquire, after_in_parent=self._changing.release, after_in_child=self._close_inherited
        )

    def take(self, path: Path, wait_seconds: float) -> Held | None:
        """The lock, or None if it was not free in time. The directory is made if it is missing."""
        until = time.monotonic() + wait_seconds
        pause = FIRST_PAUSE_SECONDS
        held = self._opened(path)
        try:
            while True:
                if _lock(held):
                    if _is_at(held, path):
                        return held
                elif (left := until - time.monotonic()) > 0:
                    time.sleep(min(pause, left))
                    pause = min(pause * PAUSE_GROWTH, LONGEST_PAUSE_SECONDS)
                else:
                    self.free(held)
                    return None
                if not _is_at(held, path):  # somebody removed it: the lock is now that of the file that took its place
                    self.free(held)
                    held = self._opened(path)
        except BaseException:
            self.free(held)
            raise

    def free(self, held: Held) -> None:
        """Let go; nothing happens if it was let go already, or is the parent's."""
        with self._changing:
            if held in self._open:
                self._open.remove(held)
                fcntl.flock(held.descriptor, fcntl.LOCK_UN)  # also if a program being started has not closed its copy yet
                os.close(held.descriptor)

    def _opened(self, path: Path) -> Held:
        with self._changing:
            try:
                descriptor = os.open(path, _OPEN, 0o600)
            except FileNotFoundError:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                descriptor = os.open(path, _OPEN, 0o600)
            held = Held(descriptor)
            self._open.add(held)
            return held

    def _close_inherited(self) -> None:
        """Only closed, not unlocked: they are the parent's locks."""
        for held in self._open:
            os.close(held.descriptor)
        self._open.clear()
        self._changing.release()


def _lock(held: Held) -> bool:
    try:
        fcntl.flock(held.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(held: Held, path: Path) -> bool:
    """Whether the open file is the one that others find under this name."""
    try:
        there, here = os.lstat(path), os.fstat(held.descriptor)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)
