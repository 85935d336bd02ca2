"""Waiting for a condition, never for a time."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

POLL_SECONDS: Final = 0.03

Found = TypeVar("Found")


def eventually(condition: Callable[[], Found], what: str, *, seconds: float = 15.0) -> Found:
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


def wait_until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Return once the condition is true, where its name says what is waited for."""
    eventually(condition, getattr(condition, "__name__", "the condition"), seconds=seconds)
