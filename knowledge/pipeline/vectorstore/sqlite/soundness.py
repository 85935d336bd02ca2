"""Whether a file is a whole index: after a fault, before anybody throws it away.

SQLite finds pages that make no sense, not bytes that changed inside a text; so texts are compared with their hashes, and codes
with the vectors that they stand for.
"""

import hashlib
from typing import Final

import apsw
import numpy as np

from knowledge.pipeline.vectorstore.sqlite.blocks import BLOCK_SLOTS
from knowledge.pipeline.vectorstore.sqlite.codes import coder
from knowledge.pipeline.vectorstore.sqlite.connection import one_row

_NONE_OF: Final = (
    "SELECT 1 FROM unit WHERE material_id NOT IN (SELECT id FROM material) OR body_id NOT IN (SELECT id FROM body)",
    "SELECT 1 FROM material WHERE content_id NOT IN (SELECT id FROM content)",
    "SELECT 1 FROM body WHERE id NOT IN (SELECT id FROM lexical_docsize)",
    "SELECT 1 FROM state WHERE bodies <> (SELECT count(*) FROM body)",
)
"""Each finds rows that must not be there."""


def agrees(connection: apsw.Connection, dimensions: int | None) -> bool:
    """Whether all tables can be read and fit together; the file is this base's in this layout.

    Raises:
        apsw.Error, ValueError and its like: where reading ends in nonsense.
    """
    if one_row(connection, "PRAGMA integrity_check(1)") != ("ok",):
        return False
    connection.execute("INSERT INTO lexical(lexical) VALUES ('integrity-check')")
    if any(connection.execute(f"{query} LIMIT 1").fetchone() for query in _NONE_OF):
        return False
    for stored, text in connection.execute("SELECT hash, text FROM content"):
        if hashlib.sha256(text.encode()).digest() != stored:
            return False
    return dimensions is None or _codes_agree(connection, dimensions)


def _codes_agree(connection: apsw.Connection, dimensions: int) -> bool:
    record = coder(dimensions).record
    size = BLOCK_SLOTS * record.itemsize
    odd_sizes = (
        ("SELECT 1 FROM vector WHERE length(data) <> ?", 4 * dimensions),
        ("SELECT 1 FROM code_centre WHERE length(mean) <> ?", 4 * dimensions),
        ("SELECT 1 FROM code_block WHERE length(records) <> ?", size),
    )
    if any(connection.execute(f"{query} LIMIT 1", (wanted,)).fetchone() for query, wanted in odd_sizes):
        return False
    slots: list[int] = []
    blocks = "SELECT used, first_body, records FROM code_block JOIN code_block_state USING (no) ORDER BY no"
    for used, first, records in connection.execute(blocks):
        bodies = np.frombuffer(records, record)["body"][:used].tolist()
        if abs(bodies[0]) != first:
            return False
        slots += bodies
    ids = [abs(body) for body in slots]
    vectors = {body for (body,) in connection.execute("SELECT id FROM vector")}
    counted = one_row(connection, "SELECT slots, dead_slots FROM state")
    return (
        ids == sorted(set(ids))
        and {body for body in slots if body > 0} <= vectors
        and counted == (len(slots), sum(body < 0 for body in slots))
    )
