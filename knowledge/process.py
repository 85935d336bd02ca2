"""Who a process is, so that others can tell whether it still lives. A pid alone is not enough: it is given out again."""

import os
import socket
from functools import lru_cache

import psutil

from knowledge.model.jobs import Owner

_SAME_START_SECONDS = 1.0  #: the system's clock ticks coarsely; two processes with one pid are never this close


def this_process() -> Owner:
    """The process that asks; also right after a fork."""
    return _describe(os.getpid())


def is_dead(owner: Owner) -> bool:
    """True only if the owner ran on this host and is certainly gone; a process elsewhere may always be alive."""
    if owner.host != socket.gethostname():
        return False
    try:
        process = psutil.Process(owner.pid)
        if abs(process.create_time() - owner.started) > _SAME_START_SECONDS:
            return True
        return bool(process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD))
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
    return Owner(socket.gethostname(), pid, psutil.Process(pid).create_time())
