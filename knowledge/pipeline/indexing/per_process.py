"""A resource that must not cross a fork: each process opens its own, on first use."""

import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Resource = TypeVar("Resource")


class PerProcess(Generic[Resource]):
    """Holds what `open_resource` returns, one per process; safe to share between threads.

    What a parent has open is dropped in the child without being closed: the sockets and threads behind it are the parent's.
    """

    def __init__(self, open_resource: Callable[[], Resource]) -> None:
        self._open = open_resource
        self._slot = _Slot[Resource](os.getpid())

    def get(self) -> Resource:
        slot = self._slot
        if slot.pid != os.getpid():  # a new slot has a new lock: the old one may be held by a thread that was not forked
            slot = self._slot = _Slot[Resource](os.getpid())
        with slot.lock:
            if not slot.filled:
                slot.filled.append(self._open())
            return slot.filled[0]


class _Slot(Generic[Resource]):
    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.lock = threading.Lock()
        self.filled: list[Resource] = []
