"""Groups: names that bases are shown under. A base whose group goes is ungrouped."""

import uuid
from collections.abc import Sequence

from sqlalchemy import select, update

from knowledge.catalog.rows import GROUP
from knowledge.db.engine import Tx
from knowledge.errors import GroupNotFound, InvalidInput
from knowledge.model.inputs import checked_name
from knowledge.model.results import Group


def create(tx: Tx, name: str) -> Group:
    group = Group(str(uuid.uuid4()), _checked(name))
    tx.execute(GROUP.insert().values(id=group.id, name=group.name))
    return group


def list_all(tx: Tx) -> Sequence[Group]:
    return [Group(row.id, row.name) for row in tx.execute(select(GROUP).order_by(GROUP.c.name, GROUP.c.id))]


def rename(tx: Tx, group_id: str, name: str) -> Group:
    group = Group(group_id, _checked(name))
    if not tx.execute(update(GROUP).where(GROUP.c.id == group_id).values(name=group.name)).rowcount:
        raise GroupNotFound(group_id=group_id)
    return group


def delete(tx: Tx, group_id: str) -> None:
    if not tx.execute(GROUP.delete().where(GROUP.c.id == group_id)).rowcount:
        raise GroupNotFound(group_id=group_id)


def require(tx: Tx, group_id: str) -> None:
    if tx.scalar(select(GROUP.c.id).where(GROUP.c.id == group_id)) is None:
        raise GroupNotFound(group_id=group_id)


def _checked(name: str) -> str:
    try:
        return checked_name(name)
    except ValueError as error:
        raise InvalidInput(f"The name of a group: {error}.", field="name") from error
