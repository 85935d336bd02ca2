"""The vector lane: the bodies whose vectors have the largest cosine with a question's.

Three filters of falling speed and rising truth, each passing on what could still be among the best:

1. Hamming distances over all codes give an upper bound of every cosine (0.6 ms for 100,000);
2. sums over the signs give tighter upper bounds for the rows that remain;
3. exact cosines from the stored vectors, in the order of those bounds, until the next bound lies below the k-th best.

The k-th best exact score so far is the only cut: no number of candidates is fixed, so data on which estimates are poor costs
time, not results. Bounds hold with the confidence of `HAMMING_SIGMAS` and `SIGNS_SIGMAS` standard errors.
"""

import math
from dataclasses import dataclass
from typing import Any, Final

import apsw
import numpy as np
import numpy.typing as npt

from knowledge.errors import IndexCorrupt
from knowledge.model.documents import Vector, Vectors
from knowledge.pipeline.vectorstore.sqlite.code_cache import CodeCache
from knowledge.pipeline.vectorstore.sqlite.codes import unit_rows

HAMMING_SIGMAS: Final = 2.8
SIGNS_SIGMAS: Final = 2.4
SCAN_ALL_UP_TO: Final = 1000  #: vectors; reading so few costs no more than bringing their codes up to date
_STEP: Final = 32_768  #: slots a scan step; its scratch stays in the second-level cache
_SAMPLE: Final = 20_000  #: slots that the first cut is estimated from
_FIRST_BAND: Final = 1500  #: rows that the first cut lets through, for a handful of results
_BATCH: Final = 160  #: vectors read at a time

Bodies = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32]


@dataclass(slots=True)
class Best:
    """The best bodies found so far, in no order."""

    limit: int
    bodies: Bodies
    scores: Scores
    floor: float = -math.inf  #: what a further body must exceed; -inf until `limit` are known
    read: int = 0  #: vectors looked at

    @classmethod
    def of(cls, limit: int) -> "Best":
        return cls(limit, np.empty(0, np.int64), np.empty(0, np.float32))

    def add(self, bodies: Bodies, scores: Scores) -> None:
        self.read += len(bodies)
        self.bodies = np.concatenate([self.bodies, bodies])
        self.scores = np.concatenate([self.scores, scores])
        if len(self.scores) >= self.limit:
            kept = np.argpartition(-self.scores, self.limit - 1)[: self.limit]
            self.bodies, self.scores = self.bodies[kept], self.scores[kept]
            self.floor = float(self.scores.min())

    def ranked(self) -> list[tuple[int, float]]:
        """(body, cosine), best first; equal ones by body."""
        order = np.lexsort((self.bodies, -self.scores))
        return list(zip(self.bodies[order].tolist(), np.clip(self.scores[order], -1, 1).tolist(), strict=True))


def scan_all(connection: apsw.Connection, query: Vector, limit: int) -> Best:
    """Every vector, exactly: the lane of small bases and the oracle of tests."""
    best = Best.of(limit)
    rows = connection.execute("SELECT id, data FROM vector ORDER BY id")
    while batch := [row for _, row in zip(range(2048), rows, strict=False)]:
        best.add(*_exact(batch, query))
    return best


def search(connection: apsw.Connection, cache: CodeCache, query: Vector, limit: int) -> Best:
    """The best bodies by codes; `cache` is up to date, `query` has length 1."""
    return _Search(connection, cache, query, limit).run()


class _Search:
    """One question to one base."""

    def __init__(self, connection: apsw.Connection, cache: CodeCache, query: Vector, limit: int) -> None:
        self._connection = connection
        self._cache = cache
        self._query = query
        self._best = Best.of(limit)
        self._turned = cache.coder.rotated((query - cache.mean)[None])
        self._length = float(np.linalg.norm(self._turned))
        self._constant = float(query @ cache.mean)  #: <q, mean>: the same for every row, so bounds leave it out
        self._table = _partial_sums(self._turned[0])

    def run(self) -> Best:
        bounds = self._hamming_bounds()
        first_cut = self._cut_for(bounds, max(_FIRST_BAND, 12 * self._best.limit))
        self._look_at(np.flatnonzero(bounds >= first_cut))
        floor = self._best.floor - self._constant
        if floor < first_cut:  # the first cut was too high, or too few rows passed
            self._look_at(np.flatnonzero((bounds >= floor) & (bounds < first_cut) & (bounds > -np.inf)))
        return self._best

    def _hamming_bounds(self) -> Scores:
        """Upper bounds of <q - mean, y> + <mean, y> for every slot; -inf for dead ones."""
        cache = self._cache
        table = _upper_cosines(cache.coder.width) * np.float32(self._length)
        words = cache.coder.signs(self._turned)[0]
        bounds = np.empty(cache.size, np.float32)
        step = min(_STEP, max(cache.size, 1))
        differing, counted, distance = np.empty(step, np.uint64), np.empty(step, np.uint8), np.empty(step, np.uint16)
        for start in range(0, cache.size, step):
            end = min(start + step, cache.size)
            x, c, h = differing[: end - start], counted[: end - start], distance[: end - start]
            h[:] = 0
            for word, plane in zip(words, cache.planes, strict=True):
                np.bitwise_xor(plane[start:end], word, out=x)
                np.bitwise_count(x, out=c)
                h += c
            part = bounds[start:end]
            np.take(table, h, out=part)
            part *= cache.lengths[start:end]
            part += cache.offsets[start:end]
        return bounds

    @staticmethod
    def _cut_for(bounds: Scores, rows: int) -> float:
        """A cut that about so many bounds reach."""
        every = max(1, len(bounds) // _SAMPLE)
        sample = bounds[::every]
        wanted = max(1, rows // every)
        if wanted >= len(sample):
            return -float(np.finfo(np.float32).max)
        return float(np.partition(sample, len(sample) - wanted)[len(sample) - wanted])

    def _look_at(self, slots: npt.NDArray[np.intp]) -> None:
        """Estimate these rows, then read their vectors until the bounds say that no better one follows."""
        cache, best = self._cache, self._best
        sums = _sums(self._table, cache.codes[slots])
        error = SIGNS_SIGMAS * 0.755 * self._length / math.sqrt(cache.coder.width)
        bounds = sums * cache.scales[slots] + cache.offsets[slots] + np.float32(error) * cache.lengths[slots]
        bounds += np.float32(self._constant)
        near = np.flatnonzero(bounds >= best.floor)
        order = near[np.argsort(-bounds[near])]
        for start in range(0, len(order), _BATCH):
            if bounds[order[start]] < best.floor:
                return
            bodies = cache.bodies[slots[order[start : start + _BATCH]]]
            rows = self._connection.execute(
                "SELECT id, data FROM vector WHERE id IN carray(?)", (apsw.carray(bodies),)
            ).fetchall()
            best.add(*_exact(rows, self._query))


def _upper_cosines(width: int) -> Scores:
    """By Hamming distance, the largest cosine that is still likely. The share of differing signs estimates angle / pi."""
    share = (np.arange(width + 1) + 1) / (width + 2)
    least = np.maximum(share - HAMMING_SIGMAS * np.sqrt(share * (1 - share) / width), 0)
    return np.cos(np.pi * least).astype(np.float32)


def _partial_sums(turned: Vector) -> npt.NDArray[np.float32]:
    """For each byte of a code and each value of it, the signed sum of its eight coordinates; shape (bytes * 256,)."""
    signs = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").astype(np.float32) * 2 - 1
    return (turned.reshape(-1, 8) @ signs.T).ravel()


def _sums(table: npt.NDArray[np.float32], codes: npt.NDArray[np.uint64]) -> Scores:
    """<turned query, signs> of each code."""
    values = codes.view(np.uint8)
    places = values + np.arange(values.shape[1], dtype=np.int32) * 256
    sums: Scores = table[places].sum(axis=1, dtype=np.float32)
    return sums


def _exact(rows: list[Any], query: Vector) -> tuple[Bodies, Scores]:
    """Cosines of stored vectors that have a direction."""
    try:
        vectors: Vectors = np.frombuffer(b"".join(data for _, data in rows), "<f4").reshape(len(rows), len(query))
    except ValueError as error:
        raise IndexCorrupt("A stored vector has another width than its index.") from error
    units, usable = unit_rows(vectors)
    bodies = np.fromiter((body for body, _ in rows), np.int64, len(rows))
    scores = units @ query
    return (bodies, scores) if usable.all() else (bodies[usable], scores[usable])
