"""Names of staged files: no two are the same, and each tells whose process made it.

32 hexadecimal digits: 6 of a digest of the host and the namespace of its pids, 6 of the pid, 11 of when the process began, in
milliseconds, and 9 at random.
"""

import hashlib
import re
import secrets
import socket
from pathlib import Path
from typing import Final

from knowledge.model.jobs import Owner
from knowledge.process import is_dead, this_process

_TOKEN: Final = re.compile(r"([0-9a-f]{6})([0-9a-f]{6})([0-9a-f]{11})[0-9a-f]{9}")
_RANDOM_BITS: Final = 36


def new_token() -> str:
    """One of this process."""
    owner = this_process()
    return f"{_host(owner.host)}{owner.pid:06x}{round(owner.started * 1000):011x}{secrets.randbits(_RANDOM_BITS):09x}"


def is_token(name: str) -> bool:
    return _TOKEN.fullmatch(name) is not None


def is_orphan(token: str) -> bool:
    """Whether the process that made it ran on this host and is certainly gone."""
    made = _TOKEN.fullmatch(token)
    here = socket.gethostname()
    if made is None or made[1] != _host(here):
        return False
    return is_dead(Owner(here, int(made[2], 16), int(made[3], 16) / 1000))


def _host(name: str) -> str:
    pids = Path("/proc/self/ns/pid").readlink()  # two containers may go by one name
    return hashlib.sha256(f"{name} {pids}".encode()).hexdigest()[:6]
