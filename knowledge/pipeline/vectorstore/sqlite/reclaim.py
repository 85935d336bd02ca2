"""Wiping what was deleted, and giving its space back. No answer depends on it, so nothing may fail because of it.

SQLite's `secure_delete` overwrites deleted rows where they lie. Their words stay all the same in the log, in FTS5's word lists,
and in the free middle of pages, where a row that once moved to a neighbour left a copy. Only rewriting the file clears that.
"""

import logging
from typing import Final

import apsw

from knowledge.pipeline.vectorstore.sqlite import mark
from knowledge.pipeline.vectorstore.sqlite.blocks import CodeWriter
from knowledge.pipeline.vectorstore.sqlite.connection import one_row, writing
from knowledge.pipeline.vectorstore.sqlite.writer import NEXT_GENERATION

log = logging.getLogger(__name__)

MIN_FREE_BYTES: Final = 8 << 20
MIN_FREE_SHARE: Final = 0.2
SMALL_BYTES: Final = 16 << 20  #: a file that is rewritten at every occasion: some 0.1 s
LARGE_BYTES: Final = 1 << 30  #: a larger one is rewritten only if much of it is free: writers would wait for too long
MERGE_PAGES: Final = 256  #: of the word lists a transaction, so that writers come in between


def reclaim(connection: apsw.Connection, base_id: str, dimensions: int | None, *, whole: bool) -> None:
    """Renew worn code blocks, wipe the words of deleted bodies, and shrink the log. Rewrite the file if a fifth of it and 8 MiB
    are free, or if text was taken out since it was last rewritten and it is small, or not very large and `whole` asks for it.

    A reader that keeps the log from being cut leaves the mark, so that the next call does all of it again.

    Raises:
        apsw.Error: the space could not be given back; nothing is lost.
    """
    marked = mark.found(connection)
    if dimensions is not None:
        _renew_worn_codes(connection, dimensions)
    _wipe_words(connection)
    _shrink_log(connection)
    free, pages, page_bytes = (int(connection.pragma(name)) for name in ("freelist_count", "page_count", "page_size"))
    is_hollow = free * page_bytes >= MIN_FREE_BYTES and free >= pages * MIN_FREE_SHARE
    is_to_wipe = marked and pages * page_bytes <= (LARGE_BYTES if whole else SMALL_BYTES)
    if not is_hollow and not is_to_wipe:
        return
    connection.execute("VACUUM")
    if _shrink_log(connection) and marked:
        mark.clear(connection, marked)
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
    for _ in range(2):  # the first may only end a merge that somebody left halfway, with words deleted since then in its result
        pages = -MERGE_PAGES  # negative: take up all lists, whatever their size; the calls after it go on with that
        while _merged(connection, pages) or pages < 0:
            pages = MERGE_PAGES


def _merged(connection: apsw.Connection, pages: int) -> bool:
    """Whether there was something to merge; a call that finds nothing still counts as one change."""
    with writing(connection):
        before = connection.total_changes()
        connection.execute("INSERT INTO lexical(lexical, rank) VALUES ('merge', ?)", (pages,))
        return connection.total_changes() - before >= 2


def _shrink_log(connection: apsw.Connection) -> bool:
    """Whether the log is empty now; a reader inside a transaction, or a writer, keeps it."""
    is_busy, _, _ = one_row(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
    return not is_busy
