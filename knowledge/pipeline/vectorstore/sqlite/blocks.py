"""Writing code blocks: append, strike out, renew. Always inside the transaction that changes the vectors.

A block is one blob of `BLOCK_SLOTS` records. Appending and striking out touch only the pages that change. Slots ascend in body
id over all blocks, so a body's slot is found by bisection and no table needs to hold it.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import apsw
import numpy as np
import numpy.typing as npt

from knowledge.model.documents import Vector, Vectors
from knowledge.pipeline.vectorstore.sqlite.codes import Coder, Records, coder, unit_rows
from knowledge.pipeline.vectorstore.sqlite.connection import one_row

BLOCK_SLOTS: Final = 1024
RECENTRE_GROWTH: Final = 8  #: all codes are renewed when a base has grown so many times, up to …
RECENTRE_UP_TO: Final = 50_000  #: … this many vectors, when the centre is known well enough
MIN_DEAD_SLOTS: Final = BLOCK_SLOTS  #: fewer dead slots are never worth a renewal
_SAMPLE: Final = 4096  #: vectors that the centre is taken from


class CodeWriter:
    """The code blocks of one base during one write transaction."""

    def __init__(self, connection: apsw.Connection, dimensions: int, generation: int) -> None:
        self._connection = connection
        self._coder: Coder = coder(dimensions)
        self._generation = generation

    def strike_out(self, bodies: Sequence[int]) -> None:
        """Mark the slots of these bodies dead; bodies without a slot (vectors without direction) are skipped."""
        dead = 0
        for no, group in self._by_block(bodies):
            with self._connection.blob_open("main", "code_block", "records", no, True) as blob:
                records = np.frombuffer(blob.read(), self._coder.record)
                ids = np.abs(records["body"])
                live = np.flatnonzero(np.isin(ids, group) & (records["body"] > 0))
                for slot in live.tolist():
                    blob.seek(slot * self._coder.record.itemsize)
                    blob.write(int(-ids[slot]).to_bytes(8, "little", signed=True))
            dead += len(live)
            self._touch(no)
        if dead:
            self._connection.execute("UPDATE state SET dead_slots = dead_slots + ?", (dead,))

    def append(self, bodies: Sequence[int], vectors: Vectors) -> None:
        """Add codes of new bodies; their ids ascend and are above all there were."""
        units, usable = unit_rows(vectors)
        if not usable.any():
            return
        self._write(self._coder.encode(np.asarray(bodies, np.int64)[usable], units[usable], self._mean()))

    def renew_if_due(self) -> None:
        """Code everything afresh if the base outgrew its centre or more slots are dead than alive."""
        slots, dead, centred_on = self._counts()
        live = slots - dead
        outgrown = live >= BLOCK_SLOTS and centred_on < RECENTRE_UP_TO and live >= RECENTRE_GROWTH * max(centred_on, 1)
        if outgrown or (dead >= MIN_DEAD_SLOTS and dead > live):
            self.renew()

    def worn(self) -> bool:
        """Whether a fifth of the slots is dead, so that a renewal at leisure pays."""
        slots, dead, _ = self._counts()
        return dead >= MIN_DEAD_SLOTS and dead * 5 > slots

    def renew(self) -> None:
        """Code every vector afresh around the centre of what is there now; readers load all blocks again."""
        run = self._connection.execute
        bodies = np.fromiter((body for (body,) in run("SELECT id FROM vector ORDER BY id")), np.int64)
        sample = bodies[:: max(1, -(-len(bodies) // _SAMPLE))]
        units, usable = unit_rows(self._load(sample))
        mean = units[usable].mean(axis=0, dtype=np.float64).astype("<f4") if usable.any() else self._mean() * 0
        run("UPDATE code_centre SET mean = ?", (mean.tobytes(),))
        run("DELETE FROM code_block")
        run("DELETE FROM code_block_state")
        run("UPDATE state SET slots = 0, dead_slots = 0, centred_on = ?, recoded = ?", (int(usable.sum()), self._generation))
        for start in range(0, len(bodies), BLOCK_SLOTS):
            chosen = bodies[start : start + BLOCK_SLOTS]
            units, usable = unit_rows(self._load(chosen))
            self._write(self._coder.encode(chosen[usable], units[usable], mean))
        run("UPDATE state SET centred_on = slots")

    def _write(self, records: Records) -> None:
        """Fill the last block, then open new ones."""
        run = self._connection.execute
        size = self._coder.record.itemsize
        row = run("SELECT no, used FROM code_block_state ORDER BY no DESC LIMIT 1").fetchone()
        no, used = row or (-1, BLOCK_SLOTS)
        done = 0
        while done < len(records):
            if used == BLOCK_SLOTS:
                no, used = no + 1, 0
                run("INSERT INTO code_block VALUES (?, zeroblob(?))", (no, BLOCK_SLOTS * size))
                run("INSERT INTO code_block_state VALUES (?, ?, 0, 0)", (no, int(records["body"][done])))
            part = records[done : done + BLOCK_SLOTS - used]
            with self._connection.blob_open("main", "code_block", "records", no, True) as blob:
                blob.seek(used * size)
                blob.write(part.tobytes())
            done += len(part)
            used += len(part)
            run("UPDATE code_block_state SET used = ?, generation = ? WHERE no = ?", (used, self._generation, no))
        run("UPDATE state SET slots = slots + ?", (len(records),))

    def _by_block(self, bodies: Sequence[int]) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
        rows = self._connection.execute("SELECT no, first_body FROM code_block_state ORDER BY no").fetchall()
        if not rows:
            return
        ids = np.sort(np.asarray(bodies, np.int64))
        places = np.searchsorted(np.array([first for _, first in rows]), ids, side="right") - 1
        for place in np.unique(places[places >= 0]).tolist():
            yield rows[place][0], ids[places == place]

    def _touch(self, no: int) -> None:
        self._connection.execute("UPDATE code_block_state SET generation = ? WHERE no = ?", (self._generation, no))

    def _mean(self) -> Vector:
        (mean,) = one_row(self._connection, "SELECT mean FROM code_centre")
        return np.frombuffer(mean, "<f4")

    def _load(self, bodies: npt.NDArray[np.int64]) -> Vectors:
        if not len(bodies):  # SQLite's carray takes no empty array
            return np.empty((0, self._coder.dimensions), np.float32)
        rows = self._connection.execute(
            "SELECT data FROM vector WHERE id IN carray(?) ORDER BY id", (apsw.carray(np.ascontiguousarray(bodies)),)
        )
        return np.frombuffer(b"".join(data for (data,) in rows), "<f4").reshape(-1, self._coder.dimensions)

    def _counts(self) -> tuple[int, int, int]:
        slots, dead, centred_on = one_row(self._connection, "SELECT slots, dead_slots, centred_on FROM state")
        return slots, dead, centred_on
