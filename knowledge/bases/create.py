"""Create a base: row and index, or neither."""

from knowledge.bases.making import making
from knowledge.bases.processors import require_processor
from knowledge.catalog import bases
from knowledge.model.inputs import BaseInput
from knowledge.model.views import Base
from knowledge.runtime import Runtime


def create_base(rt: Runtime, wanted: BaseInput) -> Base:
    """A new base, ready for items.

    Raises:
        ModelNotFound: the embedder is not declared. InvalidInput: the file processor is not installed.
        IndexFault, StorageFull, StorageFailed: nothing is left behind.
    """
    require_processor(rt, wanted.file_processor)
    with making(rt, wanted) as base, rt.db.write(durable=True) as tx:
        bases.reveal(tx, base.id)
        return bases.get(tx, base.id)
