"""The search units of items, in the order of their text, and the text itself."""

from pathlib import Path

from knowledge.catalog import bases, items, tree
from knowledge.db.engine import Tx
from knowledge.errors import InvalidOperation
from knowledge.ingestion import mending
from knowledge.model.arguments import require_whole
from knowledge.model.ids import BaseId, ItemId
from knowledge.model.results import Chunk, Preview
from knowledge.model.status import CONTAINERS, ItemType
from knowledge.model.views import Item
from knowledge.pipeline.indexing.tokens import estimate_tokens
from knowledge.pipeline.vectorstore.port import StoredUnit
from knowledge.runtime import Runtime

MAX_PREVIEW_CHARACTERS = 20_000


def list_chunks(rt: Runtime, base_id: BaseId, item_id: ItemId) -> list[Chunk]:
    """The units of a leaf, or of every leaf below a directory, in order.

    What the index holds is an item's last good state, so an item that failed or is being indexed again still has its old ones;
    the status goes along.

    Raises:
        BaseNotFound, BaseFailed, ItemNotFound, ItemNotInBase, IndexFault.
        InvalidOperation: something in the subtree is being deleted.
    """
    with rt.db.read() as tx:
        base = bases.require_runnable(tx, base_id)
        item = items.get_in(tx, base_id, item_id)
        _require_whole_item(tx, item)
        leaves = tree.leaves(tx, base_id, [item_id])
    return mending.read(rt, base, lambda index: [_chunk(leaf, stored) for leaf in leaves for stored in index.units(leaf.id)])


def preview(rt: Runtime, item_id: ItemId, *, characters: int = 2_000) -> Preview:
    """The beginning of a leaf's text as it is searched; empty if it has no material yet.

    Raises:
        ItemNotFound, BaseFailed. InvalidInput: `characters` out of range. InvalidOperation: a directory, or being deleted.
    """
    require_whole("characters", characters, MAX_PREVIEW_CHARACTERS)
    with rt.db.read() as tx:
        item = items.get(tx, item_id)
        base = bases.require_runnable(tx, item.base_id)
        _require_whole_item(tx, item)
    if item.type in CONTAINERS:
        raise InvalidOperation("This item has no text of its own.", item_id=item_id, status=item.status.value)
    text = mending.read(rt, base, lambda index: index.content(item_id)) or ""
    return Preview(item_id, text[:characters], len(text), truncated=len(text) > characters)


def file_path(rt: Runtime, item_id: ItemId) -> Path:
    """The stored copy of a file or page, never its converted text; whether it is still there is not checked.

    Raises:
        ItemNotFound. InvalidOperation: the item is neither, the page has not been fetched, or it is being deleted.
    """
    with rt.db.read() as tx:
        item = items.get(tx, item_id)
        _require_whole_item(tx, item)
    if item.type not in (ItemType.FILE, ItemType.URL) or item.relative_path is None:
        raise InvalidOperation(
            "Only files, and pages that have been fetched, have a stored copy.", item_id=item_id, type=item.type.value
        )
    return rt.files.path(item.base_id, item.relative_path)


def _require_whole_item(tx: Tx, item: Item) -> None:
    """Raises `InvalidOperation` if this item, or something below it, is being deleted."""
    if tree.any_deleting(tx, item.base_id, [item.id]):
        raise InvalidOperation("This item, or a part of it, is being deleted.", item_id=item.id)


def _chunk(leaf: Item, stored: StoredUnit) -> Chunk:
    unit = stored.unit
    return Chunk(
        id=stored.unit_id,
        item_id=leaf.id,
        content=unit.text,
        item_type=leaf.type,
        item_status=leaf.status,
        source=leaf.source,
        chunk_index=unit.index,
        char_start=unit.char_start,
        char_end=unit.char_end,
        page=unit.page,
        locator=unit.locator,
        token_count=estimate_tokens(unit.text),
    )
