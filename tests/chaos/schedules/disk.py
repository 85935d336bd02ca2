"""The disk of the bases, and what can be wrong with it: it is full, or a folder may not be written to or looked into.

The faults are the kernel's own. For a full disk the bases get a file system of their own, a small one in memory, mounted where
nobody but this run and its children sees it; that needs the right to mount. Where it is missing, a full disk is struck as a
folder that may not be written to, and the report says so. Modes bind root as well, see `Fleet`.
"""

import ctypes
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

BYTES: Final = 48 << 20
_BALLAST_BYTES: Final = 1 << 20
_PLACES: Final = ("raw", "staging", ".knowledge", ".")
_NEW_MOUNTS: Final = 0x20000  #: CLONE_NEWNS
_NEW_USERS: Final = 0x10000000  #: CLONE_NEWUSER
_PRIVATE_ALL: Final = 0x44000  #: MS_REC | MS_PRIVATE
_DETACH: Final = 2  #: MNT_DETACH


def own_mounts() -> bool:
    """Give this process, and those that it starts, a view of mounts that ends with them. Only before any thread is started."""
    probe = os.fork()  # what fails half way cannot be taken back
    if probe == 0:
        with suppress(OSError):
            os._exit(0 if _enter() else 1)
        os._exit(1)
    return os.waitpid(probe, 0)[1] == 0 and _enter()


def _enter() -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if libc.unshare(_NEW_MOUNTS) != 0:
        if libc.unshare(_NEW_MOUNTS | _NEW_USERS) != 0:
            return False
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    return bool(libc.mount(b"none", b"/", None, _PRIVATE_ALL, None) == 0)


class Disk:
    """See the module.

    Args:
        bases: the folder of all bases; made here.
        is_own: whether `own_mounts` has succeeded.
    """

    def __init__(self, bases: Path, *, is_own: bool) -> None:
        self._bases = bases
        bases.mkdir(mode=0o700, parents=True, exist_ok=True)
        libc = ctypes.CDLL(None, use_errno=True)
        options = f"size={BYTES},mode=700".encode()
        self.can_be_full = is_own and libc.mount(b"tmpfs", os.fsencode(bases), b"tmpfs", 0, options) == 0
        self._libc = libc
        self._ballast = bases / "ballast"
        self._shut: list[Path] = []

    def fill(self) -> None:
        """Not one further byte."""
        with suppress(OSError), self._ballast.open("wb", buffering=0) as file:
            for size in (_BALLAST_BYTES, 4096, 1):
                with suppress(OSError):
                    while file.write(bytes(size)):
                        pass

    def shut(self, base_id: str, pick: int) -> None:
        """One of a base's folders, with the files in it, may not be written to; every third time not even be looked into."""
        folder = self._bases / base_id / _PLACES[pick % len(_PLACES)]
        right = 0 if pick // len(_PLACES) % 3 == 0 else 0o500
        if folder.is_dir():
            for path in (*folder.iterdir(), folder):
                with suppress(FileNotFoundError):
                    path.chmod(right if path.is_dir() else right & 0o400)
            self._shut.append(folder)

    def mend(self) -> None:
        self._ballast.unlink(missing_ok=True)
        while self._shut:
            folder = self._shut.pop()
            with suppress(FileNotFoundError):
                folder.chmod(0o700)
                for path in folder.iterdir():
                    path.chmod(0o700 if path.is_dir() else 0o600)

    def close(self) -> None:
        """Give the memory back."""
        self.mend()
        if self.can_be_full:
            self._libc.umount2(os.fsencode(self._bases), _DETACH)
