"""SQLite's errors as ours: the only place that knows apsw's exception classes."""

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import apsw

from knowledge.errors import DatabaseBusy, IndexCorrupt, IndexFault, KnowledgeError, StorageFailed, StorageFull, Unavailable

INDEX_CLOSED: Final = "The index of this base was closed during the call; try again."
INDEX_BUSY: Final = "The index of this base is locked by another writer; try again in a moment."

FAULTS: Final[Mapping[type[apsw.Error], tuple[type[KnowledgeError], str | None]]] = {
    apsw.FullError: (StorageFull, None),
    apsw.BusyError: (DatabaseBusy, INDEX_BUSY),
    apsw.LockedError: (DatabaseBusy, INDEX_BUSY),
    apsw.SchemaChangeError: (DatabaseBusy, INDEX_BUSY),
    apsw.ProtocolError: (DatabaseBusy, INDEX_BUSY),  # the WAL's own locks were contended for too long
    apsw.CorruptError: (IndexCorrupt, None),
    apsw.NotADBError: (IndexCorrupt, None),
    apsw.FormatError: (IndexCorrupt, None),
    apsw.SQLError: (IndexCorrupt, None),  # a table or column is not there: what we ask never changes, so the file did
    apsw.IOError: (StorageFailed, None),
    apsw.CantOpenError: (StorageFailed, None),
    apsw.ReadOnlyError: (StorageFailed, None),
    apsw.PermissionsError: (StorageFailed, None),
    apsw.InterruptError: (Unavailable, INDEX_CLOSED),
    apsw.AbortError: (Unavailable, INDEX_CLOSED),
    apsw.ConnectionClosedError: (Unavailable, INDEX_CLOSED),
    apsw.CursorClosedError: (Unavailable, INDEX_CLOSED),
}
"""What each of SQLite's errors means to a caller; any other is a plain `IndexFault`."""


_NONSENSE: Final = (ValueError, TypeError, LookupError, ArithmeticError)
"""What reading ends in where bytes changed inside a value: text that is no UTF-8, odd sizes, missing rows."""


@contextmanager
def translated(base_id: str) -> Iterator[None]:
    """Raise our errors in place of SQLite's and the file system's."""
    try:
        yield
    except apsw.Error as error:
        kind, message = FAULTS.get(type(error), (IndexFault, None))
        raise kind(message, base_id=base_id, reason=f"{type(error).__name__}: {error}") from error
    except _NONSENSE as error:
        raise IndexCorrupt(base_id=base_id, reason=f"{type(error).__name__}: {error}") from error
    except OSError as error:
        kind = StorageFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else StorageFailed
        raise kind(base_id=base_id, reason=str(error)) from error
