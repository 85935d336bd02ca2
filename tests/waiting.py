"""Waiting for a condition, never for a time.

How long is waited at most stands here, for every test: a limit costs nothing when what is waited for comes, and a machine with
other work may need many times what an idle one does. Who means a promise about time asserts it with a limit of his own.
"""

import time
from collections.abc import Callable
from typing import Final, TypeVar

PATIENCE_SECONDS: Final = 60.0  #: after this it is said that what was waited for does not come
POLL_SECONDS: Final = 0.03

Found = TypeVar("Found")


def eventually(condition: Callable[[], Found], what: str, *, seconds: float = PATIENCE_SECONDS) -> Found:
    """The first true value that `condition` gives.

    Raises:
        AssertionError: none within `seconds`; names what was waited for and the last value.
    """
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}; last seen: {found!r}")
        time.sleep(POLL_SECONDS)
    return found


def wait_until(condition: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
    """Return once the condition is true, where its name says what is waited for."""
    eventually(condition, getattr(condition, "__name__", "the condition"), seconds=seconds)
