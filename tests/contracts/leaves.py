"""Materials for tests of index stores, written as the texts of their units."""

import hashlib

import numpy as np

from knowledge.model.documents import Material, Unit, Vector

DIMENSIONS = 8


def vector_of(text: str, dimensions: int = DIMENSIONS) -> Vector:
    """The same direction for the same text, any other for another."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
    return np.random.default_rng(seed).standard_normal(dimensions).astype(np.float32)


def units_of(*texts: str) -> tuple[str, list[Unit]]:
    """A text whose units these are, a blank line between them, each on a page of its own."""
    units, at = [], 0
    for index, text in enumerate(texts):
        units.append(Unit(index, text, at, at + len(text), page=index + 1))
        at += len(text) + 2
    return "\n\n".join(texts), units


def leaf(item_id: str, *texts: str, path: str | None = None, vectors: dict[str, Vector] | None = None) -> Material:
    """A material of a vector base; `vectors` by text, those of all texts if not given."""
    text, units = units_of(*texts)
    given = {text: vector_of(text) for text in texts} if vectors is None else vectors
    hashes = {unit.text_hash: given[unit.text] for unit in units if unit.text in given}
    return Material(item_id, path or f"{item_id}.txt", text, units, hashes)


def plain_leaf(item_id: str, *texts: str, path: str | None = None) -> Material:
    """A material of a base without embedder."""
    text, units = units_of(*texts)
    return Material(item_id, path or f"{item_id}.txt", text, units, None)
