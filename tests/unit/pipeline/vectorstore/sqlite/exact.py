"""The best of an index by reading every vector: slow, and right by construction."""

from pathlib import Path

import apsw
import numpy as np

from knowledge.model.documents import Vector
from knowledge.pipeline.vectorstore.port import LaneHit
from knowledge.pipeline.vectorstore.sqlite import nearest, passages
from knowledge.pipeline.vectorstore.sqlite.codes import unit_rows


def nearest_exact(path: Path, vector: Vector, limit: int) -> list[LaneHit]:
    """What `nearest` of the index in this file should find, best first; `vector` has a direction."""
    units, _ = unit_rows(np.asarray(vector, np.float32)[None])
    connection = apsw.Connection(str(path))
    try:
        connection.set_busy_timeout(10_000)
        with connection:
            return passages.hits(connection, nearest.scan_all(connection, units[0], limit).ranked(), limit)
    finally:
        connection.close()
