"""An index that turns out to be damaged, blank or gone is replaced by a blank one, and what it held is told as lost.

The index is a projection of bytes that the base owns, so nothing is lost that cannot be made again; but that may cost money and
time, so a person decides when. Items that were `completed` by being in it become `failed` with `index_lost`; `item reindex
--interrupted` makes their part of it again, from the stored bytes. Whoever meets the damage first does this: a delete and an
index job then go on, a reader tells it.
"""

import logging
from collections.abc import Callable
from typing import TypeVar

from knowledge.catalog import bases, status
from knowledge.errors import BaseBusy, IndexCorrupt
from knowledge.model.ids import BaseId
from knowledge.model.views import Base
from knowledge.pipeline.vectorstore.port import IndexStore
from knowledge.runtime import Runtime

T = TypeVar("T")

log = logging.getLogger(__name__)

_READER_WAITS_SECONDS = 1.0


def write(rt: Runtime, base: Base, work: Callable[[IndexStore], T]) -> T:
    """Do this to the index; if that is damaged, to the blank one in its place. The base lock must be held."""
    try:
        return work(rt.index(base))
    except IndexCorrupt as fault:
        renew(rt, base.id, fault)
    return work(rt.index(base))


def read(rt: Runtime, base: Base, work: Callable[[IndexStore], T]) -> T:
    """Ask the index; needs no lock.

    Raises:
        IndexCorrupt: it is damaged; what it held is told as lost by now, unless somebody else holds the base. The next one who
            asks gets an answer from what there is then.
    """
    try:
        return work(rt.index(base))
    except IndexCorrupt as fault:
        try:
            lost = mend(rt, base.id, fault, wait_seconds=_READER_WAITS_SECONDS)
        except BaseBusy:
            raise fault from None
        if lost:
            raise
    return work(rt.index(base))


def mend(rt: Runtime, base_id: BaseId, fault: IndexCorrupt, *, wait_seconds: float | None = None) -> int:
    """`renew` for somebody who does not hold the base lock."""
    with rt.locks.base(base_id, wait_seconds=wait_seconds):
        return renew(rt, base_id, fault)


def renew(rt: Runtime, base_id: BaseId, fault: IndexCorrupt) -> int:
    """Put a blank index in the place of one that is not sound. The base lock must be held.

    Returns:
        How many leaves lost their material; 0 if the index is sound, because somebody else was faster or the fault lies
        elsewhere: then the caller's second attempt tells.

    Raises:
        BaseNotFound: its row is gone by now.
    """
    with rt.db.read() as tx:
        base = bases.get(tx, base_id, include_deleting=True)
    if rt.indexes.is_sound(base_id, base.dimensions):
        return 0
    detail = {"message": "The index of its base was damaged or gone; its text is still here.", "reason": str(fault)}
    with rt.db.write(durable=True) as tx:  # first: a crash in between leaves the damage to be found again
        lost = status.lose_material(tx, base_id, detail)
    rt.indexes.drop(base_id)  # before the blank one is made, which on a full disk has only its room
    rt.indexes.create(base_id, base.dimensions)
    extra = {"base": base_id, "items": lost, "reason": fault.details.get("reason") or str(fault)}
    log.error("damaged index replaced by a blank one; index its items again", extra=extra)
    return lost
