"""Work on hostile files in a process of its own for each step, with limits on its memory and time.

Only for a process with one thread: the step runs in a fork of it. Its result comes back through files.
"""

import errno
import os
import resource
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from knowledge.pipeline.readers.bound import bind_to

_POLL_SECONDS: Final = 0.01
_FAILED: Final = 3  #: exit code of a step that raised
_NO_MEMORY: Final = 4
_NO_SPACE: Final = 5
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class StepFailed(Exception):
    """The step did not do its work: it raised, was killed by a signal, or took too long."""


class NoSpace(StepFailed):
    """The disk is full: nothing is wrong with the file."""


def apart(step: Callable[[], None], *, seconds: float, memory_bytes: int) -> None:
    """Run a step in a fork of this process.

    Raises:
        StepFailed: with the reason in one or two words. NoSpace: one of its kinds.
    """
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        code = _FAILED
        try:
            bind(parent, memory_bytes)
            step()
            code = 0
        except MemoryError:
            code = _NO_MEMORY
        except OSError as error:
            code = _NO_SPACE if error.errno in FULL else _FAILED
        finally:
            os._exit(code)
    until = time.monotonic() + seconds
    while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0):
        if time.monotonic() > until:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise StepFailed(f"more than {seconds:.0f} s")
        time.sleep(_POLL_SECONDS)
    code = os.waitstatus_to_exitcode(ended[1])
    if code == 0:
        return
    if code == _NO_SPACE:
        raise NoSpace("no space left")
    raise StepFailed("out of memory" if code == _NO_MEMORY else f"signal {-code}" if code < 0 else "it cannot be read")


def bind(parent: int, memory_bytes: int) -> None:
    """For a new process: it dies with its parent, and gets no more memory than this. Private data counts, not mapped files."""
    for limit, value in ((resource.RLIMIT_DATA, memory_bytes), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(limit)[1]
        with suppress(OSError, ValueError):
            resource.setrlimit(limit, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))
    bind_to(parent)
