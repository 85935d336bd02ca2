"""Reading units and contents: from bodies to the units that have them, from unit ids to their texts."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence

import apsw
import numpy as np

from knowledge.errors import IndexCorrupt
from knowledge.model.documents import Unit
from knowledge.pipeline.vectorstore.port import LaneHit, StoredUnit

_UNITS_OF_BODIES = """
SELECT u.body_id, m.item_id, u.position, u.char_start, u.char_end, c.hash
FROM unit u JOIN material m ON m.id = u.material_id JOIN content c ON c.id = m.content_id
WHERE u.body_id IN carray(?)
"""
_PLACE = """
SELECT m.path, m.content_id, u.char_start, u.char_end, u.byte_start, u.byte_end, u.page, u.locator, c.hash
FROM material m JOIN unit u ON u.material_id = m.id JOIN content c ON c.id = m.content_id
WHERE m.item_id = ? AND u.position = ?
"""
_MATERIAL = "SELECT m.id, m.path, c.hash, c.text FROM material m JOIN content c ON c.id = m.content_id WHERE m.item_id = ?"
_UNITS = "SELECT position, char_start, char_end, page, locator FROM unit WHERE material_id = ? ORDER BY position"


def unit_id(item_id: str, content_hash: bytes, index: int, char_start: int, char_end: int) -> str:
    """The same unit of the same text always gets the same id, and an id never outlives its text.

    It begins with the item id and the index, by which the unit is found; the rest proves that it is still that one.
    """
    proof = hashlib.sha256(b"%s\x1f%d\x1f%d\x1f%d" % (content_hash, index, char_start, char_end)).hexdigest()
    return f"{item_id}.{index}.{proof[:16]}"


def hits(connection: apsw.Connection, scored: Sequence[tuple[int, float]], limit: int) -> list[LaneHit]:
    """The units of ranked bodies; those of one body in the order of item and index."""
    if not scored:
        return []
    units: dict[int, list[tuple[str, int, int, int, bytes]]] = defaultdict(list)
    bodies = apsw.carray(np.array([body for body, _ in scored], np.int64))
    for body, *place in connection.execute(_UNITS_OF_BODIES, (bodies,)):
        units[body].append(tuple(place))
    found: list[LaneHit] = []
    for body, score in scored:
        for item_id, index, start, end, content_hash in sorted(units[body]):
            found.append(LaneHit(unit_id(item_id, content_hash, index, start, end), item_id, score))
    return found[:limit]


def fetch(connection: apsw.Connection, unit_ids: Iterable[str]) -> dict[str, StoredUnit]:
    """Units by id; ids of texts that are gone are left out."""
    found: dict[str, StoredUnit] = {}
    blob: apsw.Blob | None = None
    try:
        for wanted in unit_ids:
            head, _, _ = wanted.rpartition(".")
            item_id, _, index = head.rpartition(".")
            if not index.isascii() or not index.isdigit() or len(index) > 18:
                continue
            row = connection.execute(_PLACE, (item_id, int(index))).fetchone()
            if row is None:
                continue
            path, content, start, end, byte_start, byte_end, page, locator, content_hash = row
            if unit_id(item_id, content_hash, int(index), start, end) != wanted:
                continue
            # A slice of the text's bytes: a long document is not read whole for one passage.
            if blob is None:
                blob = connection.blob_open("main", "content", "text", content, False)
            else:
                blob.reopen(content)
            blob.seek(byte_start)
            text = blob.read(byte_end - byte_start).decode()
            found[wanted] = StoredUnit(wanted, item_id, path, Unit(int(index), text, start, end, page, locator))
    except (UnicodeDecodeError, ValueError) as error:
        raise IndexCorrupt("The text of a unit does not lie where the index says.") from error
    finally:
        if blob is not None:
            blob.close()
    return found


def units(connection: apsw.Connection, item_id: str) -> list[StoredUnit]:
    """All units of one leaf in index order."""
    row = connection.execute(_MATERIAL, (item_id,)).fetchone()
    if row is None:
        return []
    material, path, content_hash, text = row
    return [
        StoredUnit(
            unit_id(item_id, content_hash, index, start, end),
            item_id,
            path,
            Unit(index, text[start:end], start, end, page, locator),
        )
        for index, start, end, page, locator in connection.execute(_UNITS, (material,))
    ]


def content(connection: apsw.Connection, item_id: str) -> str | None:
    row = connection.execute(_MATERIAL, (item_id,)).fetchone()
    return None if row is None else str(row[3])
