"""Can a source be read again? Missing and unverifiable are different answers: only the first says that it is gone."""

import errno
import os
import stat
from enum import StrEnum
from typing import Final

_GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})


class Probe(StrEnum):
    READABLE = "readable"
    MISSING = "missing"  #: the system says that it does not exist, or it is of another kind, or no path at all
    UNVERIFIABLE = "unverifiable"  #: any other trouble: rights, a network drive, a failing disk; try again later


def probe_file(source: str) -> Probe:
    """Whether the plain file at this absolute path can be opened for reading; links are followed."""
    return _probe(source, directory=False)


def probe_directory(source: str) -> Probe:
    """Whether the directory at this absolute path can be listed; links are followed."""
    return _probe(source, directory=True)


def _probe(source: str, *, directory: bool) -> Probe:
    if "\x00" in source or not os.path.isabs(source):  # noqa: PTH117 - a path may hold surrogates; no object is needed
        return Probe.MISSING
    try:
        descriptor = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            mode = os.fstat(descriptor).st_mode
        finally:
            os.close(descriptor)
        if directory and stat.S_ISDIR(mode):
            with os.scandir(source) as entries:
                next(entries, None)
    except OSError as error:
        return Probe.MISSING if error.errno in _GONE else Probe.UNVERIFIABLE
    except UnicodeEncodeError:
        return Probe.MISSING
    is_kind = stat.S_ISDIR(mode) if directory else stat.S_ISREG(mode)
    return Probe.READABLE if is_kind else Probe.MISSING
