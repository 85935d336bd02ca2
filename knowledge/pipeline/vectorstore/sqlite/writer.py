"""Replacing and removing materials: everything a write changes, inside one transaction that the caller holds open."""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import apsw
import numpy as np

from knowledge.errors import IndexFault
from knowledge.model.documents import Vectors
from knowledge.pipeline.indexing import analyser
from knowledge.pipeline.vectorstore.sqlite import mark
from knowledge.pipeline.vectorstore.sqlite.blocks import BLOCK_SLOTS, CodeWriter
from knowledge.pipeline.vectorstore.sqlite.connection import one_row
from knowledge.pipeline.vectorstore.sqlite.prepare import Prepared, PreparedMaterial

NEXT_GENERATION: Final = "UPDATE state SET generation = generation + 1 RETURNING generation, next_body"
_INSERT_UNIT: Final = "INSERT INTO unit VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"


class Writer:
    """One write to one base."""

    def __init__(self, connection: apsw.Connection, base_id: str, dimensions: int | None) -> None:
        self._connection = connection
        self._run = connection.execute
        self._many = connection.executemany
        self._base_id = base_id
        self._generation, self._next_body = one_row(connection, NEXT_GENERATION)
        self._codes = None if dimensions is None else CodeWriter(connection, dimensions, self._generation)

    def replace(self, prepared: Prepared) -> None:
        """Put these materials in the place of what their items have.

        Raises:
            IndexFault: a body has no vector, or a path belongs to another item.
        """
        wanted = prepared.texts
        known = dict(self._many("SELECT ?1, id FROM body WHERE hash = ?1", ((key,) for key in wanted)))
        missing = [key for key in wanted if key not in known]
        bare = self._without_vector(known)
        if lacking := 0 if self._codes is None else sum(key not in prepared.vectors for key in (*missing, *bare)):
            raise IndexFault(f"{lacking} texts have no vector.", base_id=self._base_id, texts=lacking)

        found = dict(
            self._many("SELECT item_id, id FROM material WHERE item_id = ?", ((m.item_id,) for m in prepared.materials))
        )
        old_contents = self._detach(found.values(), keep=set(known.values()))
        self._release(bare, known)
        bodies = known | self._add_bodies([*bare, *missing], prepared)
        self._many("UPDATE unit SET body_id = ? WHERE body_id = ?", ((bodies[key], known[key]) for key in bare))
        for material in prepared.materials:
            self._add_material(material, found.get(material.item_id), bodies)
        self._drop_contents(old_contents)
        self._settle()

    def remove(self, item_ids: Collection[str]) -> int:
        """Remove the materials of these items; returns how many there were."""
        found = dict(self._many("SELECT item_id, id FROM material WHERE item_id = ?", ((item_id,) for item_id in item_ids)))
        if found:
            contents = self._detach(found.values(), keep=set())
            self._many("DELETE FROM material WHERE id = ?", ((key,) for key in found.values()))
            self._drop_contents(contents)
            mark.put(self._connection, self._generation)
            self._settle()
        return len(found)

    def _detach(self, materials: Collection[int], keep: set[int]) -> set[int]:
        """Delete the units of materials and the bodies that only they had; returns the contents they pointed to."""
        if not materials:
            return set()
        keys = [(key,) for key in materials]
        contents = {content for (content,) in self._many("SELECT content_id FROM material WHERE id = ?", keys)}
        bodies = {body for (body,) in self._many("SELECT body_id FROM unit WHERE material_id = ?", keys)} - keep
        self._many("DELETE FROM unit WHERE material_id = ?", keys)
        shared = {body for (body,) in self._many("SELECT body_id FROM unit WHERE body_id = ? LIMIT 1", ((b,) for b in bodies))}
        # Ascending, and before anything is added: FTS5 writes a segment whenever a row id falls behind the last.
        self._drop_bodies(sorted(bodies - shared))
        return contents

    def _without_vector(self, known: dict[bytes, int]) -> list[bytes]:
        """Texts from the time before the base had its embedder."""
        if self._codes is None:
            return []
        rows = self._many("SELECT ?1 WHERE NOT EXISTS (SELECT 1 FROM vector WHERE id = ?2)", known.items())
        return [key for (key,) in rows]

    def _release(self, hashes: Sequence[bytes], known: dict[bytes, int]) -> None:
        """Take these texts out; they come again with new ids, because codes are appended in the order of ids."""
        if hashes:
            keys = [(known[key],) for key in sorted(hashes, key=known.__getitem__)]
            self._many("DELETE FROM lexical WHERE rowid = ?", keys)
            self._many("DELETE FROM body WHERE id = ?", keys)
            self._run("UPDATE state SET bodies = bodies - ?", (len(keys),))

    def _drop_bodies(self, bodies: Sequence[int]) -> None:
        if not bodies:
            return
        keys = [(body,) for body in bodies]
        self._many("DELETE FROM lexical WHERE rowid = ?", keys)
        self._many("DELETE FROM body WHERE id = ?", keys)
        self._run("UPDATE state SET bodies = bodies - ?", (len(bodies),))
        if self._codes is not None:
            self._many("DELETE FROM vector WHERE id = ?", keys)
            self._codes.strike_out(bodies)

    def _add_bodies(self, hashes: Sequence[bytes], prepared: Prepared) -> dict[bytes, int]:
        if not hashes:
            return {}
        ids = range(self._next_body, self._next_body + len(hashes))
        self._many("INSERT INTO body VALUES (?, ?)", zip(ids, hashes, strict=True))
        tokens = ((body, analyser.index_text(prepared.texts[key])) for body, key in zip(ids, hashes, strict=True))
        self._many("INSERT INTO lexical (rowid, tokens) VALUES (?, ?)", tokens)
        self._run("UPDATE state SET next_body = ?, bodies = bodies + ?", (ids.stop, len(hashes)))
        for start in range(0, len(hashes), BLOCK_SLOTS) if self._codes is not None else ():
            part = slice(start, start + BLOCK_SLOTS)  # bounds the memory of a leaf with very many units
            self._add_vectors(ids[part], np.stack([prepared.vectors[key] for key in hashes[part]]))
        return dict(zip(hashes, ids, strict=True))

    def _add_vectors(self, bodies: Sequence[int], vectors: Vectors) -> None:
        if self._codes is not None:
            rows = ((body, row.tobytes()) for body, row in zip(bodies, vectors, strict=True))
            self._many("INSERT INTO vector VALUES (?, ?)", rows)
            self._codes.append(bodies, vectors)

    def _add_material(self, material: PreparedMaterial, key: int | None, bodies: dict[bytes, int]) -> None:
        content = self._content(material)
        try:
            if key is None:
                self._run(
                    "INSERT INTO material (item_id, path, content_id) VALUES (?, ?, ?)",
                    (material.item_id, material.path, content),
                )
                key = self._connection.last_insert_rowid()
            else:
                changed = "UPDATE material SET path = ?1, content_id = ?2 WHERE id = ?3 AND (path, content_id) != (?1, ?2)"
                self._run(changed, (material.path, content, key))
                if self._connection.changes():
                    mark.put(self._connection, self._generation)
        except apsw.ConstraintError as error:
            raise IndexFault(
                "Another item of this base has the same path.",
                base_id=self._base_id,
                item_id=material.item_id,
                path=material.path,
            ) from error
        self._many(
            _INSERT_UNIT,
            (
                (
                    key,
                    item.unit.index,
                    item.unit.char_start,
                    item.unit.char_end,
                    item.byte_start,
                    item.byte_end,
                    item.unit.page,
                    item.unit.locator,
                    bodies[item.body_hash],
                )
                for item in material.units
            ),
        )

    def _content(self, material: PreparedMaterial) -> int:
        row = self._run("SELECT id FROM content WHERE hash = ?", (material.content_hash,)).fetchone()
        if row is not None:
            return int(row[0])
        self._run("INSERT INTO content (hash, text) VALUES (?, ?)", (material.content_hash, material.text))
        return self._connection.last_insert_rowid()

    def _drop_contents(self, contents: Iterable[int]) -> None:
        self._many(
            "DELETE FROM content WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM material WHERE content_id = ?1)",
            ((content,) for content in contents),
        )

    def _settle(self) -> None:
        if self._codes is not None:
            self._codes.renew_if_due()
