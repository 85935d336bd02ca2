"""Codes estimate what they promise, and mean the same on every machine."""

import hashlib
import math

import numpy as np
import pytest

from knowledge.pipeline.vectorstore.sqlite.codes import coder, unit_rows
from tests.bench.vector_sets import MAKERS


@pytest.mark.parametrize("dimensions", [1, 8, 64, 100, 384])
def test_rotation_keeps_lengths_and_angles(dimensions):
    """Rotated vectors have the same inner products."""
    vectors = np.random.default_rng(0).standard_normal((20, dimensions)).astype(np.float32)
    turned = coder(dimensions).rotated(vectors)

    assert np.allclose(vectors @ vectors.T, turned @ turned.T, atol=1e-3)


def test_rotation_spreads_single_dimensions():
    """A vector of one dimension touches all axes alike after it: no axis has more than a few times its share."""
    turned = coder(384).rotated(np.eye(384, dtype=np.float32))

    assert np.abs(turned).max() < 5 / math.sqrt(384)


@pytest.mark.parametrize("kind", sorted(MAKERS))
def test_estimate_errs_as_promised(kind):
    """The error of the sign estimate has the standard deviation that the search counts on, whatever the data."""
    rows, queries = MAKERS[kind](2000, 20, 384, 7)
    code = coder(384)
    mean = rows.mean(axis=0)
    records = code.encode(np.arange(1, len(rows) + 1), rows, mean)
    signs = np.unpackbits(records["code"].copy().view(np.uint8), axis=1, bitorder="little").astype(np.float32) * 2 - 1
    errors = []
    for query in queries:
        turned = code.rotated((query - mean)[None])[0]
        estimates = (signs @ turned) * records["scale"] + records["offset"] + query @ mean
        unit = np.linalg.norm(query - mean) * records["scale"] * code.length_per_scale() / math.sqrt(code.width)
        errors.append((estimates - rows @ query) / unit)

    assert 0.755 == pytest.approx(np.std(errors), rel=0.12)
    assert 0 == pytest.approx(np.mean(errors), abs=0.1)


def test_codes_mean_the_same_everywhere():
    """Codes on disk outlive the program that wrote them: their bits for given numbers are fixed."""
    vectors = (np.arange(5 * 100, dtype=np.float32).reshape(5, 100) * 37 % 101) - 50
    signs = coder(100).signs(coder(100).rotated(vectors))

    assert "7abbaec0b6d068a4" == hashlib.sha256(signs.astype("<u8").tobytes()).hexdigest()[:16]


def test_vectors_without_direction_are_named():
    """Zero, NaN and infinity have none; tiny and huge numbers do."""
    vectors = np.array([[0, 0], [np.nan, 1], [np.inf, 0], [1e-30, 0], [3e30, 4e30], [0, -2]], np.float32)
    units, usable = unit_rows(vectors)

    assert [False, False, False, True, True, True] == usable.tolist()
    assert np.allclose([[1, 0], [0.6, 0.8], [0, -1]], units[usable])
