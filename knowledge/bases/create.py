"""Create a base: row and index, or neither."""

from knowledge.bases.undo import undo
from knowledge.catalog import bases
from knowledge.model.inputs import BaseInput
from knowledge.model.views import Base
from knowledge.runtime import Runtime


def create_base(rt: Runtime, wanted: BaseInput) -> Base:
    """A new base, ready for items.

    Raises:
        ModelNotFound: the embedder is not declared. IndexFault, StorageFull, StorageFailed: nothing is left behind.
    """
    dimensions = rt.embedders.spec(wanted.embedder).dimensions if wanted.embedder else None
    with rt.db.write(durable=True) as tx:
        base = bases.insert(tx, wanted, dimensions)
    try:
        with rt.locks.base(base.id):
            rt.indexes.create(base.id, base.dimensions)
    except BaseException as error:
        undo(rt, base, error)
        raise
    return base
