"""How far a caller reaches into the files of the host.

Whoever runs the command line may have read what that user may read. A client of the broker need not be the person whose files
these are: it reaches below the import roots only, and so does what it brought in, whoever has that read again later.

A path is judged by where it really lies, its links followed. Between that look and the reading somebody may put a link in the
place of a file or folder on the way, so what was judged is opened part by part, and no link is followed any more.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from knowledge.errors import PathNotAllowed

_STEP: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""On Linux a folder on the way need not be readable, only passable."""


def _nothing(_path: Path) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Reach:
    """Args:
    roots: folders below which files may be read, as real paths; None: anywhere.
    """

    roots: tuple[Path, ...] | None = None

    @property
    def is_confined(self) -> bool:
        return self.roots is not None

    def allows(self, path: Path) -> bool:
        """Whether the path is absolute and, its links followed, lies below one of the roots."""
        return self.roots is None or self._real(path) is not None

    def require(self, path: Path) -> None:
        """Raises `PathNotAllowed` unless `allows`."""
        if not self.allows(path):
            raise PathNotAllowed(path=_shown(path))

    def open(self, path: Path, flags: int, is_own: Callable[[Path], bool] = _nothing) -> int:
        """A descriptor of what lies there.

        Args:
            is_own: asked of the real path of a confined caller; what belongs to Knowledge itself is not opened.

        Raises:
            PathNotAllowed. OSError, ValueError: as `os.open`; so does a link that took a place on the way since the look.
        """
        if self.roots is None:
            return os.open(path, flags | os.O_CLOEXEC)
        real = self._real(path)
        if real is None:
            raise PathNotAllowed(path=_shown(path))
        if is_own(real):
            raise PathNotAllowed("This path belongs to Knowledge itself.", path=_shown(path))
        return _open_unfollowed(real, flags)

    @contextmanager
    def pinned(self, path: Path, is_own: Callable[[Path], bool] = _nothing) -> Iterator[Path]:
        """A path that leads to this file for the length of the block, whatever comes to lie in its place meanwhile.

        Raises:
            PathNotAllowed, OSError, ValueError: as `open`.
        """
        if self.roots is None:
            yield path
            return
        descriptor = self.open(path, os.O_RDONLY | os.O_NONBLOCK, is_own)
        try:
            yield Path(f"/dev/fd/{descriptor}")
        finally:
            os.close(descriptor)

    def names(self, folder: str) -> list[str]:
        """What a folder holds, in no order.

        Raises:
            PathNotAllowed, OSError, ValueError: as `open`.
        """
        descriptor = self.open(Path(folder), os.O_RDONLY | os.O_DIRECTORY)
        try:
            return os.listdir(descriptor)  # noqa: PTH208 - a descriptor is no path
        finally:
            os.close(descriptor)

    def _real(self, path: Path) -> Path | None:
        try:
            real = path.resolve()
        except (OSError, RuntimeError, ValueError):  # a loop of links, a NUL in the name
            return None
        is_below = any(real.is_relative_to(root) for root in self.roots or ())
        return real if path.is_absolute() and is_below else None


ANYWHERE: Final = Reach()


def _open_unfollowed(real: Path, flags: int) -> int:
    """Open a path none of whose parts is a link; the portable form of what `openat2` does on new Linux kernels."""
    folder = os.open(real.anchor, _STEP)
    try:
        for part in real.parts[1:-1]:
            inner = os.open(part, _STEP, dir_fd=folder)
            os.close(folder)
            folder = inner
        return os.open(real.name or ".", flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    finally:
        os.close(folder)


def _shown(path: Path) -> str:
    return os.fsencode(str(path).replace("\x00", "\ufffd")).decode(errors="replace")
