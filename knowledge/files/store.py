"""What stores the bytes a base owns. `path` arguments are relative to the base's `raw/`, POSIX and guarded (`paths.py`)."""

from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from knowledge.files.reach import ANYWHERE, Reach


@dataclass(frozen=True, slots=True)
class Staged:
    """Bytes copied beside `raw/`, not yet part of the base."""

    base_id: str
    token: str
    size: int


class RawFiles(Protocol):
    """Every method raises `UnsafePath`, `StorageFull` or `StorageFailed`, never an `OSError`."""

    def stage_file(self, base_id: str, source: Path, reach: Reach = ANYWHERE) -> Staged:
        """Copy a file beside `raw/` and make it durable; needs no lock.

        Args:
            reach: whose request it is. Judged of the file that is opened, so nobody can put another one in its place.

        Raises:
            PathNotFound, PathUnreadable, PathNotAllowed: the source, before anything was kept.
        """
        ...

    def stage_stream(self, base_id: str, source: IO[bytes]) -> Staged:
        """Copy what a stream gives, to its end, and make it durable."""
        ...

    def stage_text(self, base_id: str, text: str, *, durable: bool = True) -> Staged: ...

    def publish(self, staged: Staged, path: str, *, overwrite: bool = False) -> None:
        """Rename staged bytes to their place; parents are made. Refuses an existing target unless `overwrite`."""
        ...

    def link(self, base_id: str, path: str, other: str) -> None:
        """The bytes at `path` have `other` as a second path; parents are made. Refuses an existing target.

        Raises:
            SourceMissing: there are none at `path`.
        """
        ...

    def sync(self, base_id: str, paths: Iterable[str]) -> None:
        """Make the directory entries of these paths durable; called once per batch, before the rows are committed."""
        ...

    def discard(self, staged: Iterable[Staged]) -> None:
        """Forget staged bytes; best effort."""
        ...

    def local(self, base_id: str, path: str) -> AbstractContextManager[Path]:
        """A real file to read from.

        Raises:
            SourceMissing: there is none.
        """
        ...

    def holds(self, path: Path) -> bool:
        """Whether a path of the host is Knowledge's own, links and `..` resolved: such files are never imported."""
        ...

    def path(self, base_id: str, path: str) -> Path:
        """Where this would lie on the host; nothing is looked up."""
        ...

    def exists(self, base_id: str, path: str) -> bool: ...

    def remove(self, base_id: str, paths: Collection[str], trees: Collection[str] = ()) -> None:
        """Unlink files and whole trees, then parent folders left empty (never `raw/`); absent ones are fine."""
        ...

    def remove_base(self, base_id: str) -> None:
        """Remove everything of a base, its index included; absent is fine."""
        ...

    def leftovers(self, base_id: str, older_than_seconds: float) -> list[Staged]:
        """Staged bytes that nobody published in this time, or whose process is gone."""
        ...

    def work_folder(self, base_id: str, name: str) -> Path:
        """A folder of this host where another process may work on files of this base; made if it is not there.

        Args:
            name: small letters, digits and hyphens.
        """
        ...

    def work_folders(self, base_id: str) -> list[str]:
        """Their names."""
        ...

    def remove_work_folder(self, base_id: str, name: str) -> None:
        """With all that is in it; absent is fine."""
        ...

    def base_ids(self) -> list[str]:
        """Bases that have anything here, whether or not they still exist elsewhere."""
        ...

    def listing(self, base_id: str) -> Iterable[tuple[str, float]]:
        """Every file below `raw/` as (path, modification time in seconds since the epoch)."""
        ...

    def empty_folders(self, base_id: str) -> list[str]:
        """Folders below `raw/` that hold nothing at all."""
        ...

    def remove_empty(self, base_id: str, folders: Iterable[str]) -> None:
        """Remove those of these folders that are empty, then parents left empty. The base lock must be held."""
        ...
