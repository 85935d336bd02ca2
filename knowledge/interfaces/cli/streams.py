"""The standard streams made usable: closed ones, full disks and readers that have gone are no reason for a traceback."""

import errno
import os
import sys
from contextlib import suppress
from typing import IO, Final

NAMES: Final = ("stdin", "stdout", "stderr")


def mend() -> None:
    """Open what the caller closed on the null device, and escape characters that the locale cannot print.

    Without this the next file that is opened, say the catalogue, would get the number of a standard stream.
    """
    for number, name in enumerate(NAMES):
        if getattr(sys, name) is None:
            with suppress(OSError):
                os.fstat(number)
                continue
            os.open(os.devnull, os.O_RDWR)  # gets the least free number: this one
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w"))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def let_go() -> None:
    """Throw away what could not be written, so that the interpreter does not try, and complain, once more at its end."""
    for stream in (sys.stdout, sys.stderr):
        if not flushes(stream):
            with suppress(OSError, ValueError):  # not a stream of the system
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, stream.fileno())
                os.close(null)


def is_full(error: OSError) -> bool:
    """Whether it comes from a stream: errors of files have a name, and those of the data directory a kind of their own."""
    return error.filename is None and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF)


def flushes(stream: IO[str]) -> bool:
    """Whether everything written to it has reached its end."""
    try:
        stream.flush()
    except OSError:
        return False
    return True
