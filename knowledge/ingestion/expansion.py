"""Which source of children belongs to a container; see `pipeline.sources.children` for how to add a kind."""

from knowledge.errors import InvalidOperation
from knowledge.model.status import ItemType
from knowledge.model.views import Item
from knowledge.pipeline.sources.children import Children
from knowledge.runtime import Runtime


def children_of(rt: Runtime, root: Item) -> Children:
    """What to ask for the children of this container.

    Raises:
        InvalidOperation: nothing is known that lists containers of this type.
    """
    match root.type:
        case _:
            raise InvalidOperation(f"A {root.type} cannot be expanded here.", item_id=root.id)
