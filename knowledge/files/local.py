"""The bytes of bases on a local disk.

{root}/bases/{base_id}/raw/         what items own
{root}/bases/{base_id}/staging/     bytes on their way in; one file a token
{root}/bases/{base_id}/.knowledge/  the index (not ours)

Paths are walked part by part from `raw/` without following symbolic links, so that a link planted inside can neither show nor
change anything outside. A staged file is published by a rename inside one file system. Every entry is private to its owner.
"""

import errno
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Final

from knowledge import clock
from knowledge.errors import PathNotFound, PathUnreadable, SourceMissing, StorageFailed, UnsafePath
from knowledge.files import disk, outside
from knowledge.files.paths import RESERVED, guard, guard_base
from knowledge.files.reach import ANYWHERE, Reach
from knowledge.files.store import Staged
from knowledge.files.token import is_orphan, is_token, new_token

_DATABASE_ENDS: Final = ("", "-wal", "-shm", "-journal")  #: what SQLite lays beside a database
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})
_SURROGATES: Final = re.compile(r"[\ud800-\udfff]")
_WORK_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,99}")


class LocalRawFiles:
    """Implements `RawFiles` below one directory, which is made when it is first needed.

    Args:
        own: databases elsewhere that are Knowledge's as well: the catalogue, if it does not lie below `root`.
    """

    def __init__(self, root: Path, own: Collection[Path] = ()) -> None:
        self._root = root.absolute()
        self._own = tuple(path.absolute() for path in own)
        self._bases = self._root / "bases"

    def stage_file(self, base_id: str, source: Path, reach: Reach = ANYWHERE) -> Staged:
        """See `RawFiles.stage_file`. A file that changes meanwhile is refused: its copy would be of no moment that ever was."""
        with outside.opened(source, reach, self.holds) as (reading, before), self._new_staged(base_id) as (token, writing):
            size = outside.copy(reading, writing, source)
            after = os.fstat(reading)
            if after.st_nlink == 0:
                raise PathNotFound("This file was removed while it was being copied.", path=outside.shown(source))
            if (size, after.st_mtime_ns, after.st_size) != (before.st_size, before.st_mtime_ns, before.st_size):
                raise PathUnreadable("This file changed while it was being copied; try again.", path=outside.shown(source))
            with disk.storage(base_id):
                os.fsync(writing)
        return Staged(base_id=base_id, token=token, size=size)

    def stage_stream(self, base_id: str, source: IO[bytes]) -> Staged:
        size = 0
        with self._new_staged(base_id) as (token, writing):
            while data := source.read(outside.CHUNK_BYTES):
                with disk.storage(base_id):
                    disk.write(writing, data)
                size += len(data)
            with disk.storage(base_id):
                os.fsync(writing)
        return Staged(base_id=base_id, token=token, size=size)

    def stage_text(self, base_id: str, text: str, *, durable: bool = True) -> Staged:
        """See `RawFiles.stage_text`. UTF-8; lone surrogates become U+FFFD.

        Args:
            durable: False where the text can be written again, because a row holds it.
        """
        data = _SURROGATES.sub("\ufffd", text).encode()
        with self._new_staged(base_id) as (token, writing), disk.storage(base_id):
            disk.write(writing, data)
            if durable:
                os.fsync(writing)
        return Staged(base_id=base_id, token=token, size=len(data))

    def publish(self, staged: Staged, path: str, *, overwrite: bool = False) -> None:
        """See `RawFiles.publish`. The caller holds the base lock; without it two publishers could pick one name."""
        guard(path)
        with disk.storage(staged.base_id, path=path), self._folder_of(staged.base_id, path, create=True) as folder:
            if folder is None:
                raise _crossing(path)
            name = PurePosixPath(path).name
            if not overwrite and disk.entry(name, folder) is not None:
                raise StorageFailed("There is already a file at this path.", base_id=staged.base_id, path=path)
            os.rename(self._staged_path(staged), name, dst_dir_fd=folder)

    def link(self, base_id: str, path: str, other: str) -> None:
        """See `RawFiles.link`. Where the file system has no hard links, they are copied."""
        with self.local(base_id, path) as place:
            with disk.storage(base_id, path=other), self._folder_of(base_id, guard(other), create=True) as folder:
                if folder is None:
                    raise _crossing(other)
                try:
                    return os.link(place, PurePosixPath(other).name, dst_dir_fd=folder, follow_symlinks=False)
                except OSError as error:
                    if error.errno not in _NO_LINKS:
                        raise
            return self.publish(self.stage_file(base_id, place), other)

    def sync(self, base_id: str, paths: Iterable[str]) -> None:
        """See `RawFiles.sync`. Each folder on the way is synced once, deepest first, since it may be new as well."""
        base = self._base(base_id)
        inner = {parent for path in paths for parent in PurePosixPath(guard(path)).parents}
        with disk.storage(base_id):
            for parent in sorted(inner, key=lambda place: len(place.parts), reverse=True):
                disk.sync_folder(base / "raw" / parent)
            for folder in (base, self._bases, self._bases.parent):
                disk.sync_folder(folder)

    def discard(self, staged: Iterable[Staged]) -> None:
        for one in staged:
            with suppress(OSError):
                self._staged_path(one).unlink(missing_ok=True)

    @contextmanager
    def local(self, base_id: str, path: str) -> Iterator[Path]:
        guard(path)
        with disk.storage(base_id, path=path), self._folder_of(base_id, path) as folder:
            found = None if folder is None else disk.entry(PurePosixPath(path).name, folder)
        if found is None:
            raise SourceMissing(base_id=base_id, path=path)
        if not stat.S_ISREG(found.st_mode):
            raise UnsafePath(base_id=base_id, path=path, reason="not a plain file")
        yield self._base(base_id) / "raw" / path

    def holds(self, path: Path) -> bool:
        """See `RawFiles.holds`. Every file below the root counts: bytes of all bases, databases, the broker's password, logs.

        What is asked for is compared by where it really lies, whatever links or `..` lead there. A live database must not even
        be opened: when it is closed again, the process loses its locks.
        """
        try:
            real = os.path.realpath(path)
        except ValueError:  # a NUL inside: nothing lies there
            return False
        root = os.path.realpath(self._root)
        if real == root or real.startswith(f"{root.rstrip('/')}/"):
            return True
        return any(real == f"{os.path.realpath(own)}{end}" for own in self._own for end in _DATABASE_ENDS)

    def path(self, base_id: str, path: str) -> Path:
        return self._base(base_id) / "raw" / guard(path)

    def exists(self, base_id: str, path: str) -> bool:
        """Whether this name is taken, by a file, a folder or anything else."""
        guard(path)
        with disk.storage(base_id, path=path), self._folder_of(base_id, path) as folder:
            return folder is not None and disk.entry(PurePosixPath(path).name, folder) is not None

    def remove(self, base_id: str, paths: Collection[str], trees: Collection[str] = ()) -> None:
        """See `RawFiles.remove`. A symbolic link is removed itself, never what it points to, nor anything behind it."""
        for path in (*paths, *trees):
            guard(path)
        for path in trees:
            with disk.storage(base_id, path=path), self._folder_of(base_id, path) as folder:
                if folder is not None:
                    disk.remove_tree(PurePosixPath(path).name, folder)
        by_folder: dict[str, list[str]] = {}
        for path in paths:
            by_folder.setdefault(path.rpartition("/")[0], []).append(path)
        for inside in by_folder.values():
            with disk.storage(base_id, path=inside[0]), self._folder_of(base_id, inside[0]) as folder:
                for path in inside if folder is not None else ():
                    with disk.storage(base_id, path=path), suppress(FileNotFoundError):
                        os.unlink(path.rpartition("/")[2], dir_fd=folder)
        self.remove_empty(base_id, (path.rpartition("/")[0] for path in (*paths, *trees)))

    def remove_base(self, base_id: str) -> None:
        """See `RawFiles.remove_base`. Who still brings bytes in may fill the folder meanwhile, so it is emptied again."""
        guard_base(base_id)
        with disk.storage(base_id):
            try:
                folder = os.open(self._bases, disk.FOLDER)
            except FileNotFoundError:
                return
            try:
                disk.remove_filling(base_id, folder)
            finally:
                os.close(folder)

    def leftovers(self, base_id: str, older_than_seconds: float) -> list[Staged]:
        staging = self._base(base_id) / "staging"
        limit = clock.seconds() - older_than_seconds
        found = []
        with disk.storage(base_id):
            for entry in disk.entries(staging):
                with suppress(FileNotFoundError):  # published or discarded meanwhile
                    state = entry.stat(follow_symlinks=False)
                    if is_token(entry.name) and (state.st_mtime <= limit or is_orphan(entry.name)):
                        found.append(Staged(base_id=base_id, token=entry.name, size=state.st_size))
        return found

    def work_folder(self, base_id: str, name: str) -> Path:
        folder = self._work_folder(base_id, name)
        with disk.storage(base_id):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def work_folders(self, base_id: str) -> list[str]:
        with disk.storage(base_id):
            entries = disk.entries(self._base(base_id) / "staging")
            return sorted(
                entry.name
                for entry in entries
                if _WORK_NAME.fullmatch(entry.name) and not is_token(entry.name) and entry.is_dir(follow_symlinks=False)
            )

    def remove_work_folder(self, base_id: str, name: str) -> None:
        folder = self._work_folder(base_id, name)
        with disk.storage(base_id):
            try:
                staging = os.open(folder.parent, disk.FOLDER)
            except FileNotFoundError:
                return
            try:
                disk.remove_tree(name, staging)
            finally:
                os.close(staging)

    def _work_folder(self, base_id: str, name: str) -> Path:
        if not _WORK_NAME.fullmatch(name) or is_token(name):
            raise UnsafePath(base_id=base_id, reason="not the name of a work folder")
        return self._base(base_id) / "staging" / name

    def base_ids(self) -> list[str]:
        """See `RawFiles.base_ids`. What lies there under a name that no base could have is not ours."""
        with disk.storage():
            return sorted(entry.name for entry in disk.entries(self._bases) if _is_base(entry))

    def listing(self, base_id: str) -> Iterator[tuple[str, float]]:
        """See `RawFiles.listing`. Lazy; folders are not listed, links are listed and not followed."""
        raw = self._base(base_id) / "raw"
        pending = [""]
        while pending:
            inside = pending.pop()
            with disk.storage(base_id):
                entries = disk.entries(raw / inside)
            for entry in entries:
                path = f"{inside}{entry.name}"
                with disk.storage(base_id, path=path):
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(f"{path}/")
                        continue
                    try:
                        changed = entry.stat(follow_symlinks=False).st_mtime
                    except FileNotFoundError:
                        continue
                yield path, changed

    def empty_folders(self, base_id: str) -> list[str]:
        raw = self._base(base_id) / "raw"
        found: list[str] = []
        pending = [""]
        while pending:
            inside = pending.pop()
            with disk.storage(base_id):
                entries = disk.entries(raw / inside)
                pending.extend(f"{inside}{entry.name}/" for entry in entries if entry.is_dir(follow_symlinks=False))
            if inside and not entries:
                found.append(inside.rstrip("/"))
        return found

    def remove_empty(self, base_id: str, folders: Iterable[str]) -> None:
        places = {place for folder in set(folders) for place in (PurePosixPath(folder), *PurePosixPath(folder).parents)}
        for parent in sorted(places, key=lambda place: len(place.parts), reverse=True):
            if not parent.parts:
                continue
            guard(str(parent))
            with disk.storage(base_id, path=str(parent)), self._folder_of(base_id, str(parent)) as folder:
                if folder is None:
                    continue
                try:
                    os.rmdir(parent.name, dir_fd=folder)
                except OSError as error:
                    if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                        raise

    def _base(self, base_id: str) -> Path:
        return self._bases / guard_base(base_id)

    def index_folder(self, base_id: str) -> Path:
        """Where the index of a base lies; made by whoever writes it."""
        return self._base(base_id) / RESERVED

    def _staged_path(self, staged: Staged) -> Path:
        if not is_token(staged.token):
            raise UnsafePath(reason="not a staging token")
        return self._base(staged.base_id) / "staging" / staged.token

    @contextmanager
    def _new_staged(self, base_id: str) -> Iterator[tuple[str, int]]:
        """A fresh file to write to; gone again if the body raises."""
        token = new_token()
        target = self._base(base_id) / "staging" / token
        with disk.storage(base_id):
            try:
                writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            yield token, writing
        except BaseException:
            with suppress(OSError):
                target.unlink()
            raise
        finally:
            os.close(writing)

    def _folder_of(self, base_id: str, path: str, *, create: bool = False) -> AbstractContextManager[int | None]:
        """A descriptor of the folder that holds `path`, reached without following links; None if there is no such folder."""
        return disk.parent_of(self._base(base_id) / "raw", path, create=create)


def _is_base(entry: os.DirEntry[str]) -> bool:
    try:
        guard_base(entry.name)
    except UnsafePath:
        return False
    return entry.is_dir(follow_symlinks=False)


def _crossing(path: str) -> UnsafePath:
    return UnsafePath(path=path, reason="a file or a link is in the way")
