"""Values that must not cross a fork: locks that another thread of the parent may hold, connections that the parent uses."""

import os
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

_inherited: Final[list[Any]] = []
"""What children found when they looked. Kept: freeing a connection closes it, and that would clean up a log the parent uses."""


class PerProcess(Generic[T]):
    """One value a process, made when it is first asked for."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._held = (os.getpid(), make())

    def __call__(self) -> T:
        pid, value = self._held
        if pid != os.getpid():
            _inherited.append(value)
            value = self._make()
            self._held = (os.getpid(), value)
        return value

    def replace(self) -> None:
        """Forget the value; the next caller gets a new one."""
        self._held = (os.getpid(), self._make())
