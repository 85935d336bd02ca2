"""What a material becomes before any transaction is open: checked and hashed."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from knowledge.errors import DimensionMismatch, IndexFault
from knowledge.model.documents import Material, Unit, Vector


@dataclass(frozen=True, slots=True)
class PreparedUnit:
    unit: Unit
    byte_start: int
    byte_end: int
    body_hash: bytes


@dataclass(frozen=True, slots=True)
class PreparedMaterial:
    item_id: str
    path: str
    text: str
    content_hash: bytes
    units: list[PreparedUnit]


@dataclass(frozen=True, slots=True)
class Prepared:
    """Several leaves as one write."""

    materials: list[PreparedMaterial]
    texts: dict[bytes, str]  #: of bodies, by hash
    vectors: dict[bytes, Vector]  #: those supplied, by hash of the body


def prepare(materials: Iterable[Material], base_id: str, dimensions: int | None) -> Prepared:
    """Check and hash; of two materials of one leaf the later counts.

    Raises:
        IndexFault: a unit is not the slice at its offsets, an index occurs twice, a path is empty or absolute, a text is not
            valid Unicode, or vectors came for a base without embedder.
        DimensionMismatch: a vector of another width.
    """
    chosen: dict[str, PreparedMaterial] = {}
    supplied: dict[bytes, Vector] = {}
    for material in materials:
        try:
            prepared = _prepare(material)
        except (_Flawed, UnicodeEncodeError) as flaw:
            message = f"The material of this item cannot be indexed: {flaw}."
            raise IndexFault(message, base_id=base_id, item_id=material.item_id) from flaw
        if material.vectors and dimensions is None:
            raise IndexFault("Vectors were given to a base without embedder.", base_id=base_id, item_id=material.item_id)
        for text_hash, vector in (material.vectors or {}).items():
            supplied[bytes.fromhex(text_hash)] = _checked(vector, dimensions, base_id)
        chosen[material.item_id] = prepared
    texts = {unit.body_hash: unit.unit.text for prepared in chosen.values() for unit in prepared.units}
    return Prepared(list(chosen.values()), texts, supplied)


class _Flawed(Exception):
    """What is wrong with a material."""


def _prepare(material: Material) -> PreparedMaterial:
    text, path = material.text, material.path
    if not path or path.startswith("/"):
        raise _Flawed("its path is empty or absolute")
    data = text.encode()
    byte_at = _byte_offsets(text, len(data), material.units)
    units: list[PreparedUnit] = []
    positions: set[int] = set()
    for unit in material.units:
        start, end = unit.char_start, unit.char_end
        if not 0 <= start <= end <= len(text) or text[start:end] != unit.text:
            raise _Flawed(f"unit {unit.index} is not the text from {start} to {end}")
        if unit.index < 0 or unit.index in positions:
            raise _Flawed(f"unit index {unit.index} is negative or occurs twice")
        positions.add(unit.index)
        first, last = byte_at[start], byte_at[end]
        units.append(PreparedUnit(unit, first, last, hashlib.sha256(data[first:last]).digest()))
    return PreparedMaterial(material.item_id, path, text, hashlib.sha256(data).digest(), units)


def _byte_offsets(text: str, size: int, units: Iterable[Unit]) -> "dict[int, int] | range":
    """The place in UTF-8 of every unit border that lies within the text."""
    if size == len(text):
        return range(size + 1)
    offsets: dict[int, int] = {}
    at = place = 0
    for border in sorted({border for unit in units for border in (unit.char_start, unit.char_end)}):
        if 0 <= border <= len(text):
            place += len(text[at:border].encode())
            at = border
            offsets[border] = place
    return offsets


def _checked(vector: Vector, dimensions: int | None, base_id: str) -> Vector:
    if vector.shape != (dimensions,):
        raise DimensionMismatch(base_id=base_id, expected=dimensions, found=list(vector.shape))
    return np.asarray(vector, "<f4")
