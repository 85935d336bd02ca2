"""Connections to one index file: how they are set up, who has one, and what closing and forking mean for them."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import apsw

from knowledge.errors import Unavailable
from knowledge.pipeline.vectorstore.sqlite.faults import INDEX_CLOSED
from knowledge.pipeline.vectorstore.sqlite.process import PerProcess

PAGE_BYTES: Final = 8192  #: five float32 vectors of 384 dimensions a page; at 4,096 two, and a quarter of it wasted
MMAP_BYTES: Final = 8 << 30
CACHE_KIB: Final = 8192  #: per connection; reads mostly come from the memory map
CHECKPOINT_PAGES: Final = 2000


@dataclass(slots=True)
class _Opened:
    """The connections of one process."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    idle: list[apsw.Connection] = field(default_factory=list)
    leased: list[apsw.Connection] = field(default_factory=list)


class Connections:
    """Lends each caller a connection that no other thread uses meanwhile; the most recently used one first."""

    def __init__(self, path: Path, busy_timeout_seconds: float, prepare: Callable[[apsw.Connection], None]) -> None:
        self._path = path
        self._busy_timeout_seconds = busy_timeout_seconds
        self._prepare = prepare
        self._closed = False
        self._opened = PerProcess(_Opened)

    @contextmanager
    def lease(self) -> Iterator[apsw.Connection]:
        """A connection for the length of the block.

        Raises:
            Unavailable: the store was closed before or during the block.
        """
        opened = self._opened()
        connection = self._take(opened)
        try:
            yield connection
        except apsw.Error as error:
            if self._closed:
                raise Unavailable(INDEX_CLOSED) from error
            raise
        finally:
            self._give_back(opened, connection)

    def rest(self) -> None:
        """Close the connections that nobody uses now; the next caller opens a new one."""
        opened = self._opened()
        with opened.lock:
            idle, opened.idle = opened.idle, []
        for connection in idle:
            connection.close()

    def close(self) -> None:
        """Close all; those in use are interrupted and closed when they come back."""
        self._closed = True
        opened = self._opened()
        with opened.lock:
            for connection in opened.leased:
                connection.interrupt()
        self.rest()

    def _take(self, opened: _Opened) -> apsw.Connection:
        with opened.lock:
            if self._closed:
                raise Unavailable(INDEX_CLOSED)
            if opened.idle:
                connection = opened.idle.pop()
                opened.leased.append(connection)
                return connection
        connection = connect(self._path, self._busy_timeout_seconds)
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        with opened.lock:
            opened.leased.append(connection)
        return connection

    def _give_back(self, opened: _Opened, connection: apsw.Connection) -> None:
        if opened is not self._opened():  # forked inside the block
            return
        with opened.lock:
            opened.leased.remove(connection)
            # One that was opened while the file could only be read never writes, also not when the file can be written again.
            if not self._closed and not connection.readonly("main"):
                opened.idle.append(connection)
                return
        connection.close()


def connect(path: Path, busy_timeout_seconds: float) -> apsw.Connection:
    """Open or create an index file.

    Raises:
        apsw.Error: it cannot be opened or is no database.
    """
    connection = apsw.Connection(str(path), statementcachesize=64)
    try:
        # First of all: even switching to WAL waits for a lock. A string of several pragmas would stop at the first that
        # returns a row, hence one call each.
        connection.set_busy_timeout(round(busy_timeout_seconds * 1000))
        connection.pragma("page_size", PAGE_BYTES)
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", "normal")
        connection.pragma("mmap_size", MMAP_BYTES)
        connection.pragma("cache_size", -CACHE_KIB)
        connection.pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
        connection.pragma("secure_delete", 1)  # no words in free pages; the value "fast" would leave them in whole ones
    except BaseException:
        connection.close()
        raise
    return connection


def one_row(connection: apsw.Connection, sql: str, bindings: tuple[Any, ...] = ()) -> tuple[Any, ...]:
    """The row of a statement that always has exactly one."""
    (row,) = connection.execute(sql, bindings).fetchall()
    return row


@contextmanager
def writing(connection: apsw.Connection) -> Iterator[None]:
    """One write transaction. It takes the write lock at once: a reader that turns writer later cannot wait for it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def reading(connection: apsw.Connection) -> Iterator[None]:
    """One read transaction: all its statements see the same commit."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
