"""The sweep: finds what was lost and settles it. Safe with any number of live workers: a live lease says so.

In this order, so that nothing is parked that a later step would send again:
1. runs whose lease is over or whose process is dead
2. active items that no job explains
3. `deleting` rows, and bases, that no job removes
4. conversions that no check waits for
5. jobs that were published and never claimed: their message was lost
6. what is kept of ended jobs, old requests, gone workers and paces: pruned; paid vectors: kept to their limit
"""

import logging
import os
import signal
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from knowledge.catalog import bases, jobs, orphans, rate, requests, status, workers
from knowledge.db.columns import utc_now
from knowledge.errors import BaseBusy, KnowledgeError
from knowledge.ingestion import conversions
from knowledge.ingestion.each import each_base
from knowledge.ingestion.purge import purge_base
from knowledge.model.ids import BaseId
from knowledge.model.jobs import Job, JobSpec, Recovery, Track
from knowledge.model.status import INDEXING_INTERRUPTED
from knowledge.process import is_dead, is_stopped, this_process
from knowledge.runtime import Runtime

log = logging.getLogger(__name__)

DELETE_GROUP: Final = 500  #: roots of one recovered delete job
FROZEN_SECONDS: Final = 60.0  #: after the end of its lease an owner that is stopped, or keeps the base lock, is killed
LOOK_BACK_SECONDS: Final = 3600.0  #: how long a stopped process that lost its job is looked for
MAX_REPUBLISH_SECONDS: Final = 900.0


def sweep(rt: Runtime) -> bool:
    """One search for lost work. False if another process is at it."""
    with rt.locks.single_flight("recovery") as is_mine:
        if is_mine:
            for step in _STEPS:
                try:
                    step(rt)
                except Exception as error:  # the other steps do not depend on it; the next sweep tries again
                    code = error.code if isinstance(error, KnowledgeError) else type(error).__name__
                    extra = {"step": step.__name__, "code": code, "reason": str(error)}
                    log.warning("recovery step failed", extra=extra, exc_info=not isinstance(error, KnowledgeError))
        return is_mine


def tick(rt: Runtime) -> None:
    """Publish whatever has become due; returns at once if the last tick is not done yet."""
    with rt.locks.single_flight("due-tick") as is_mine:
        if is_mine:
            rt.dispatch.publish_all_due()


def settle_lost(rt: Runtime, job: Job, *, wait_seconds: float) -> bool:
    """Take a running row from a lost owner: abandon → closed and its items parked, retry → pending again.

    Holds the base lock, because the index is another file: whoever still writes to it holds the lock as well.

    Raises:
        BaseBusy: the lock was not free in time; the next sweep tries again.
    """
    with rt.locks.base(job.base_id, wait_seconds=wait_seconds), rt.db.write() as tx:
        if not jobs.close_lost(tx, job):
            return False
        parked = []
        if job.kind.recovery is Recovery.ABANDON:
            lost = {"owner": f"{job.owner.host}:{job.owner.pid}"} if job.owner else {}
            detail = {"message": "The worker process was lost.", **lost}
            parked = status.park_unfinished(tx, job, INDEXING_INTERRUPTED, detail)
    log.warning("lost run settled", extra={"job": job.id, "base": job.base_id, "type": job.type.value, "parked": len(parked)})
    rt.dispatch.publish_due(job.base_id)
    return True


def settle_dead_of_this_host(rt: Runtime) -> None:
    """Settle every run of this host whose process is gone; the quick way, for a parent that has just lost a child."""
    with rt.db.read() as tx:
        here = jobs.running_on(tx, this_process().host)
    for job in here:
        if job.owner is not None and is_dead(job.owner):
            try:
                settle_lost(rt, job, wait_seconds=1.0)
            except BaseBusy:
                log.info("base is busy; the sweep will settle this run", extra={"job": job.id, "base": job.base_id})


def _lost_runs(rt: Runtime) -> None:
    now = utc_now()
    with rt.db.read() as tx:
        overdue = jobs.expired(tx, now)
    for job in overdue:
        is_late = job.lease_until is not None and now - job.lease_until > timedelta(seconds=FROZEN_SECONDS)
        if is_late and job.owner is not None and is_stopped(job.owner):
            _kill_frozen(job)  # before anything is written: it may stand in the middle of a transaction, and keep everybody out
        try:
            settle_lost(rt, job, wait_seconds=1.0)
        except BaseBusy:
            if is_late:
                _kill_frozen(job)
    settle_dead_of_this_host(rt)
    _stopped_owners(rt, now)


def _stopped_owners(rt: Runtime, now: datetime) -> None:
    """A stopped process keeps its place in the pool though its job was taken from it; its end makes room for another."""
    here = this_process().host
    with rt.db.read() as tx:
        taken = jobs.lost_by(tx, here, now - timedelta(seconds=LOOK_BACK_SECONDS), now - timedelta(seconds=FROZEN_SECONDS))
        busy = {job.owner for job in jobs.running_on(tx, here)}
    for job in taken:
        if job.owner is not None and job.owner not in busy and is_stopped(job.owner):
            _kill_frozen(job)


def _kill_frozen(job: Job) -> None:
    """A process that neither renews its lease nor works: only its end frees the base, or its place in the pool."""
    owner, here = job.owner, this_process()
    if owner is None or owner.host != here.host or owner.pid == here.pid or is_dead(owner):
        return
    log.error("frozen worker process killed", extra={"job": job.id, "base": job.base_id, "pid": owner.pid})
    os.kill(owner.pid, signal.SIGKILL)


def _unexplained_items(rt: Runtime) -> None:
    with rt.db.read() as tx:  # looked for without keeping anybody from writing; there is hardly ever something to find
        if not orphans.leaves_without_job(tx) and not orphans.containers_without_work(tx):
            return
    with rt.db.write() as tx:
        for base_id, leaves in orphans.leaves_without_job(tx).items():
            parked = status.park(tx, base_id, leaves, INDEXING_INTERRUPTED, {"message": "No job works on this item."})
            log.warning("items without a job parked", extra={"base": base_id, "parked": len(parked)})
        for base_id, containers in orphans.containers_without_work(tx).items():
            halfway = [item_id for item_id, expanded in containers if not expanded]
            status.park(tx, base_id, halfway, INDEXING_INTERRUPTED, {"message": "Its expansion did not end."})
            status.reconcile(tx, base_id, [item_id for item_id, expanded in containers if expanded])


def _unfinished_deletes(rt: Runtime) -> None:
    with rt.db.read() as tx:
        found = orphans.deletes_without_job(tx)
        halfway = bases.deleting(tx)

    def take_up(base_id: BaseId) -> None:
        roots = found[base_id]
        with rt.db.write() as tx:
            shard = bases.shard_of(tx, base_id)
            for start in range(0, len(roots), DELETE_GROUP):
                jobs.enqueue(tx, JobSpec.delete_subtree(base_id, roots[start : start + DELETE_GROUP]), shard=shard)
        log.warning("unfinished deletes taken up", extra={"base": base_id, "roots": len(roots)})

    each_base(found, take_up)
    each_base(halfway, partial(_purge_halfway, rt))


def _purge_halfway(rt: Runtime, base_id: BaseId) -> None:
    """What is left of a base; not while somebody holds its lock, who deletes it himself, or is making it."""
    try:
        purge_base(rt, base_id, wait_seconds=0)
    except BaseBusy:
        log.info("base is busy; a later sweep looks again", extra={"base": base_id})


def _unwanted_conversions(rt: Runtime) -> None:
    def stop(base_id: BaseId) -> None:
        if ended := conversions.stop_unwanted(rt, base_id):
            log.warning("conversions that nobody waits for ended", extra={"base": base_id, "conversions": ended})

    each_base(rt.files.base_ids(), stop)


def _lost_messages(rt: Runtime) -> None:
    now = utc_now()
    patience = rt.options.republish_seconds
    with rt.db.read() as tx:
        waiting = jobs.published_waiting(tx, now - timedelta(seconds=patience))
    lost = []
    is_empty: dict[tuple[str, Track], bool] = {}  #: asked once for each queue
    for job in waiting:
        assert job.published_at is not None
        silent = (now - job.published_at).total_seconds()
        doubled = min(patience * 2 ** min(job.publishes - 1, 16), MAX_REPUBLISH_SECONDS)
        queue = (job.shard, job.kind.track)
        if silent > doubled and queue not in is_empty:
            is_empty[queue] = rt.dispatch.is_queue_empty(job)
        if silent > MAX_REPUBLISH_SECONDS or (silent > doubled and is_empty[queue]):
            lost.append(job.id)
    if lost:
        with rt.db.write() as tx:
            jobs.clear_published(tx, lost)
        log.warning("unclaimed jobs are sent again", extra={"jobs": len(lost)})
        rt.dispatch.publish_all_due()


def _history(rt: Runtime) -> None:
    with rt.db.write() as tx:
        jobs.prune(tx)
        workers.forget_old(tx)
        requests.prune(tx)
        rate.prune(tx)
    rt.cache.evict()


_STEPS: Final[tuple[Callable[[Runtime], None], ...]] = (
    _lost_runs,
    _unexplained_items,
    _unfinished_deletes,
    _unwanted_conversions,
    _lost_messages,
    _history,
)
