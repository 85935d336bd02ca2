"""A new base, seen by nobody until it is whole."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from knowledge.catalog import bases
from knowledge.errors import KnowledgeError
from knowledge.ingestion.purge import forget_base, remove_base
from knowledge.model.ids import BaseId, new_base_id
from knowledge.model.inputs import BaseInput
from knowledge.model.views import Base
from knowledge.runtime import Runtime

log = logging.getLogger(__name__)


@contextmanager
def making(rt: Runtime, wanted: BaseInput) -> Iterator[Base]:
    """A base with an empty index, under its lock. The last transaction of the block says `bases.reveal`.

    Whatever ends the block before that leaves nothing. Is it the end of this process, recovery removes what nobody's lock
    keeps.

    Raises:
        ModelNotFound: the embedder is not declared. IndexFault, StorageFull, StorageFailed, DatabaseBusy.
    """
    dimensions = rt.embedders.spec(wanted.embedder).dimensions if wanted.embedder else None
    base_id = new_base_id()
    is_left = True
    try:
        with rt.locks.base(base_id):
            with rt.db.write(durable=True) as tx:
                base = bases.insert(tx, base_id, wanted, dimensions)
            try:
                rt.indexes.create(base.id, base.dimensions)
                yield base
            except BaseException:
                is_left = not _take_back(rt, base.id)
                raise
    finally:
        if not is_left:
            forget_base(rt, base_id)


def _take_back(rt: Runtime, base_id: BaseId) -> bool:
    """Best effort: the error that led here is the one the caller must see. Whether it is gone."""
    try:
        with rt.db.read() as tx:
            is_whole = not bases.is_hidden(tx, base_id)
        if not is_whole:
            remove_base(rt, base_id)
        return not is_whole
    except Exception as error:  # whatever it is, the base is hidden, and recovery removes it
        code = error.code if isinstance(error, KnowledgeError) else "internal_error"
        log.error("half-made base left to recovery", extra={"base": base_id, "code": code}, exc_info=True)
        return False
