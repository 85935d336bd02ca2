"""The indexes of all bases: opens them, remembers them, and bounds what they hold open."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import apsw

from knowledge.errors import DimensionMismatch, IndexCorrupt, IndexFault, IndexMismatch
from knowledge.pipeline.vectorstore.sqlite.connection import connect
from knowledge.pipeline.vectorstore.sqlite.faults import translated
from knowledge.pipeline.vectorstore.sqlite.process import PerProcess
from knowledge.pipeline.vectorstore.sqlite.schema import lay_out, mount
from knowledge.pipeline.vectorstore.sqlite.soundness import agrees
from knowledge.pipeline.vectorstore.sqlite.store import SqliteIndexStore

MAX_AWAKE: Final = 64  #: stores that keep connections and codes; one used after 64 others opens its file again


class SqliteIndexStores:
    """`IndexStores` over files.

    Args:
        path_of: where the index of a base lies; its directory is made when needed.
        busy_timeout_seconds: how long a call waits for another process's write.
        max_awake: how many bases keep open connections and their codes in memory.
    """

    def __init__(self, path_of: Callable[[str], Path], *, busy_timeout_seconds: float, max_awake: int = MAX_AWAKE) -> None:
        self._path_of = path_of
        self._busy_timeout_seconds = busy_timeout_seconds
        self._max_awake = max_awake
        self._stores: OrderedDict[str, _Known] = OrderedDict()  # least recently opened first
        self._lock = PerProcess(threading.Lock)

    def create(self, base_id: str, dimensions: int | None) -> SqliteIndexStore:
        """See `IndexStores.create`."""
        path = self._path_of(base_id)
        is_new = not self.exists(base_id)
        try:
            with translated(base_id):
                path.parent.mkdir(parents=True, exist_ok=True)
                with closing(connect(path, self._busy_timeout_seconds)) as connection:
                    lay_out(connection, base_id, dimensions)
        except BaseException:
            if is_new:  # a full disk must not leave a file without tables
                with suppress(OSError):
                    _remove(path)
            raise
        return self.open(base_id, dimensions)

    @contextmanager
    def blank(self, base_id: str, dimensions: int | None) -> Iterator[Callable[[], None]]:
        """See `IndexStores.blank`. What a crash leaves beside the index is written over by the next one."""
        path = self._path_of(base_id)
        beside = path.with_name(path.name + "-new")
        try:
            with translated(base_id):
                path.parent.mkdir(parents=True, exist_ok=True)
                _remove(beside)
                with closing(connect(beside, self._busy_timeout_seconds)) as connection:
                    lay_out(connection, base_id, dimensions)
                    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)  # closing would not tell of a full disk

            def put() -> None:
                self.drop(base_id)
                with translated(base_id):
                    beside.replace(path)

            yield put
        finally:
            with suppress(OSError):
                _remove(beside)

    def open(self, base_id: str, dimensions: int | None) -> SqliteIndexStore:
        path = self._path_of(base_id)
        with self._lock():
            known = self._stores.get(base_id)
            if known is not None and known.store.dimensions == dimensions and known.file == _file(path):
                self._stores.move_to_end(base_id)
                self._let_the_oldest_rest()
                return known.store
        store = SqliteIndexStore(path, base_id, dimensions, busy_timeout_seconds=self._busy_timeout_seconds)
        if not _is_there(path, base_id):  # SQLite would make a new one
            raise IndexCorrupt("The index of this base is gone; `item reindex --interrupted` makes it again.", base_id=base_id)
        store.mount()  # outside the lock: it may have to wait for a writer, and other bases need not
        with self._lock():
            replaced = self._stores.pop(base_id, None)
            if replaced is not None:  # its file was replaced, or another thread opened it meanwhile
                replaced.store.rest()
            self._stores[base_id] = _Known(store, _file(path))
            self._let_the_oldest_rest()
        return store

    def is_sound(self, base_id: str, dimensions: int | None) -> bool:
        """See `IndexStores.is_sound`. A connection of its own: what others remember of the file may be the fault."""
        path = self._path_of(base_id)
        if not _is_there(path, base_id):
            return False
        try:
            with translated(base_id), closing(connect(path, self._busy_timeout_seconds)) as connection:
                mount(connection, base_id, dimensions)
                return agrees(connection, dimensions)
        except (IndexMismatch, DimensionMismatch):
            raise
        except IndexFault:
            return False

    def exists(self, base_id: str) -> bool:
        return _is_there(self._path_of(base_id), base_id)

    def drop(self, base_id: str) -> None:
        path = self._path_of(base_id)
        with self._lock():
            known = self._stores.pop(base_id, None)
            if known is not None:
                known.store.close()
            with translated(base_id):
                _remove(path)

    def close(self) -> None:
        with self._lock():
            while self._stores:
                self._stores.popitem()[1].store.close()

    def _let_the_oldest_rest(self) -> None:
        for base_id in islice(reversed(self._stores), self._max_awake, self._max_awake + 1):
            self._stores[base_id].store.rest()


@dataclass(frozen=True, slots=True)
class _Known:
    store: SqliteIndexStore
    file: tuple[int, int] | None


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _is_there(path: Path, base_id: str) -> bool:
    """Whether there is an index. One that cannot be looked at is not gone: what is gone is told as lost.

    Raises:
        StorageFailed: it cannot be told. `Path.exists` answers False to that in newer Pythons, and raises in older ones.
    """
    with translated(base_id):
        try:
            path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True


def _file(path: Path) -> tuple[int, int] | None:
    """Which file lies there now; another process may have dropped the base and made it anew."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
