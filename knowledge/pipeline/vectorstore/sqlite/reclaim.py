"""Giving space back after deletions. Nothing depends on it, so nothing may fail because of it."""

import logging
from typing import Final

import apsw

from knowledge.pipeline.vectorstore.sqlite.blocks import CodeWriter
from knowledge.pipeline.vectorstore.sqlite.connection import one_row, writing
from knowledge.pipeline.vectorstore.sqlite.writer import NEXT_GENERATION

log = logging.getLogger(__name__)

MIN_FREE_BYTES: Final = 8 << 20
MIN_FREE_SHARE: Final = 0.2
MERGE_PAGES: Final = 256  #: of the word lists a transaction, so that writers come in between


def reclaim(connection: apsw.Connection, base_id: str, dimensions: int | None) -> None:
    """Renew worn code blocks, wipe the words of deleted bodies, shrink the log, and rewrite the file if a fifth of it and
    8 MiB are free.

    Raises:
        apsw.Error: the space could not be given back; nothing is lost.
    """
    if dimensions is not None:
        _renew_worn_codes(connection, dimensions)
    _wipe_words(connection)
    _shrink_log(connection)
    free, pages, page_bytes = (int(connection.pragma(name)) for name in ("freelist_count", "page_count", "page_size"))
    if free * page_bytes < MIN_FREE_BYTES or free < pages * MIN_FREE_SHARE:
        return
    connection.execute("VACUUM")
    _shrink_log(connection)
    log.info(
        "index file rewritten", extra={"base": base_id, "pages_before": pages, "pages": int(connection.pragma("page_count"))}
    )


def _renew_worn_codes(connection: apsw.Connection, dimensions: int) -> None:
    with writing(connection):
        generation, _ = one_row(connection, NEXT_GENERATION)
        codes = CodeWriter(connection, dimensions, generation)
        if codes.worn():
            codes.renew()


def _wipe_words(connection: apsw.Connection) -> None:
    """Merge the word lists into one: only that takes deleted words out of the file.

    FTS5 marks a deleted row of a table without content and skips it from then on; its `secure-delete` needs the words, which
    such a table does not have. Nothing is done if there is one list already and nothing was deleted.
    """
    pages = -MERGE_PAGES  # negative: take up all lists, whatever their size; the calls after it go on with that
    while _merged(connection, pages) or pages < 0:
        pages = MERGE_PAGES


def _merged(connection: apsw.Connection, pages: int) -> bool:
    """Whether there was something to merge; a call that finds nothing still counts as one change."""
    with writing(connection):
        before = connection.total_changes()
        connection.execute("INSERT INTO lexical(lexical, rank) VALUES ('merge', ?)", (pages,))
        return connection.total_changes() - before >= 2


def _shrink_log(connection: apsw.Connection) -> None:
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
