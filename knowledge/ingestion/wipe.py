"""Wiping what was taken out of the index of a base, whoever took it out: a delete, a replacement, a reindex, a lost run.

A delete job wipes before it ends, also when it found nothing left to remove. What is left to the hourly round: texts that a
reindex replaced, large indexes, and logs that a reader kept from being cut. The index itself remembers that.
"""

from contextlib import suppress

from knowledge.catalog import bases
from knowledge.errors import IndexCorrupt
from knowledge.model.ids import BaseId
from knowledge.model.status import BaseStatus
from knowledge.runtime import Runtime


def wipe(rt: Runtime, base_id: BaseId, *, whole: bool = False) -> None:
    """Nothing is done if nothing was taken out since the last time, nor to a failed base, whose index may not fit its model.

    Args:
        whole: rewrite the index also if that takes a while; see `IndexStore.reclaim`.
    """
    with rt.db.read() as tx:
        base = bases.get(tx, base_id, include_deleting=True)
    if base.status is not BaseStatus.COMPLETED or not rt.indexes.exists(base_id):
        return
    with suppress(IndexCorrupt):  # nothing depends on it; whoever uses the index next mends it
        index = rt.index(base)
        if index.is_to_wipe():
            index.reclaim(whole=whole)
