"""Rows made by hand, in any status that the database takes, whatever our own code would do."""

from knowledge.catalog import bases, items
from knowledge.catalog.rows import ITEM
from knowledge.db.columns import utc_now
from knowledge.model.ids import new_base_id, new_item_id
from knowledge.model.inputs import BaseInput
from knowledge.model.status import ItemStatus, ItemType


def new_base(tx, **more):
    base_id = new_base_id()
    bases.insert(tx, base_id, BaseInput(name="shelf", **more), None)
    bases.reveal(tx, base_id)
    return base_id


def new_item(tx, base_id, parent=None, *, kind=ItemType.NOTE, status=ItemStatus.PROCESSING, **columns):
    item_id = new_item_id()
    now = utc_now()
    columns.setdefault("source", "source")
    if status is ItemStatus.FAILED:
        columns.setdefault("error", "x")
    tx.execute(
        ITEM.insert().values(
            id=item_id,
            base_id=base_id,
            group_id=parent,
            type=kind,
            data={},
            status=status,
            error_detail={},
            notices=[],
            created_at=now,
            updated_at=now,
            **columns,
        )
    )
    return item_id


def new_folder(tx, base_id, parent=None, *, status=ItemStatus.PROCESSING, expanded=True, **columns):
    expanded_at = utc_now() if expanded else None
    return new_item(tx, base_id, parent, kind=ItemType.DIRECTORY, status=status, expanded_at=expanded_at, **columns)


def status_of(tx, item_id):
    return items.get(tx, item_id).status
