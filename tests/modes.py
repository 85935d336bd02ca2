"""File modes that bind root as well: the two capabilities that let it pass them are given up."""

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_BEYOND_MODES: Final = (1, 2)  #: CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
_PR_CAPBSET_DROP: Final = 24
_VERSION_3: Final = 0x20080522


def bound_by_modes() -> Callable[[], None]:
    """For the child, between fork and exec: whatever is exec'd cannot have them."""
    libc = ctypes.CDLL(None)

    def bind() -> None:
        if os.geteuid() == 0:
            for capability in _BEYOND_MODES:
                libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)

    return bind


@contextmanager
def modes_bind_us() -> Iterator[None]:
    """They are given up by this thread for the length of the block."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, before = (ctypes.c_uint32 * 2)(_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    if libc.capget(header, before) != 0:
        raise OSError(ctypes.get_errno(), "capget")
    without = (ctypes.c_uint32 * 6)(*before)
    for capability in _BEYOND_MODES:
        without[0] &= ~(1 << capability)  # effective; they stay permitted, so that they can be taken up again
    if libc.capset(header, without) != 0:
        raise OSError(ctypes.get_errno(), "capset")
    try:
        yield
    finally:
        libc.capset(header, before)
