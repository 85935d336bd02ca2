"""Create a base: row and index, or neither."""

import logging

from knowledge.catalog import bases
from knowledge.errors import KnowledgeError
from knowledge.model.inputs import BaseInput
from knowledge.model.views import Base
from knowledge.runtime import Runtime

log = logging.getLogger(__name__)


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
    except BaseException:
        _undo(rt, base)
        raise
    return base


def _undo(rt: Runtime, base: Base) -> None:
    """Best effort: the error that led here is the one the caller must see."""
    try:
        with rt.locks.base(base.id):
            rt.indexes.drop(base.id)
            rt.files.remove_base(base.id)
            with rt.db.write() as tx:
                bases.remove(tx, base.id)
    except KnowledgeError as error:
        log.error("half-made base could not be removed", extra={"base": base.id, "code": error.code, "reason": str(error)})
