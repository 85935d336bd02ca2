"""Engines and transactions on the catalogue.

Two engines on one SQLite file, because `synchronous` cannot change inside a transaction: FULL for what a caller was told is
accepted, NORMAL for job progress (a power cut may lose progress, which recovery repairs, never an accepted request).
Writes begin IMMEDIATE: deferred ones fail by the thousand under load. No engine crosses a fork.
"""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, ExceptionContext, create_engine, event
from sqlalchemy.exc import DatabaseError, OperationalError
from sqlalchemy.exc import TimeoutError as NoFreeConnection
from sqlalchemy.pool import NullPool, QueuePool

from knowledge.errors import ConfigurationError, DatabaseBusy, InvalidInput, KnowledgeError, StorageFailed, StorageFull

Tx = Connection  #: an open transaction; everything in `catalog/` takes one

BUSY_TIMEOUT_SECONDS: Final = 30.0
LOG_WAIT_SECONDS: Final = 1.0  #: how long the log's end is waited for; meanwhile nobody else writes
SMALL_BYTES: Final = 16 << 20  #: a file that is rewritten after each delete: some 0.1 s, in which nobody else writes
LARGE_BYTES: Final = 1 << 30  #: a larger one is never rewritten: others would wait to write for too long
CHECKPOINT_PAGES: Final = 4000  #: 16 MB; a checkpoint waits for the disk, and small commits rewrite the same pages
_SIZES: Final = ("user_version", "page_count", "page_size")


class Database:
    """One database; cheap to make, connects when first used.

    Args:
        url: SQLAlchemy URL; only SQLite so far.
        pooled: False opens and closes a connection for each transaction, for processes that fork.
    """

    def __init__(self, url: str, *, pooled: bool = True, busy_timeout_seconds: float = BUSY_TIMEOUT_SECONDS) -> None:
        if not url.startswith("sqlite:///"):
            raise ConfigurationError("Only sqlite:/// databases are supported.", setting="KNOWLEDGE_DATABASE_URL")
        self.url = url
        self.path = Path(url.removeprefix("sqlite:///"))
        self._make = partial(_sqlite_engine, url, pooled=pooled, busy_timeout_seconds=busy_timeout_seconds)
        self._engines: dict[str, Engine] = {}
        self._pid = os.getpid()

    @contextmanager
    def read(self) -> Iterator[Tx]:
        """A consistent view; never waits for writers."""
        with _begun(self._engine("NORMAL"), "BEGIN") as connection:
            yield connection

    @contextmanager
    def write(self, *, durable: bool = False) -> Iterator[Tx]:
        """A write transaction, committed at the end, rolled back on any exception.

        Args:
            durable: flushed to the disk before this returns (admission); else at the next checkpoint (progress).

        Raises:
            DatabaseBusy, StorageFull, StorageFailed.
        """
        with _begun(self._engine("FULL" if durable else "NORMAL"), "BEGIN IMMEDIATE") as connection:
            yield connection

    def truncate_log(self) -> bool:
        """Empty the write-ahead log, where old pages show what was deleted; never fails the caller.

        Returns:
            False: somebody uses it just now; the next one to ask, or the last process to close the catalogue, does it.
        """
        with suppress(KnowledgeError), _translated(self.path), self._engine("NORMAL").connect() as connection:
            run = connection.exec_driver_sql
            (usual,) = run("PRAGMA busy_timeout").one()
            run(f"PRAGMA busy_timeout={round(LOG_WAIT_SECONDS * 1000)}")
            try:
                is_busy, _, _ = run("PRAGMA wal_checkpoint(TRUNCATE)").one()
            finally:
                run(f"PRAGMA busy_timeout={usual}")
            return not is_busy
        return False

    def wipe(self, *, whole: bool = False) -> None:
        """Take out of the file and its log what deleted rows have left there; never fails the caller.

        Rows are overwritten where they lie, but one that once moved to another page has left a copy that only rewriting the
        file reaches. That is done if rows were deleted since the last time and the file is small, or `whole` asks for it and
        it is not very large.
        """
        with suppress(KnowledgeError), _translated(self.path), self._engine("NORMAL").connect() as connection:
            run = connection.exec_driver_sql
            marked, pages, page_bytes = (run(f"PRAGMA {name}").scalar_one() for name in _SIZES)
            if marked and pages * page_bytes <= (LARGE_BYTES if whole else SMALL_BYTES):
                run("VACUUM")
                if self.truncate_log():
                    run("BEGIN IMMEDIATE")
                    if run("PRAGMA user_version").scalar_one() == marked:  # nothing was deleted meanwhile
                        run("PRAGMA user_version=0")
                    run("COMMIT")
        self.truncate_log()

    def dispose(self) -> None:
        """Close every connection of this process."""
        for engine in self._engines.values():
            engine.dispose()
        self._engines.clear()

    def _engine(self, synchronous: str) -> Engine:
        if self._pid != os.getpid():  # forked: leave the parent's connections alone
            for engine in self._engines.values():
                engine.dispose(close=False)
            self._engines.clear()
            self._pid = os.getpid()
        if synchronous not in self._engines:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StorageFailed(f"The catalogue's directory cannot be made: {error.strerror}", file="catalogue") from error
            self._engines[synchronous] = self._make(synchronous=synchronous)
        return self._engines[synchronous]


def mark_deleted(tx: Tx) -> None:
    """Note, inside the transaction that deletes rows with text, that there is something to wipe. No mark is like the last."""
    tx.exec_driver_sql(f"PRAGMA user_version={random.randrange(1, 1 << 31)}")  # noqa: S311 - nothing secret


def _sqlite_engine(url: str, *, pooled: bool, busy_timeout_seconds: float, synchronous: str) -> Engine:
    # One SQLite library per file: the catalogue is opened by this one only, indexes by apsw only.
    from pysqlite3 import dbapi2

    options: dict[str, Any] = (
        {"poolclass": QueuePool, "pool_size": 5, "max_overflow": 20} if pooled else {"poolclass": NullPool}
    )
    engine = create_engine(
        url, module=dbapi2, connect_args={"timeout": busy_timeout_seconds, "check_same_thread": False}, **options
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # we begin transactions ourselves, see `_begun`
        for pragma in (
            "journal_mode=WAL",
            f"synchronous={synchronous}",
            "foreign_keys=ON",
            f"wal_autocheckpoint={CHECKPOINT_PAGES}",
            "secure_delete=ON",  # what is deleted is overwritten, so that its words are not left in free pages
        ):
            connection.execute(f"PRAGMA {pragma}").fetchall()

    @event.listens_for(engine, "handle_error")
    def _give_up(context: ExceptionContext) -> None:
        """Connections that were opened while the file could only be read never write; others are opened in their place."""
        if "readonly" in str(context.original_exception):
            context.is_disconnect = True

    return engine


@contextmanager
def _begun(engine: Engine, begin: str) -> Iterator[Tx]:
    """A transaction begun by this statement. Not by a listener to the engine: then every statement would look for listeners."""
    with _translated(engine.url.database), engine.connect() as connection, connection.begin():
        connection.exec_driver_sql(begin)
        yield connection


@contextmanager
def _translated(path: Path | str | None) -> Iterator[None]:
    try:
        yield
    except DatabaseError as error:
        raise translate(error, Path(path or "").name) or error from error
    except NoFreeConnection as error:
        raise DatabaseBusy from error
    except UnicodeEncodeError as error:  # half a surrogate pair: no text that anything here could have been called
        raise InvalidInput("This holds characters that are no text.") from error
    except OverflowError as error:  # the driver's: whoever takes numbers in bounds them; this is for the one that was forgotten
        raise InvalidInput("This holds a number that is too large to be kept.") from error


def translate(error: DatabaseError, file: str) -> KnowledgeError | None:
    """The typed error behind a driver's, if it is one of the environment (lock, disk); None for faults of ours.

    Args:
        file: the name of the database, for people: there are two, the catalogue and the store of paid vectors.
    """
    text = str(error.orig).lower()
    if "malformed" in text or "not a database" in text:
        return StorageFailed(f"{file} is damaged: {error.orig}", file=file)
    if isinstance(error, OperationalError):
        if "locked" in text or "busy" in text:
            return DatabaseBusy()
        if "disk is full" in text:
            return StorageFull(f"There is no space left for {file}.", file=file)
        if "unable to open" in text or "disk i/o" in text or "readonly" in text:
            return StorageFailed(f"{file} could not be used: {error.orig}", file=file)
    return None
