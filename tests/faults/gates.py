"""Holding a worker process at a named moment: by the file system, so that it works across processes and survives kills.

A test arms a moment: it writes `<moment>.armed.<n>`. Each process that comes by renames it to the next lower number,
atomically; the one that finds 0 makes it `<moment>.reached` with its pid inside, and waits until the test removes that file.
"""

import os
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Final

from tests.waiting import PATIENCE_SECONDS, eventually

_POLL_SECONDS: Final = 0.01
_LONGEST_HOLD_SECONDS: Final = 120.0  #: a gate that nobody opens ends here, so that no test run hangs for ever


class Moment(StrEnum):
    """Where a job can be held."""

    READING = "reading"  #: a leaf's text is about to be read
    READ = "read"  #: it has been read
    EMBEDDING = "embedding"  #: a request for vectors has been sent, the answer is open; held by the embedder itself
    BEFORE_COMMIT = "before-commit"  #: everything is paid for, the base lock is held, the index is as it was
    INSIDE_COMMIT = "inside-commit"  #: all of the new material is written, the index transaction is still open
    BETWEEN_COMMITS = "between-commits"  #: the index has the new material, the ledger does not know yet
    COPYING = "copying"  #: a file of a directory is about to be copied
    PLACING = "placing"  #: a batch of a directory is being renamed into place, its transaction is open
    PLACED = "placed"  #: the same, all of it renamed and inserted
    REMOVING_MATERIAL = "removing-material"  #: a delete's index transaction is still open
    REMOVING_FILES = "removing-files"  #: material gone, files still there
    REMOVING_ROWS = "removing-rows"  #: material and files gone, rows still there


def pass_by(gates: Path, moment: Moment) -> None:
    """Called by a worker process at the moment; returns at once unless the moment is armed."""
    reached = gates / f"{moment}.reached"
    for armed in gates.glob(f"{moment}.armed.*"):
        left = int(armed.suffix[1:])
        try:
            armed.rename(reached if left == 0 else armed.with_suffix(f".{left - 1}"))
        except FileNotFoundError:  # another process was faster
            continue
        if left == 0:
            written = gates / f"{moment}.{os.getpid()}"
            written.write_text(str(os.getpid()))
            written.replace(reached)
            deadline = time.monotonic() + _LONGEST_HOLD_SECONDS
            while reached.exists() and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)


class Gate:
    """The test's side of one moment."""

    def __init__(self, gates: Path, moment: Moment) -> None:
        self._gates = gates
        self._moment = moment

    def arm(self, *, skip: int = 0) -> None:
        """Hold the next process that comes by, or a later one."""
        self._gates.mkdir(exist_ok=True)
        self.open()
        (self._gates / f"{self._moment}.armed.{skip}").touch()

    def wait(self, *, seconds: float = PATIENCE_SECONDS) -> int:
        """The pid of the process that is held."""
        return eventually(self.holder, f"a process is at {self._moment}", seconds=seconds)

    def holder(self) -> int:
        """The same without waiting; 0 while nobody is held."""
        reached = self._gates / f"{self._moment}.reached"
        return int(reached.read_text() or 0) if reached.exists() else 0

    def open(self) -> None:
        """Let go whoever is held, and hold nobody any more."""
        for left in (*self._gates.glob(f"{self._moment}.armed.*"), self._gates / f"{self._moment}.reached"):
            left.unlink(missing_ok=True)


Pass = Callable[[Moment], None]
