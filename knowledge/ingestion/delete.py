"""Delete: hide the chosen subtrees now; knowledge.delete-subtree removes them."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from knowledge import clock
from knowledge.catalog import bases, jobs, status, tree
from knowledge.db.columns import utc_now
from knowledge.ingestion import conversions
from knowledge.ingestion.purge import purge
from knowledge.ingestion.run import PutBack, Run
from knowledge.ingestion.tidy import discard_leftovers
from knowledge.ingestion.wipe import wipe
from knowledge.model.ids import BaseId, ItemId
from knowledge.model.jobs import Job, JobSpec
from knowledge.model.results import DeleteReceipt
from knowledge.runtime import Runtime

SECTION: Final = 500  #: rows purged under one holding of the base lock
ROUND: Final = 20_000  #: rows that one walk through the subtrees finds
DELIVERY_SECONDS: Final = 8.0  #: a control job makes room for others after this
SETTLE_POLL_SECONDS: Final = 1.0


def delete_items(rt: Runtime, base_id: BaseId, item_ids: Sequence[ItemId]) -> DeleteReceipt:
    """Hide the chosen subtrees now and have their remains removed in the background.

    Always allowed, also on failed bases: the only operation that may preempt running work.

    Args:
        item_ids: any mix of roots and descendants of `base_id`; duplicates and nested picks collapse.

    Returns:
        The outermost roots now `deleting`; empty if nothing was chosen. No job has run yet.

    Raises:
        BaseNotFound, ItemNotFound, ItemNotInBase: nothing has changed. BaseBusy, DatabaseBusy.
    """
    with rt.db.read() as tx:
        bases.get(tx, base_id)  # no lock is made for a base that is not there
    with rt.locks.base(base_id), rt.db.write(durable=True) as tx:
        base = bases.get(tx, base_id)
        roots = tree.outermost(tx, base_id, item_ids)
        if roots:
            jobs.cancel_touching(tx, base_id, roots)  # no further paid call is made for them
            status.mark_deleting(tx, base_id, roots)
            jobs.enqueue(tx, JobSpec.delete_subtree(base_id, roots), shard=base.shard)  # same commit: no mark without a job
    published = rt.dispatch.publish_due(base_id)  # a broker that is down delays the job, it cannot lose it
    return DeleteReceipt(base_id, roots, published)


def run(rt: Runtime, run: Run) -> None:
    """One delivery of knowledge.delete-subtree; goes on in the next one when there is more to do."""
    job = run.job
    until = clock.monotonic() + DELIVERY_SECONDS
    _stop_touching(rt, job)
    conversions.stop_unwanted(rt, job.base_id)
    removed = 0
    while doomed := _doomed(rt, job):
        for section in (doomed[start : start + SECTION] for start in range(0, len(doomed), SECTION)):
            _purge_section(rt, run, section)
            removed += len(section)
            run.tell("deleting", removed=removed)
            run.checkpoint()
            if clock.monotonic() >= until:
                raise PutBack(0)
    with rt.db.read() as tx:
        is_last = not jobs.is_delete_waiting(tx, job.base_id)
    if is_last:  # each time all word lists are read: once is enough for many deletes
        discard_leftovers(rt, job.base_id)  # a killed run may have copied what was deleted here
        wipe(rt, job.base_id)  # also what a replacement or a lost run of this job removed
        rt.db.wipe()
    with rt.db.write() as tx:
        jobs.finish(tx, job)
    rt.db.truncate_log()  # the rows are overwritten where they were, but not yet in the log


def _stop_touching(rt: Runtime, job: Job) -> None:
    """Have every job of these subtrees stop; waiting is done by coming back, never under a lock."""
    with rt.db.write() as tx:
        jobs.require_ours(tx, job)
        jobs.cancel_touching(tx, job.base_id, job.item_ids)
        running = jobs.running_touching(tx, job.base_id, job.item_ids)
    if not running:
        return
    deadline = utc_now() - timedelta(seconds=rt.options.settle_seconds)
    overdue = [other for other in running if other.cancel_requested_at and other.cancel_requested_at <= deadline]
    if len(overdue) < len(running):
        raise PutBack(SETTLE_POLL_SECONDS)
    with rt.locks.base(job.base_id), rt.db.write() as tx:
        for other in overdue:
            jobs.revoke(tx, other)


def _doomed(rt: Runtime, job: Job) -> list[ItemId]:
    """What is still to be removed. Nothing comes in from behind: a directory that is being deleted gets no children."""
    with rt.db.read() as tx:
        return tree.deleting_ids(tx, job.base_id, job.item_ids, limit=ROUND)


def _purge_section(rt: Runtime, run: Run, section: Sequence[ItemId]) -> None:
    """Purge some rows. Those that are not `deleting` are never touched."""
    job = run.job
    with rt.locks.base(job.base_id):
        with rt.db.read() as tx:
            gone = tree.still_deleting(tx, job.base_id, section)
            base = bases.get(tx, job.base_id, include_deleting=True) if gone else None
        if base is not None:
            purge(rt, job, base, gone)
