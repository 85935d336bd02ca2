"""Make room for what replaces roots of the same type and name."""

from collections.abc import Sequence
from typing import Final

from knowledge import clock
from knowledge.catalog import bases, jobs, requests, status, tree
from knowledge.catalog.requests import Request
from knowledge.errors import BaseBusy
from knowledge.ingestion import conflicts
from knowledge.ingestion.incoming import Incoming
from knowledge.ingestion.purge import purge
from knowledge.model.ids import BaseId, ItemId
from knowledge.model.jobs import JobSpec
from knowledge.model.status import INDEXING_INTERRUPTED
from knowledge.runtime import Runtime

_POLL_SECONDS: Final = 0.2
_SECTION: Final = 200
_REPLACED: Final = {"message": "Its job was stopped, because another item was to replace it."}


def stop_those_in_the_way(rt: Runtime, base_id: BaseId, incoming: Sequence[Incoming], request: Request | None = None) -> None:
    """Have the jobs of the old roots stop; outside the base lock, because they may need it to stop.

    A job that does not stop in time loses its lease: its late writes are refused. What stops is parked, as after any cancel:
    the new item may still be refused.
    """
    with rt.db.write() as tx:
        if requests.find(tx, base_id, request) is not None:  # what is in the way now is what this request has added
            return
        old = [item.id for item in conflicts.in_the_way(tx, base_id, incoming)]
        waiting = jobs.waiting_touching(tx, base_id, old)
        jobs.cancel_touching(tx, base_id, old)
        for job in waiting:
            status.park_unfinished(tx, job, INDEXING_INTERRUPTED, _REPLACED)
    until = clock.monotonic() + rt.options.settle_seconds
    while old and _is_running(rt, base_id, old):
        if clock.monotonic() >= until:
            with rt.locks.base(base_id), rt.db.write() as tx:
                for job in jobs.running_touching(tx, base_id, old):
                    jobs.revoke(tx, job)
                    status.park_unfinished(tx, job, INDEXING_INTERRUPTED, _REPLACED)
            return
        clock.sleep(_POLL_SECONDS)


def make_room(rt: Runtime, base_id: BaseId, incoming: Sequence[Incoming]) -> None:
    """Purge what is in the way now, so that its names are free; the base lock is held.

    After a crash in between the old items go all the same: their rows are `deleting` and a delete job for them is committed.

    Raises:
        BaseBusy: a new job has begun on one of the old roots meanwhile; nothing has changed.
    """
    with rt.db.write(durable=True) as tx:
        base = bases.require_runnable(tx, base_id)
        old = [item.id for item in conflicts.in_the_way(tx, base_id, incoming)]
        if not old:
            return
        jobs.cancel_touching(tx, base_id, old)
        if jobs.running_touching(tx, base_id, old):
            raise BaseBusy("The old item is being worked on; try again in a moment.", base_id=base_id)
        status.mark_deleting(tx, base_id, old)
        jobs.enqueue(tx, JobSpec.delete_subtree(base_id, old), shard=base.shard)
    while True:
        with rt.db.read() as tx:
            gone = tree.still_deleting(tx, base_id, tree.deleting_ids(tx, base_id, old, limit=_SECTION))
        if not gone:
            return
        purge(rt, None, base, gone)


def _is_running(rt: Runtime, base_id: BaseId, roots: Sequence[ItemId]) -> bool:
    with rt.db.read() as tx:
        return bool(jobs.running_touching(tx, base_id, roots))
