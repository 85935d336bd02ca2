"""Give a base that searches by words alone its first embedder, and index everything in it again: one commit."""

from knowledge.bases.patch import apply
from knowledge.catalog import bases, items, jobs
from knowledge.errors import InvalidInput, InvalidOperation
from knowledge.ingestion.reindex import require_settled, require_sources
from knowledge.model.ids import BaseId
from knowledge.model.inputs import BasePatch
from knowledge.model.jobs import JobSpec
from knowledge.model.views import Base
from knowledge.runtime import Runtime


def enable_embedder(rt: Runtime, base_id: BaseId, embedder: str) -> Base:
    """The base with its embedder; its items are found by words until each has its vectors.

    Raises, with nothing changed:
        BaseNotFound, BaseFailed, ModelNotFound. InvalidOperation: it has this embedder already. InvalidInput: it has another.
        PathNotAllowed, SourcesMissing, SourcesUnverifiable, ItemsUnfinished: as for a reindex of every root.
    """
    with rt.db.read() as tx:
        base = bases.require_runnable(tx, base_id)
        roots = items.roots(tx, base_id)
    _require_none(base, embedder)
    rt.embedders.spec(embedder)
    require_sources(rt, roots)
    with rt.locks.base(base_id), rt.db.write(durable=True) as tx:
        base = bases.require_runnable(tx, base_id)
        _require_none(base, embedder)  # again: somebody may have been faster
        ids = [root.id for root in items.roots(tx, base_id)]  # again: one may have been added meanwhile
        require_settled(tx, base_id, ids)
        base = apply(rt, tx, base, BasePatch(embedder=embedder), backfill=True)
        if ids:
            backfill = JobSpec.reindex_subtree(base_id, ids, backfill=True, confined=rt.reach.is_confined)
            jobs.enqueue(tx, backfill, shard=base.shard)
    rt.dispatch.publish_due(base_id)
    return base


def _require_none(base: Base, embedder: str) -> None:
    if base.embedder == embedder:
        raise InvalidOperation("The base has this embedder already.", base_id=base.id, embedder=embedder)
    if base.embedder is not None:
        raise InvalidInput(
            "The base has another embedder; an empty base can be patched, any other restored into a new one.",
            field="embedder",
            base_id=base.id,
            embedder=base.embedder,
        )
