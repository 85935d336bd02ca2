"""When something has changed in a folder. Only a wake-up: whoever is woken looks at the whole folder."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from knowledge.pipeline.sources.ignore import FILES

LONGEST_SECONDS: Final = 10.0  #: a folder that is never quiet is told of all the same
TICK_SECONDS: Final = 1.0  #: the longest pause between two answers


def changes(folder: Path, quiet_seconds: float, *, poll: bool, say: Callable[[str], None]) -> Iterator[bool]:
    """True when the folder has changed and was quiet since; False about once a second else. Never ends by itself.

    A folder that goes away is waited for, and watched again when it is back, be it the same or another one.

    Args:
        quiet_seconds: without a change, before it is told.
        poll: look at the files instead of waiting to be told by the system, which knows nothing of network drives.
        say: told once if the system refuses to tell of changes, for instance because it watches too much already.
    """
    while True:
        if _identity(folder) is None:
            time.sleep(TICK_SECONDS)
            yield False
            continue
        yield True  # whatever happened while nobody was watching
        try:
            yield from _while_it_is_there(folder, quiet_seconds, poll=poll)
        except OSError as refused:
            if _identity(folder) is None:  # it went while the watch was being set up
                continue
            if poll:
                raise
            say(f"the system does not tell of changes here ({refused}); looking for them instead")
            poll = True
        yield True  # it went away, or became another one


def _while_it_is_there(folder: Path, quiet_seconds: float, *, poll: bool) -> Iterator[bool]:
    from watchfiles import watch

    known = _identity(folder)
    tick = min(TICK_SECONDS, quiet_seconds)
    events = watch(
        folder,
        watch_filter=None,
        debounce=int(tick * 1000),
        step=50,
        rust_timeout=int(tick * 1000),
        yield_on_timeout=True,
        force_polling=True if poll else None,
        ignore_permission_denied=True,
    )
    began: float | None = None  # of changes that were not passed on yet
    last = 0.0
    with closing(events):
        for told in events:
            now = time.monotonic()
            if any(_matters(folder, path) for _, path in told):
                began, last = (now if began is None else began), now
            is_due = began is not None and (now - last >= quiet_seconds or now - began >= LONGEST_SECONDS)
            if is_due:
                began = None
            yield is_due
            if _identity(folder) != known:
                return


def _matters(folder: Path, changed: str) -> bool:
    """Whether it can have to do with what is taken: hidden entries have not, but ignore files say what is taken."""
    inside = changed.removeprefix(str(folder)).strip("/").split("/")
    return inside[-1] in FILES or not any(part.startswith(".") for part in inside)


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        state = folder.stat()
    except OSError:
        return None
    return state.st_dev, state.st_ino
