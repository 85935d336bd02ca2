"""One bit per dimension: codes whose Hamming distance and sign sums estimate cosine similarities, with known error.

A unit vector x is centred (y = x - mean), rotated so that no dimension is special, and reduced to its signs s. Two floats
correct for what is lost:

    <q, x>  =  <q, mean> + <q - mean, y> + <mean, y>
    <q - mean, y>  is estimated by  scale * <rotated(q - mean), s>,   scale = |y|^2 / (sum of |rotated y|)
    offset = <mean, y>  is exact

For a rotated y the standard error of that estimate is near 0.755 * |q - mean| * |y| / sqrt(width), whatever the data; centring
only makes it smaller. A centre that no longer fits costs speed, never correctness.

Source of the estimator: Gao and Long, "RaBitQ", SIGMOD 2024.
"""

import hashlib
import math
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from knowledge.model.documents import Vector, Vectors

WORD_BITS: Final = 64
_ROUNDS: Final = 3  #: of signs, shuffle and mix; after two, sparse vectors still leave a trace of their few dimensions
_SEED: Final = b"knowledge/codes/1"

Records = npt.NDArray[Any]  #: structured, see `Coder.record`


class Coder:
    """Codes of vectors of one width; the same for every base, process and platform."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self.words = -(-dimensions // WORD_BITS)
        self.width = self.words * WORD_BITS  #: bits of a code; dimensions filled up with zeros
        self.record: np.dtype[Any] = np.dtype(
            [("body", "<i8"), ("code", "<u8", (self.words,)), ("scale", "<f4"), ("offset", "<f4")]
        )
        """One slot of a block. `body` is negative once the vector is gone; blocks ascend in its absolute value."""
        self._signs = [self._noise(b"sign%d" % i, 1).astype(np.float32) % 2 * 2 - 1 for i in range(_ROUNDS)]
        self._orders = [np.argsort(self._noise(b"order%d" % i, 4), kind="stable") for i in range(_ROUNDS)]
        self._mix = _hadamard()

    def rotated(self, vectors: Vectors) -> Vectors:
        """The same vectors in other axes: float32, shape (n, width); lengths and angles are kept."""
        turned = np.zeros((len(vectors), self.width), np.float32)
        turned[:, : self.dimensions] = vectors
        for signs, order in zip(self._signs, self._orders, strict=True):
            turned *= signs
            turned = (turned[:, order].reshape(-1, WORD_BITS) @ self._mix).reshape(-1, self.width)
        return turned

    def encode(self, bodies: npt.NDArray[np.int64], units: Vectors, mean: Vector) -> Records:
        """Records of unit vectors, shape (n,)."""
        centred = units - mean
        turned = self.rotated(centred)
        records = np.empty(len(units), self.record)
        records["body"] = bodies
        records["code"] = self.signs(turned)
        absolute = np.abs(turned).sum(axis=1)
        records["scale"] = np.einsum("ij,ij->i", turned, turned) / np.maximum(absolute, np.float32(1e-30))
        records["offset"] = centred @ mean
        return records

    def signs(self, turned: Vectors) -> npt.NDArray[np.uint64]:
        """The signs of rotated vectors as bits, uint64, shape (n, words)."""
        return np.packbits(np.greater(turned, 0), axis=1, bitorder="little").view("<u8")

    def length_per_scale(self) -> float:
        """|y| / scale of a rotated vector: its mean absolute coordinate is sqrt(2 / pi) of its root mean square."""
        return math.sqrt(2 * self.width / math.pi)

    def _noise(self, label: bytes, size: int) -> npt.NDArray[Any]:
        # Not numpy's generator, whose stream may change between versions: codes on disk must keep their meaning.
        data = hashlib.shake_256(_SEED + label).digest(self.width * size)
        return np.frombuffer(data, f"<u{size}")


@lru_cache(maxsize=8)
def coder(dimensions: int) -> Coder:
    return Coder(dimensions)


def unit_rows(vectors: Vectors) -> tuple[Vectors, npt.NDArray[np.bool_]]:
    """Vectors scaled to length 1, and which of them have a direction at all (not zero, nothing infinite or NaN)."""
    squares = np.einsum("ij,ij->i", vectors, vectors)
    usual = (squares > 1e-30) & (squares < 1e30)
    if usual.all():
        return vectors / np.sqrt(squares)[:, None], usual
    precise = np.where(np.isfinite(vectors).all(axis=1, keepdims=True), vectors, 0).astype(np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", precise, precise))
    usable = lengths > 0
    return (precise / np.where(usable, lengths, 1)[:, None]).astype(np.float32), usable


def _hadamard() -> npt.NDArray[np.float32]:
    """Orthogonal, every entry +-1/8, shape (64, 64)."""
    mix = np.ones((1, 1), np.float32)
    while len(mix) < WORD_BITS:
        mix = np.block([[mix, mix], [mix, -mix]])
    return (mix / math.sqrt(WORD_BITS)).astype(np.float32)
