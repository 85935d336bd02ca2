"""Who a process is, in a form that a ticket can hold."""

import os
import socket
from collections.abc import Mapping
from typing import Any

import psutil

from knowledge.model.jobs import Owner
from knowledge.process import began, is_dead


def this_process() -> dict[str, Any]:
    return described(os.getpid())


def described(pid: int) -> dict[str, Any]:
    """`started` as `knowledge.process.began` counts, 0 if the process has gone."""
    try:
        started = began(pid)
    except psutil.NoSuchProcess:
        started = 0.0
    return {"host": socket.gethostname(), "pid": pid, "started": started}


def is_alive(process: Mapping[str, Any]) -> bool:
    """Whether it runs. One on another host is believed to: its own deadline ends it."""
    return not is_dead(Owner(str(process.get("host")), int(process["pid"]), float(process["started"])))
