"""The time, asked for in one place: whatever waits, expires or ages can be tested without letting real time pass.

Call these through the module (`clock.monotonic()`), so that a test can put its own in their place.
"""

import time


def seconds() -> float:
    """Since the epoch."""
    return time.time()


def monotonic() -> float:
    """Seconds since some moment; never goes back."""
    return time.monotonic()


def sleep(seconds: float) -> None:
    time.sleep(seconds)
