"""Who a process is, so that others can tell whether it still lives. A pid alone is not enough: it is given out again.

When a process began is read as the kernel counts it, from the boot of the system on: a clock that is set anew, as after a pause
of a virtual machine, makes nobody look dead.
"""

import hashlib
import os
import socket
from functools import lru_cache
from pathlib import Path
from typing import Final

import psutil

from knowledge.model.jobs import Owner

_SAME_START_SECONDS: Final = 0.02  #: what rounding takes; the kernel counts in hundredths
_BOOTS: Final = 1_000_000
_LONGEST_SECONDS: Final = 10_000  #: between the numbers of two boots


def this_process() -> Owner:
    """The process that asks; also right after a fork."""
    return _describe(os.getpid())


def began(pid: int) -> float:
    """When it began, in seconds of a clock that only tells processes of one pid apart, also those of another boot.

    Raises:
        psutil.NoSuchProcess
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        raise psutil.NoSuchProcess(pid) from None
    ticks = int(stat.rpartition(b")")[2].split()[19])  # a name in parentheses comes before, and may hold anything
    return _boot() + ticks / os.sysconf("SC_CLK_TCK")


def is_dead(owner: Owner) -> bool:
    """True only if the owner ran on this host and is certainly gone; a process elsewhere may always be alive."""
    if owner.host != socket.gethostname():
        return False
    try:
        if abs(began(owner.pid) - owner.started) > _SAME_START_SECONDS:
            return True
        return _status(owner.pid) in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return False


def is_stopped(owner: Owner) -> bool:
    """Whether the owner lives on this host and was stopped by a signal: it does nothing until it is told to go on."""
    try:
        return not is_dead(owner) and owner.host == socket.gethostname() and _status(owner.pid) == psutil.STATUS_STOPPED
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def _status(pid: int) -> str:
    return str(psutil.Process(pid).status())


@lru_cache(maxsize=1)
def _describe(pid: int) -> Owner:
    return Owner(socket.gethostname(), pid, began(pid))


@lru_cache(maxsize=1)
def _boot() -> float:
    """A number of this boot of the system, in whole seconds."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
    return float(int(hashlib.sha256(boot).hexdigest(), 16) % _BOOTS * _LONGEST_SECONDS)
