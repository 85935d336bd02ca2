"""Who a process is, in a form that a ticket can hold: a pid alone is given out again."""

import os
import socket
from collections.abc import Mapping
from typing import Any, Final

import psutil

_SAME_START_SECONDS: Final = 1.0  #: the system's clock ticks coarsely


def this_process() -> dict[str, Any]:
    return described(os.getpid())


def described(pid: int) -> dict[str, Any]:
    """`started` is in seconds since the epoch, 0 if the process has gone."""
    try:
        started = psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        started = 0.0
    return {"host": socket.gethostname(), "pid": pid, "started": started}


def is_alive(process: Mapping[str, Any]) -> bool:
    """Whether it runs. One on another host is believed to: its own deadline ends it."""
    if process.get("host") != socket.gethostname():
        return True
    try:
        found = psutil.Process(int(process["pid"]))
        if abs(found.create_time() - float(process["started"])) > _SAME_START_SECONDS:
            return False
        return bool(found.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD))
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
