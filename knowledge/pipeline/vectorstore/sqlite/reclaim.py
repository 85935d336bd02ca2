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


def reclaim(connection: apsw.Connection, base_id: str, dimensions: int | None) -> None:
    """Renew worn code blocks, shrink the log, and rewrite the file if a fifth of it and 8 MiB are free.

    Raises:
        apsw.Error: the space could not be given back; nothing is lost.
    """
    if dimensions is not None:
        _renew_worn_codes(connection, dimensions)
    _shrink_log(connection)
    free, pages, page_bytes = (int(connection.pragma(name)) for name in ("freelist_count", "page_count", "page_size"))
    if free * page_bytes < MIN_FREE_BYTES or free < pages * MIN_FREE_SHARE:
        return
    connection.execute("INSERT INTO lexical(lexical) VALUES ('optimize')")
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


def _shrink_log(connection: apsw.Connection) -> None:
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
