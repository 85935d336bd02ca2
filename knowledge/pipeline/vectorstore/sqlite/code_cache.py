"""The codes of one base in memory, brought up to date by generation: only blocks that changed since are read again."""

from typing import Final

import apsw
import numpy as np

from knowledge.model.documents import Vector
from knowledge.pipeline.vectorstore.sqlite.blocks import BLOCK_SLOTS
from knowledge.pipeline.vectorstore.sqlite.codes import coder
from knowledge.pipeline.vectorstore.sqlite.connection import one_row

_SPARE: Final = 8  #: room kept for an eighth more blocks, so that growth rarely copies all


class CodeCache:
    """About 115 bytes a vector of 384 dimensions.

    `planes` holds word w of all codes side by side, so that a scan streams through memory; `codes` holds the words of one code
    side by side for the few rows that are looked at again. Dead and empty slots have an offset of -inf.
    """

    def __init__(self, dimensions: int) -> None:
        self.coder = coder(dimensions)
        self.size = 0  #: slots in use or dead, a multiple of `BLOCK_SLOTS`
        self.mean: Vector = np.zeros(dimensions, np.float32)
        self._recoded = 0
        self._generation = 0
        self._reserve(0)

    def refresh(self, connection: apsw.Connection) -> int:
        """Make this the state that the open read transaction sees; returns the number of live vectors."""
        generation, recoded, slots, dead = one_row(connection, "SELECT generation, recoded, slots, dead_slots FROM state")
        if generation != self._generation:
            if recoded != self._recoded or generation < self._generation:
                self.size = self._generation = 0
                (mean,) = one_row(connection, "SELECT mean FROM code_centre")
                self.mean = np.frombuffer(mean, "<f4")
                self._recoded = recoded  # last: an interrupted refresh starts anew
            self._read_changed(connection)
            self._generation = generation
        return int(slots - dead)

    def _read_changed(self, connection: apsw.Connection) -> None:
        changed = [
            no for (no,) in connection.execute("SELECT no FROM code_block_state WHERE generation > ?", (self._generation,))
        ]
        if not changed:
            return
        size = max(self.size, (max(changed) + 1) * BLOCK_SLOTS)
        if size > len(self.bodies):
            self._reserve(size + size // _SPARE)
        self.size = size
        rows = connection.execute(
            "SELECT no, records FROM code_block WHERE no IN carray(?)", (apsw.carray(np.array(changed, np.int64)),)
        )
        length_per_scale = np.float32(self.coder.length_per_scale())
        for no, data in rows:
            records = np.frombuffer(data, self.coder.record)
            place = slice(no * BLOCK_SLOTS, (no + 1) * BLOCK_SLOTS)
            live = records["body"] > 0
            self.bodies[place] = records["body"]
            self.codes[place] = records["code"]
            self.planes[:, place] = records["code"].T
            self.scales[place] = np.where(live, records["scale"], 0)
            self.lengths[place] = self.scales[place] * length_per_scale
            self.offsets[place] = np.where(live, records["offset"], -np.inf)

    def _reserve(self, slots: int) -> None:
        """Room for so many slots; those in use keep their values."""
        used, words = slice(0, self.size), self.coder.words
        old = vars(self).copy()
        self.bodies = np.zeros(slots, np.int64)
        self.codes = np.zeros((slots, words), np.uint64)
        self.planes = np.zeros((words, slots), np.uint64)
        self.scales = np.zeros(slots, np.float32)
        self.lengths = np.zeros(slots, np.float32)
        self.offsets = np.full(slots, -np.inf, np.float32)
        if self.size:
            for name in ("bodies", "codes", "scales", "lengths", "offsets"):
                getattr(self, name)[used] = old[name][used]
            self.planes[:, used] = old["planes"][:, used]
