"""Import a base from a bundle: a zip file with rows, raw bytes and, if it likes, vectors.

    base.json         {"format": 1, "base": {…}, "items": [{…}, …]}: see `Bundle`
    raw/<path>        the stored bytes of each file, note and page, under its `relative_path`
    vectors.npz       optional: `hashes` (n strings, SHA-256 of the unit's text) and `vectors` (float32, n × dimensions)

Everything is indexed again here, from the bytes that came along; the vectors spare the payment, except where a client imports:
its vectors would be believed in every base. The sources that it names are looked at only when somebody has an item indexed
again; what a client imports is confined to the import roots then (see `ingestion.origin`). A base whose embedder is not
declared here becomes `failed` with `missing_embedding_model`, one whose vectors are unusable `failed` with
`missing_vector_store`; restore leads out of both.
"""

import errno
import io
import logging
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Annotated, Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from knowledge.bases.bundle_data import data_of
from knowledge.bases.making import making
from knowledge.catalog import bases, groups, items, jobs, paths, status
from knowledge.db.columns import utc_now
from knowledge.errors import BundleUnreadable, GroupNotFound, InvalidUrl, ModelNotFound, UnsafePath
from knowledge.files.paths import guard
from knowledge.files.store import Staged
from knowledge.ingestion import origin
from knowledge.ingestion.incoming import BY_ADDRESS
from knowledge.ingestion.placing import placing
from knowledge.model.budget import most_inflated_bytes
from knowledge.model.documents import Vector
from knowledge.model.ids import ItemId, new_item_id
from knowledge.model.inputs import MAX_DIMENSIONS, BaseInput, NonBlank
from knowledge.model.jobs import JobSpec
from knowledge.model.names import folded
from knowledge.model.status import CONTAINERS, ItemStatus, ItemType
from knowledge.model.urls import normal_url
from knowledge.model.views import Base
from knowledge.pipeline.indexing.embedding import are_sound
from knowledge.pipeline.sources.directory import shown
from knowledge.runtime import Runtime

log = logging.getLogger(__name__)

MISSING_MODEL: Final = "missing_embedding_model"
MISSING_VECTORS: Final = "missing_vector_store"

MAX_MANIFEST_BYTES: Final = 256 << 20
MAX_VECTOR_BYTES: Final = 4 << 30
_DAMAGE: Final = (  # whatever `zipfile` meets in an archive that is damaged, encrypted, or packed in a way it does not know
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OSError,
)
_PACKED: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})  #: others unpack a whole piece at once, however large
_HASH: Final = re.compile("[0-9a-f]{64}")


class BundleItem(BaseModel):
    """One row; parents come before their children, and what a row owns lies directly below its parent's path."""

    model_config = ConfigDict(extra="forbid")

    id: str
    group_id: str | None = None
    type: Literal["file", "note", "url", "directory", "archive", "sitemap"]
    source: NonBlank
    relative_path: str | None = None
    """Only a page that was never fetched has none."""
    data: dict[str, object] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _is_whole(self) -> "BundleItem":
        self.data = data_of(self.type, self.data)
        if self.type not in BY_ADDRESS and "\0" in self.source:
            raise ValueError("a source must not hold a NUL")
        if self.relative_path is None and self.type != "url":
            raise ValueError(f"a {self.type} needs its relative_path")
        if self.type in BY_ADDRESS:
            try:
                self.source = normal_url(self.source)
            except InvalidUrl as error:
                raise ValueError(str(error)) from None
        return self


class Bundle(BaseModel):
    model_config = ConfigDict(extra="forbid")

    format: Annotated[int, Field(strict=True, ge=1, le=1)]
    base: BaseInput
    dimensions: Annotated[int, Field(strict=True, gt=0, le=MAX_DIMENSIONS)] | None = None
    items: list[BundleItem]

    @model_validator(mode="after")
    def _is_a_tree(self) -> "Bundle":
        containers: dict[str | None, str] = {None: "."}
        seen: set[str] = set()
        taken: set[str] = set()
        for item in self.items:
            if item.group_id not in containers:
                raise ValueError(f"item {item.id}: its parent is no container before it")
            if item.id in seen:
                raise ValueError(f"item {item.id} is there twice")
            seen.add(item.id)
            if item.relative_path is None:
                continue
            if str(PurePosixPath(item.relative_path).parent) != containers[item.group_id]:
                raise ValueError(f"item {item.id}: its path does not lie directly below that of its parent")
            if folded(item.relative_path) in taken:
                raise ValueError(f"item {item.id}: another one has its path")
            taken.add(folded(item.relative_path))
            if item.type in CONTAINERS:
                containers[item.id] = item.relative_path
        return self


def import_base(rt: Runtime, bundle_path: Path) -> Base:
    """The new base; its items are being indexed, or it is `failed` and says why.

    Raises:
        BundleUnreadable: the file is no bundle, is damaged, unpacks to far too much, or names a path it must not.
        BaseNotFound: somebody deleted the new base meanwhile. StorageFull, StorageFailed, BaseBusy. Nothing is left.
    """
    with _opened(rt, bundle_path) as archive:
        bundle = _manifest(archive)
        vectors = _vectors(archive)
        error = _verdict(rt, bundle, vectors)
        with making(rt, _settings(rt, bundle, error)) as made:
            if error is None and isinstance(vectors, Mapping):
                _keep_paid(rt, made, vectors)
            _fill(rt, made, bundle, archive, error)
    rt.dispatch.publish_due(made.id)
    with rt.db.read() as tx:
        return bases.get(tx, made.id)


def _keep_paid(rt: Runtime, made: Base, vectors: Mapping[str, Vector]) -> None:
    """Spare the payment, before the first job could pay again."""
    spec = rt.embedders.spec(made.embedder) if made.embedder else None
    if spec is None or not spec.billed:
        return
    if rt.reach.is_confined:  # all bases share the cache, and nobody can see whether a vector is that of its text
        log.info("vectors of a client's bundle left out", extra={"base": made.id, "count": len(vectors)})
        return
    rt.cache.put(spec.fingerprint, vectors)


def _settings(rt: Runtime, bundle: Bundle, error: str | None) -> BaseInput:
    """As the bundle says, except for what names things of the installation it comes from."""
    here: dict[str, object] = {"shard": BaseInput.model_fields["shard"].default}
    if error is not None:
        here["embedder"] = None
    if bundle.base.group_id is not None:
        with rt.db.read() as tx, suppress(GroupNotFound):
            groups.require(tx, bundle.base.group_id)
            return bundle.base.model_copy(update=here)
    return bundle.base.model_copy(update={**here, "group_id": None})


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
    staged: dict[str, Staged] = {}
    try:
        for item in bundle.items:
            if item.type not in CONTAINERS and item.relative_path is not None:
                staged[item.relative_path] = _unpacked(rt, made, archive, item.relative_path)
        with placing(rt, made.id) as placed, rt.db.write(durable=True) as tx:
            bases.reveal(tx, made.id)
            items.insert(tx, made.id, [_row(rt, item, ids, error) for item in bundle.items])
            claims = paths.Claims(tx, made.id)
            for item in bundle.items:
                if item.relative_path is not None:
                    claims.take(ids[item.id], item.relative_path)
            claims.hold()
            for path, bytes_ in staged.items():
                placed.append(path)
                rt.files.publish(bytes_, path)
            rt.files.sync(made.id, placed)
            if error is None:
                leaves = [ids[item.id] for item in bundle.items if item.type not in CONTAINERS]
                jobs.enqueue_all(tx, [JobSpec.index_documents(made.id, item_id) for item_id in leaves], shard=made.shard)
                containers = [ids[item.id] for item in reversed(bundle.items) if item.type in CONTAINERS]
                status.reconcile(tx, made.id, containers)  # a folder without a file has no job that would
            else:
                bases.fail(tx, made.id, error, embedder=bundle.base.embedder, dimensions=bundle.dimensions)
    finally:
        rt.files.discard(staged.values())


def _row(rt: Runtime, item: BundleItem, ids: Mapping[str, ItemId], error: str | None) -> items.NewItem:
    kind = ItemType(item.type)
    return items.NewItem(
        ids[item.id],
        kind,
        item.source,
        ItemStatus.COMPLETED if error else ItemStatus.PROCESSING,
        group_id=ids[item.group_id] if item.group_id else None,
        relative_path=item.relative_path,
        data=origin.confined_data(item.data) if rt.reach.is_confined else item.data,
        expanded_at=utc_now() if kind in CONTAINERS else None,
    )


def _unpacked(rt: Runtime, made: Base, archive: zipfile.ZipFile, path: str) -> Staged:
    try:
        with archive.open(f"raw/{path}") as packed:
            return rt.files.stage_stream(made.id, packed)
    except KeyError:
        raise BundleUnreadable("The bundle lacks the bytes of an item.", path=path) from None
    except _DAMAGE as error:
        raise BundleUnreadable("The bundle is damaged.", path=path) from error


@contextmanager
def _opened(rt: Runtime, path: Path) -> Iterator[zipfile.ZipFile]:
    with ExitStack() as opened:
        label = shown(str(path))
        try:
            if rt.files.holds(path):
                raise BundleUnreadable("This path belongs to Knowledge itself.", path=label)
            descriptor = rt.reach.open(path, os.O_RDONLY | os.O_NONBLOCK, rt.files.holds)
            opened.callback(os.close, descriptor)
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise BundleUnreadable(f"This is {_kind(found.st_mode)}; a bundle is one zip file.", path=label)
            stream = opened.enter_context(open(descriptor, "rb", closefd=False))
            archive = opened.enter_context(zipfile.ZipFile(stream))
        except _DAMAGE as error:
            raise BundleUnreadable(f"This cannot be read as a bundle: {_reason(error)}", path=label) from error
        if any(entry.compress_type not in _PACKED for entry in archive.infolist()):
            raise BundleUnreadable("The bundle is packed in an unusual way; only deflate will do.", path=label)
        if _is_bomb(archive, found.st_size):
            raise BundleUnreadable("This file unpacks to far more than a bundle would.", path=label)
        yield archive


def _kind(mode: int) -> str:
    """What lies there instead of a file."""
    if stat.S_ISDIR(mode):
        return "a directory"
    return "a pipe" if stat.S_ISFIFO(mode) else "a device"


def _reason(error: Exception) -> str:
    """Without the number of a descriptor, which says nothing to a person."""
    if not isinstance(error, OSError):
        return str(error)
    return "it is a socket" if error.errno == errno.ENXIO else os.strerror(error.errno or 0)


def _is_bomb(archive: zipfile.ZipFile, packed_bytes: int) -> bool:
    """What each entry says of its size is a promise: `zipfile` gives no byte more. Entries that share bytes count each."""
    return sum(entry.file_size for entry in archive.infolist()) > most_inflated_bytes(packed_bytes)


def _manifest(archive: zipfile.ZipFile) -> Bundle:
    try:
        if archive.getinfo("base.json").file_size > MAX_MANIFEST_BYTES:
            raise BundleUnreadable("base.json is too large.")
        bundle = Bundle.model_validate_json(archive.read("base.json"))
        for item in bundle.items:
            if item.relative_path is not None:
                guard(item.relative_path)
    except KeyError:
        raise BundleUnreadable("The bundle has no base.json.") from None
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise BundleUnreadable(f"base.json: {first['msg']}", field=".".join(map(str, first["loc"]))) from error
    except UnsafePath as error:
        raise BundleUnreadable("The bundle names an unsafe path.", **error.details) from error
    except _DAMAGE as error:
        raise BundleUnreadable("The bundle is damaged.", path="base.json") from error
    return bundle


def _vectors(archive: zipfile.ZipFile) -> Mapping[str, Vector] | Literal["unusable"] | None:
    if "vectors.npz" not in archive.namelist():
        return None
    if archive.getinfo("vectors.npz").file_size > MAX_VECTOR_BYTES:
        return "unusable"
    try:
        stored = archive.read("vectors.npz")
        with zipfile.ZipFile(io.BytesIO(stored)) as arrays:
            if _is_bomb(arrays, len(stored)):
                return "unusable"
        with np.load(io.BytesIO(stored), allow_pickle=False) as arrays_, np.errstate(over="ignore"):
            hashes, vectors = [str(key) for key in arrays_["hashes"]], np.asarray(arrays_["vectors"], np.float32)
    except (*_DAMAGE, KeyError, TypeError):
        return "unusable"
    if vectors.ndim != 2 or len(hashes) != len(vectors) or not are_sound(vectors):
        return "unusable"
    if not all(_HASH.fullmatch(key) for key in hashes):
        return "unusable"
    return dict(zip(hashes, vectors, strict=True))
