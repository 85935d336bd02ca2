"""The durable mark that text was taken out of an index file and is still to be wiped: SQLite's `user_version`.

It is the generation of the last write that took text out, 0 once everything has been wiped since. It changes in the transaction
that takes the text out, so no crash parts the two.
"""

from typing import Final

import apsw

from knowledge.pipeline.vectorstore.sqlite.connection import writing

_WIPED: Final = 0
_LARGEST: Final = (1 << 31) - 1


def put(connection: apsw.Connection, generation: int) -> None:
    """Inside the transaction of this generation."""
    connection.pragma("user_version", generation % _LARGEST + 1)


def found(connection: apsw.Connection) -> int:
    """The mark; 0 if there is nothing to wipe."""
    return int(connection.pragma("user_version"))


def clear(connection: apsw.Connection, seen: int) -> None:
    """What this mark stood for has been wiped. Generations only grow, so one that is still the same is of nothing newer."""
    with writing(connection):
        if found(connection) == seen:
            connection.pragma("user_version", _WIPED)
