"""Looking at processes that may end between two looks, and having them stand still."""

import os
import signal
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path

import psutil
from pysqlite3 import dbapi2

from tests.waiting import eventually


def is_over(pid: int) -> bool:
    """Whether a process is gone, or only its entry is left for a parent that does not ask."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def group_of(leader: int) -> list[int]:
    """The processes of a process group."""
    found = []
    for pid in psutil.pids():
        with suppress(ProcessLookupError):
            found += [pid] if os.getpgid(pid) == leader else []
    return found


def stop(pids: Iterable[int], catalogue: Path) -> None:
    """SIGSTOP to all of these, and return when they stand still.

    None is stopped while it writes to the catalogue, to renew a lease for example: that would keep everybody out.
    """
    pids = list(pids)

    def stand_still() -> bool:
        send(pids, signal.SIGSTOP)
        eventually(lambda: all(map(_stands, pids)), "the processes have stopped")
        if can_be_written(catalogue):
            return True
        send(pids, signal.SIGCONT)
        return False

    eventually(stand_still, "the processes stand still, and none of them keeps others from writing")


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """A signal to those of them that are there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _stands(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def can_be_written(database: Path) -> bool:
    """Whether nobody stands in the middle of a transaction, or writes for longer than a moment."""
    with closing(dbapi2.connect(str(database), timeout=0.2, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except dbapi2.OperationalError:
            return False
        return True
