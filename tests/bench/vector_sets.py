"""Vectors like those that embedding models give, made from a seed: friendly ones and the kinds that break estimates.

Each maker returns (rows, queries), float32, length 1, shapes (n, dimensions) and (m, dimensions); queries are held out.
"""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]


def blended(n: int, m: int, dimensions: int, seed: int) -> tuple[Vectors, Vectors]:
    """Sentence-model-like: topics in a space of falling spectrum, each row a blend of two topic neighbours plus noise."""
    rng = np.random.default_rng(seed)
    spectrum = (1.0 / np.sqrt(1 + np.arange(dimensions) / 12)).astype(np.float32)
    topics = rng.standard_normal((max(8, n // 40), dimensions), np.float32) * spectrum
    common = 0.25 * rng.standard_normal(dimensions, np.float32)
    count = n + m
    near, far = rng.integers(len(topics), size=(2, count))
    share = rng.uniform(0.55, 0.95, size=(count, 1)).astype(np.float32)
    noise = rng.standard_normal((count, dimensions), np.float32) * spectrum
    return _split(common + share * topics[near] + (1 - share) * topics[far] + 0.8 * noise, n)


def clustered(n: int, m: int, dimensions: int, seed: int) -> tuple[Vectors, Vectors]:
    """Tight clusters far apart: many near-ties within a cluster."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((max(4, n // 200), dimensions), np.float32)
    noise = rng.standard_normal((n + m, dimensions), np.float32)
    return _split(centres[rng.integers(len(centres), size=n + m)] + 0.6 * noise, n)


def anisotropic(n: int, m: int, dimensions: int, seed: int) -> tuple[Vectors, Vectors]:
    """One common direction and a few outlying dimensions: all cosines near 0.9."""
    rng = np.random.default_rng(seed)
    rows, queries = blended(n, m, dimensions, seed + 1)
    everything = np.concatenate([rows, queries])
    common = rng.standard_normal(dimensions, np.float32)
    common[rng.integers(dimensions, size=4)] *= 20
    return _split(everything + 3 * common / np.linalg.norm(common), n)


def hashed(n: int, m: int, dimensions: int, seed: int) -> tuple[Vectors, Vectors]:
    """Feature hashing of bags of words: about 40 nonzero dimensions of signed counts, words by Zipf's law."""
    rng = np.random.default_rng(seed)
    words = rng.zipf(1.3, size=(n + m, 45)) % 30_000
    place = rng.integers(dimensions, size=30_000)
    sign = rng.choice(np.array([-1, 1], np.float32), size=30_000)
    weight = np.log1p(np.arange(30_000)).astype(np.float32)
    vectors = np.zeros((n + m, dimensions), np.float32)
    row = np.repeat(np.arange(n + m), words.shape[1])
    flat = words.ravel()
    np.add.at(vectors, (row, place[flat]), sign[flat] * weight[flat])
    vectors[:, 0] += 1e-3  # no row without direction
    return _split(vectors, n)


MAKERS: Final[Mapping[str, Callable[[int, int, int, int], tuple[Vectors, Vectors]]]] = {
    "blended": blended,
    "clustered": clustered,
    "anisotropic": anisotropic,
    "hashed": hashed,
}


def _split(vectors: Vectors, n: int) -> tuple[Vectors, Vectors]:
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit[:n].astype(np.float32), unit[n:].astype(np.float32)
