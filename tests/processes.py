"""Looking at processes that may end between two looks."""

import os
from contextlib import suppress

import psutil


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
