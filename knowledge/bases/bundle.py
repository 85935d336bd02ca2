"""Import a base from a bundle: a zip file with rows, raw bytes and, if it likes, vectors.

    base.json         {"format": 1, "base": {…}, "items": [{…}, …]}: see `Bundle`
    raw/<path>        the stored bytes of each file and note, under its `relative_path`
    vectors.npz       optional: `hashes` (n strings, SHA-256 of the unit's text) and `vectors` (float32, n × dimensions)

Everything is indexed again here; the vectors spare the payment. A base whose embedder is not declared here becomes `failed`
with `missing_embedding_model`, one whose vectors are unusable `failed` with `missing_vector_store`; restore leads out of both.
"""

import io
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from knowledge.bases.create import create_base
from knowledge.bases.delete import delete_base
from knowledge.catalog import bases, items, jobs, paths
from knowledge.db.columns import utc_now
from knowledge.db.engine import Tx
from knowledge.errors import BundleUnreadable, KnowledgeError, ModelNotFound, UnsafePath
from knowledge.files.paths import guard
from knowledge.model.documents import Vector
from knowledge.model.ids import ItemId, new_item_id
from knowledge.model.inputs import BaseInput
from knowledge.model.jobs import JobSpec
from knowledge.model.status import ItemStatus, ItemType
from knowledge.model.views import Base
from knowledge.runtime import Runtime

MISSING_MODEL: Final = "missing_embedding_model"
MISSING_VECTORS: Final = "missing_vector_store"


class BundleItem(BaseModel):
    """One row; parents come before their children."""

    model_config = ConfigDict(extra="forbid")

    id: str
    group_id: str | None = None
    type: Literal["file", "note", "directory"]
    source: str
    relative_path: str
    data: dict[str, object] = Field(default_factory=dict)


class Bundle(BaseModel):
    model_config = ConfigDict(extra="forbid")

    format: Literal[1]
    base: BaseInput
    dimensions: int | None = None
    items: list[BundleItem]

    @model_validator(mode="after")
    def _is_a_tree(self) -> "Bundle":
        containers: set[str | None] = {None}
        seen: set[str] = set()
        for item in self.items:
            if item.group_id not in containers:
                raise ValueError(f"item {item.id}: its parent is no directory before it")
            if item.id in seen:
                raise ValueError(f"item {item.id} is there twice")
            seen.add(item.id)
            if item.type == "directory":
                containers.add(item.id)
        return self


def import_base(rt: Runtime, bundle_path: Path) -> Base:
    """The new base; its items are being indexed, or it is `failed` and says why.

    Raises:
        BundleUnreadable: the file is no bundle, or names a path it must not. StorageFull, StorageFailed, BaseBusy. Nothing is
            left.
    """
    with _opened(bundle_path) as archive:
        bundle = _manifest(archive)
        vectors = _vectors(archive)
        error = _verdict(rt, bundle, vectors)
        made = create_base(rt, bundle.base if error is None else bundle.base.model_copy(update={"embedder": None}))
        try:
            _fill(rt, made, bundle, archive, error)
        except KnowledgeError:
            delete_base(rt, made.id)
            raise
    if error is None and isinstance(vectors, Mapping) and made.embedder:
        spec = rt.embedders.spec(made.embedder)
        if spec.billed:
            rt.cache.put(spec.fingerprint, vectors)
    rt.dispatch.publish_due(made.id)
    with rt.db.read() as tx:
        return bases.get(tx, made.id)


def _verdict(rt: Runtime, bundle: Bundle, vectors: Mapping[str, Vector] | Literal["unusable"] | None) -> str | None:
    """What is wrong with the base as it would be here; None if it can work."""
    if bundle.base.embedder is None:
        return None
    try:
        spec = rt.embedders.spec(bundle.base.embedder)
    except ModelNotFound:
        return MISSING_MODEL
    if bundle.dimensions is not None and bundle.dimensions != spec.dimensions:
        return MISSING_VECTORS
    if vectors == "unusable" or (
        isinstance(vectors, Mapping) and any(vector.shape != (spec.dimensions,) for vector in vectors.values())
    ):
        return MISSING_VECTORS
    return None


def _fill(rt: Runtime, made: Base, bundle: Bundle, archive: zipfile.ZipFile, error: str | None) -> None:
    ids = {item.id: new_item_id() for item in bundle.items}
    placed: list[str] = []
    with rt.locks.base(made.id):
        for item in bundle.items:
            if item.type != "directory":
                _extract(rt, made, archive, item.relative_path)
                placed.append(item.relative_path)
        rt.files.sync(made.id, placed)
        with rt.db.write(durable=True) as tx:
            items.insert(tx, made.id, [_row(item, ids, error) for item in bundle.items])
            for item in bundle.items:
                if item.group_id is None:
                    _hold_name(tx, made, ids[item.id], item)
            if error is None:
                leaves = [ids[item.id] for item in bundle.items if item.type != "directory"]
                jobs.enqueue_all(tx, [JobSpec.index_documents(made.id, item_id) for item_id in leaves], shard=made.shard)
            else:
                bases.fail(tx, made.id, error, embedder=bundle.base.embedder, dimensions=bundle.dimensions)


def _row(item: BundleItem, ids: Mapping[str, ItemId], error: str | None) -> items.NewItem:
    kind = ItemType(item.type)
    return items.NewItem(
        ids[item.id],
        kind,
        item.source,
        ItemStatus.COMPLETED if error else ItemStatus.PROCESSING,
        group_id=ids[item.group_id] if item.group_id else None,
        relative_path=item.relative_path,
        data=item.data,
        expanded_at=utc_now() if kind is ItemType.DIRECTORY else None,
    )


def _hold_name(tx: Tx, made: Base, item_id: ItemId, item: BundleItem) -> None:
    held = paths.reserve(tx, made.id, item_id, item.relative_path, directory=item.type == "directory")
    if held != item.relative_path:
        raise BundleUnreadable("Two roots of the bundle have one name.", path=item.relative_path)


def _extract(rt: Runtime, made: Base, archive: zipfile.ZipFile, path: str) -> None:
    try:
        with archive.open(f"raw/{path}") as packed:
            staged = rt.files.stage_stream(made.id, packed)
    except KeyError:
        raise BundleUnreadable("The bundle lacks the bytes of an item.", path=path) from None
    except (zipfile.BadZipFile, EOFError) as error:
        raise BundleUnreadable("The bundle is damaged.", path=path) from error
    rt.files.publish(staged, path)


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (OSError, zipfile.BadZipFile) as error:
        raise BundleUnreadable(f"This file cannot be read as a bundle: {error}", path=str(path)) from error


def _manifest(archive: zipfile.ZipFile) -> Bundle:
    try:
        bundle = Bundle.model_validate_json(archive.read("base.json"))
        for item in bundle.items:
            guard(item.relative_path)
    except KeyError:
        raise BundleUnreadable("The bundle has no base.json.") from None
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise BundleUnreadable(f"base.json: {first['msg']}", field=".".join(map(str, first["loc"]))) from error
    except UnsafePath as error:
        raise BundleUnreadable("The bundle names an unsafe path.", **error.details) from error
    return bundle


def _vectors(archive: zipfile.ZipFile) -> Mapping[str, Vector] | Literal["unusable"] | None:
    if "vectors.npz" not in archive.namelist():
        return None
    try:
        with np.load(io.BytesIO(archive.read("vectors.npz")), allow_pickle=False) as stored:
            hashes, vectors = stored["hashes"], np.asarray(stored["vectors"], np.float32)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return "unusable"
    if vectors.ndim != 2 or len(hashes) != len(vectors) or not np.isfinite(vectors).all():
        return "unusable"
    return {str(key): vector for key, vector in zip(hashes, vectors, strict=True)}
