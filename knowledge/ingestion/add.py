"""Accept files, directories and notes: all of a call or nothing.

Bytes are copied beside raw/ first. Then, under the base lock, one durable transaction makes names, rows and jobs, and the
bytes are renamed into place inside it; a failure leaves neither rows nor files.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from knowledge.catalog import bases, items, jobs, paths
from knowledge.db.engine import Tx
from knowledge.errors import InvalidInput, PathNotFound, PathUnreadable
from knowledge.files.store import Staged
from knowledge.ingestion import origin
from knowledge.ingestion.placing import placing
from knowledge.model.ids import BaseId, ItemId, new_item_id
from knowledge.model.inputs import DirectoryInput, FileInput, ItemInput, NoteInput
from knowledge.model.jobs import JobSpec
from knowledge.model.names import safe_name
from knowledge.model.results import AddReceipt
from knowledge.model.status import ItemStatus, ItemType
from knowledge.model.views import Base
from knowledge.pipeline.sources.directory import shown
from knowledge.runtime import Runtime


def add_items(rt: Runtime, base_id: BaseId, inputs: Sequence[ItemInput]) -> AddReceipt:
    """See `KnowledgeService.add_items`.

    Raises:
        InvalidInput: nothing to add. PathNotFound, PathUnreadable, UnsupportedSource, BinarySource: one of the paths.
        BaseNotFound, BaseFailed, ModelNotFound, BaseBusy, StorageFull, StorageFailed, DatabaseBusy.
    """
    if not inputs:
        raise InvalidInput("There is nothing to add.")
    with rt.db.read() as tx:
        base = bases.require_runnable(tx, base_id)
    rt.require_embedder(base)
    for one in inputs:
        _check(rt, one)
    staged: dict[int, Staged] = {}
    try:
        for position, one in enumerate(inputs):
            if isinstance(one, FileInput):
                staged[position] = rt.files.stage_file(base_id, one.path.absolute())
        accepted = _admit(rt, base_id, inputs, staged)
    finally:
        rt.files.discard(staged.values())  # what was published is no longer there
    published = rt.dispatch.publish_due(base_id)
    with rt.db.read() as tx:
        found = items.visible(tx, base_id, accepted)
    return AddReceipt(base_id, [found[item_id] for item_id in accepted if item_id in found], published)


def _check(rt: Runtime, one: ItemInput) -> None:
    """Refuse what can be seen to fail, before anything is copied."""
    if isinstance(one, NoteInput):
        return
    path = one.path.absolute()
    label = shown(str(path))
    try:
        is_kind = path.is_file() if isinstance(one, FileInput) else path.is_dir()
        if not is_kind and not path.exists():
            raise PathNotFound(path=label)
    except OSError as error:  # a name too long, a loop of links, no right to look
        raise PathUnreadable(path=label, reason=os.strerror(error.errno or 0)) from error
    except ValueError as error:  # a NUL in the name
        raise PathNotFound(path=label) from error
    if not is_kind:
        raise InvalidInput(f"This is not a {one.type}.", path=label)
    if isinstance(one, DirectoryInput):
        if not os.access(path, os.R_OK | os.X_OK):
            raise PathUnreadable(path=label)
        return
    if not os.access(path, os.R_OK):
        raise PathUnreadable(path=label)
    if rt.files.holds(path) or rt.files.holds(path.resolve()):
        raise InvalidInput("This file belongs to Knowledge itself: it lies in the data directory.", path=label)
    rt.readers.require_reader(path, path.name)


def _admit(rt: Runtime, base_id: BaseId, inputs: Sequence[ItemInput], staged: dict[int, Staged]) -> list[ItemId]:
    ids = [new_item_id() for _ in inputs]
    with rt.locks.base(base_id), placing(rt, base_id) as placed, rt.db.write(durable=True) as tx:
        base = bases.require_runnable(tx, base_id)
        items.insert(tx, base_id, [_row(item_id, one) for item_id, one in zip(ids, inputs, strict=True)])
        for position, bytes_ in staged.items():
            path = _free_path(rt, tx, base, ids[position], Path(inputs[position].path).name)  # type: ignore[union-attr]  # only files are staged
            placed.append(path)
            rt.files.publish(bytes_, path)
            items.set_path(tx, ids[position], path)
        if placed:
            rt.files.sync(base_id, placed)
        jobs.enqueue_all(tx, [_job(base_id, item_id, one) for item_id, one in zip(ids, inputs, strict=True)], shard=base.shard)
    return ids


def _row(item_id: ItemId, one: ItemInput) -> items.NewItem:
    match one:
        case FileInput():
            return items.NewItem(item_id, ItemType.FILE, shown(str(one.path.absolute())), ItemStatus.PROCESSING)
        case DirectoryInput():
            path = one.path.absolute()
            return items.NewItem(item_id, ItemType.DIRECTORY, shown(str(path)), ItemStatus.PREPARING, data=origin.data_of(path))
        case NoteInput():
            return items.NewItem(item_id, ItemType.NOTE, one.source, ItemStatus.PROCESSING, data={"content": one.content})


def _job(base_id: BaseId, item_id: ItemId, one: ItemInput) -> JobSpec:
    if isinstance(one, DirectoryInput):
        return JobSpec.prepare_root(base_id, item_id)
    return JobSpec.index_documents(base_id, item_id)


def _free_path(rt: Runtime, tx: Tx, base: Base, item_id: ItemId, name: str) -> str:
    """A reserved name that the disk does not hold either; a leftover of a crash is stepped over, the sweep removes it."""
    path = paths.reserve(tx, base.id, item_id, safe_name(name))
    while rt.files.exists(base.id, path):
        path = paths.reserve(tx, base.id, item_id, safe_name(name))
    return path
