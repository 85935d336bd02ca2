"""Put new roots in the place of those of the same type and name."""

import logging
from collections.abc import Sequence
from typing import Final

from knowledge import clock
from knowledge.catalog import bases, items, jobs, paths, requests, status, tree
from knowledge.catalog.requests import Request
from knowledge.db.engine import Tx
from knowledge.errors import BaseBusy, KnowledgeError
from knowledge.ingestion import conflicts
from knowledge.ingestion.incoming import Incoming
from knowledge.ingestion.placing import placing
from knowledge.ingestion.purge import purge
from knowledge.model.ids import BaseId, ItemId, JobId
from knowledge.model.jobs import JobSpec
from knowledge.model.names import numbered
from knowledge.model.status import CONTAINERS, INDEXING_INTERRUPTED
from knowledge.runtime import Runtime

log = logging.getLogger(__name__)

HOLD_SECONDS: Final = 60.0  #: the new jobs begin after this at the latest
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


class Replacement:
    """What one add puts in the place of others; the base lock is held from `begin` to `end`.

    The transaction that hides the old roots brings the new ones, so that there is always one of them, whatever dies. The new
    ones have other paths at first, because the old ones still hold theirs; their jobs wait until they have the plain ones.
    """

    def __init__(self, rt: Runtime, base_id: BaseId, incoming: Sequence[Incoming]) -> None:
        self._rt, self._base_id, self._incoming = rt, base_id, incoming
        self._old: list[ItemId] = []

    def begin(self, tx: Tx) -> None:
        """Hide what is in the way now, first of all in the transaction of the add.

        Raises:
            BaseBusy: a new job has begun on one of the old roots meanwhile.
        """
        base = bases.require_runnable(tx, self._base_id)
        self._old = [item.id for item in conflicts.in_the_way(tx, base.id, self._incoming)]
        if not self._old:
            return
        jobs.cancel_touching(tx, base.id, self._old)
        if jobs.running_touching(tx, base.id, self._old):
            raise BaseBusy("The old item is being worked on; try again in a moment.", base_id=base.id)
        status.mark_deleting(tx, base.id, self._old)
        jobs.enqueue(tx, JobSpec.delete_subtree(base.id, self._old), shard=base.shard)

    def hold(self, tx: Tx, job_ids: Sequence[JobId]) -> None:
        """Last of all in that transaction: the new jobs wait, also if nobody is left to say that they may begin."""
        if self._old:
            jobs.hold(tx, job_ids, HOLD_SECONDS)

    def end(self, new: Sequence[ItemId]) -> None:
        """Remove the old ones and give the new ones their names. The add stands; what fails here is left to the delete job."""
        if not self._old:
            return
        try:
            self._purge()
            self._name(new)
        except KnowledgeError as error:
            log.warning("replaced item left to its delete job", extra={"base": self._base_id, "code": error.code})

    def _purge(self) -> None:
        rt, base_id = self._rt, self._base_id
        with rt.db.read() as tx:
            base = bases.get(tx, base_id)
        while True:
            with rt.db.read() as tx:
                gone = tree.still_deleting(tx, base_id, tree.deleting_ids(tx, base_id, self._old, limit=_SECTION))
            if not gone:
                return
            purge(rt, None, base, gone)

    def _name(self, new: Sequence[ItemId]) -> None:
        """Plain paths where they are free now, and then the jobs may begin; one that somebody has hurried stays as it is."""
        rt, base_id = self._rt, self._base_id
        left: list[str] = []
        with placing(rt, base_id) as placed, rt.db.write(durable=True) as tx:
            for item_id, one in zip(new, self._incoming, strict=True):
                job, item = jobs.last_of_item(tx, item_id), items.find_wanted(tx, item_id)
                if job is None or item is None or not jobs.hurry(tx, job) or item.relative_path is None:
                    continue
                plain = numbered(one.name, 0, directory=one.type in CONTAINERS)
                if plain == item.relative_path or not paths.is_free(tx, base_id, plain) or rt.files.exists(base_id, plain):
                    continue
                if one.type not in CONTAINERS:
                    placed.append(plain)
                    rt.files.link(base_id, item.relative_path, plain)
                    left.append(item.relative_path)
                paths.move(tx, base_id, item_id, item.relative_path, plain)
                items.set_path(tx, item_id, plain)
            if placed:
                rt.files.sync(base_id, placed)
        rt.files.remove(base_id, left)


def _is_running(rt: Runtime, base_id: BaseId, roots: Sequence[ItemId]) -> bool:
    with rt.db.read() as tx:
        return bool(jobs.running_touching(tx, base_id, roots))
