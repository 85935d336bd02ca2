"""Change a base's settings. Touches no item, job or file: new settings count for later indexing only.

Another embedder, which only a base without items may get, brings a new blank index of its width.
"""

from contextlib import ExitStack

from knowledge.bases.processors import require_processor
from knowledge.catalog import bases, groups
from knowledge.db.engine import Tx
from knowledge.errors import InvalidInput
from knowledge.model.ids import BaseId
from knowledge.model.inputs import BasePatch
from knowledge.model.status import BaseStatus
from knowledge.model.views import Base
from knowledge.runtime import Runtime

_COLUMNS = {"embedder": "embedding_model_id", "rerank_model": "rerank_model_id", "file_processor": "file_processor_id"}


def patch_base(rt: Runtime, base_id: BaseId, patch: BasePatch) -> Base:
    """The base as it is afterwards.

    Raises:
        BaseNotFound, GroupNotFound, ModelNotFound, BaseBusy, StorageFull, StorageFailed; nothing has changed.
        InvalidInput: the embedder of a base with items; an overlap or separator that does not fit what the base has; a file
            processor that is not installed.
    """
    require_processor(rt, patch.file_processor)
    if "embedder" not in patch.changes():
        with rt.db.write(durable=True) as tx:
            return apply(rt, tx, bases.get(tx, base_id), patch, backfill=False)
    with rt.locks.base(base_id), ExitStack() as blank:
        put_in_place = None
        with rt.db.write(durable=True) as tx:
            before = bases.get(tx, base_id)
            after = apply(rt, tx, before, patch, backfill=False)
            if after.embedder != before.embedder:
                put_in_place = blank.enter_context(rt.indexes.blank(base_id, after.dimensions))  # a full disk changes nothing
                rt.indexes.drop(base_id)  # a crash after the commit must leave none of the old width, which nobody may mend
        if put_in_place:
            put_in_place()
    return after


def apply(rt: Runtime, tx: Tx, base: Base, patch: BasePatch, *, backfill: bool) -> Base:
    """The same inside the caller's transaction.

    Args:
        backfill: lets a base without embedder that has items get its first one; the caller indexes them again.
    """
    changes = {name: value for name, value in patch.changes().items() if value != getattr(base, name)}
    if not changes:
        return base
    if changes.get("group_id"):
        groups.require(tx, str(changes["group_id"]))
    values = {_COLUMNS.get(name, name): value for name, value in changes.items()}
    if "embedder" in changes:
        values["dimensions"] = _dimensions(rt, tx, base, patch.embedder, backfill=backfill)
    _check_merged(base, changes)
    return bases.change(tx, base.id, values)


def _dimensions(rt: Runtime, tx: Tx, base: Base, embedder: str | None, *, backfill: bool) -> int | None:
    is_first = backfill and base.embedder is None and embedder is not None
    if not is_first and bases.has_visible_items(tx, base.id):
        raise InvalidInput("The embedder of a base with items cannot be changed.", field="embedder", base_id=base.id)
    return rt.embedders.spec(embedder).dimensions if embedder else None


def _check_merged(base: Base, changes: dict[str, object]) -> None:
    """What only holds together: checked against what the base keeps."""

    def merged(name: str) -> object:
        return changes.get(name, getattr(base, name))

    size, overlap = merged("chunk_size"), merged("chunk_overlap")
    assert isinstance(size, int)
    assert isinstance(overlap, int)
    if overlap >= size:
        raise InvalidInput(
            f"chunk_overlap ({overlap}) must be smaller than chunk_size ({size}).", field="chunk_overlap", base_id=base.id
        )
    if merged("chunk_strategy") == "delimiter" and not merged("chunk_separator"):
        raise InvalidInput(
            "chunk_separator must not be empty with the delimiter strategy.", field="chunk_separator", base_id=base.id
        )
    if "embedder" in changes and base.status is BaseStatus.FAILED:
        raise InvalidInput("A failed base keeps its embedder; restore it into a new base.", field="embedder", base_id=base.id)
