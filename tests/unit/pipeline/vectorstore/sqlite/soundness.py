"""Checks that the tables of an index file agree with each other."""

from pathlib import Path

import apsw
import numpy as np

from knowledge.pipeline.vectorstore.sqlite.codes import coder, unit_rows


def assert_sound(path: Path) -> None:
    """Every body is used, tokenised and, where it has a direction, coded once; every count is right; FTS5 finds no fault."""
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(10_000)

    def column(sql: str) -> list[int]:
        return [row[0] for row in connection.execute(sql)]

    assert ["ok"] == column("PRAGMA integrity_check")
    connection.execute("INSERT INTO lexical(lexical) VALUES ('integrity-check')")
    bodies = column("SELECT id FROM body ORDER BY id")
    assert bodies == column("SELECT DISTINCT body_id FROM unit ORDER BY body_id")
    assert bodies == column("SELECT id FROM lexical_docsize ORDER BY id")
    assert column("SELECT id FROM content ORDER BY id") == column(
        "SELECT DISTINCT content_id FROM material ORDER BY content_id"
    )
    assert [] == column("SELECT material_id FROM unit WHERE material_id NOT IN (SELECT id FROM material)")
    assert [len(bodies)] == column("SELECT bodies FROM state")

    (dimensions,) = column("SELECT dimensions FROM identity")
    if dimensions is None:
        assert [] == column("SELECT id FROM vector")
        return
    vectors = connection.execute("SELECT id, data FROM vector ORDER BY id").fetchall()
    assert bodies == [body for body, _ in vectors]
    rows = np.frombuffer(b"".join(data for _, data in vectors), "<f4").reshape(-1, dimensions)
    _, usable = unit_rows(rows)
    slots = []
    for used, data in connection.execute("SELECT used, records FROM code_block JOIN code_block_state USING (no) ORDER BY no"):
        slots.extend(np.frombuffer(data, coder(dimensions).record)["body"][:used].tolist())
    assert [body for body, good in zip(bodies, usable, strict=True) if good] == [slot for slot in slots if slot > 0]
    assert sorted(map(abs, slots)) == list(map(abs, slots))
    assert (len(slots), sum(slot < 0 for slot in slots)) == connection.execute("SELECT slots, dead_slots FROM state").fetchone()
    connection.close()
