"""A process that ends with the one that started it, at once and however that one ends. Does nothing elsewhere than on Linux."""

import ctypes
import os
import signal
import sys
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def bind_to(parent: int, sent: signal.Signals = signal.SIGKILL) -> None:
    """Have this signal sent to this process when its parent ends; at once if it has ended already.

    The system takes the *thread* that started this process for its parent: only for what a main thread has started.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, sent)
        if os.getppid() != parent:
            os.kill(os.getpid(), sent)
