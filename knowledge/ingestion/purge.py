"""Physical removal of what is being deleted: rows of a base, or a whole base.

Vectors, then files, then rows: while a row is there, a repeated purge finds what is left of it.
"""

from collections.abc import Sequence
from contextlib import suppress

from knowledge.catalog import bases, items, jobs, status
from knowledge.catalog.tree import Doomed
from knowledge.errors import BaseBusy
from knowledge.ingestion import conversions, mending
from knowledge.model.ids import BaseId
from knowledge.model.jobs import Job
from knowledge.model.status import CONTAINERS, BaseStatus
from knowledge.model.views import Base
from knowledge.runtime import Runtime


def purge(rt: Runtime, job: Job | None, base: Base, gone: Sequence[Doomed]) -> None:
    """Remove these rows and everything they own. The base lock must be held.

    Args:
        job: whose run this is part of; proved before each change. None for a caller that has no job.

    Raises:
        LeaseLost, CancelRequested, IndexFault, StorageFailed, DatabaseBusy: what was done stays done.
    """
    if job is not None:
        with rt.db.read() as tx:
            jobs.require_ours(tx, job)
    leaves = [item for item in gone if item.type not in CONTAINERS]
    if leaves and base.status is BaseStatus.FAILED:  # nothing may be searched here again, and its index may not fit its model
        rt.indexes.drop(base.id)
    elif leaves:
        mending.write(rt, base, lambda index: index.delete_materials([item.id for item in leaves]))
    files = [path for item in leaves for path in (item.relative_path, item.indexed_path) if path]
    trees = [item.relative_path for item in gone if item.type in CONTAINERS and item.relative_path]
    rt.files.remove(base.id, files, trees)
    ids = [item.id for item in gone]
    with rt.db.write() as tx:
        if job is not None:
            jobs.require_ours(tx, job)
        items.remove(tx, base.id, ids)
        status.reconcile(tx, base.id, {item.group_id for item in gone} - set(ids))


def purge_base(rt: Runtime, base_id: BaseId, *, wait_seconds: float | None = None) -> None:
    """Remove what is left of a base that is being deleted; takes the base lock; can be repeated.

    Args:
        wait_seconds: for the lock; as long as any operation does unless told.
    """
    with rt.locks.base(base_id, wait_seconds=wait_seconds):
        remove_base(rt, base_id)
    forget_base(rt, base_id)


def remove_base(rt: Runtime, base_id: BaseId) -> None:
    """The same under the base lock, which the caller holds."""
    with rt.db.write() as tx:
        jobs.cancel_base(tx, base_id)
        for job in jobs.running_in(tx, base_id):
            jobs.revoke(tx, job)
    conversions.stop_all(rt, base_id)
    rt.indexes.drop(base_id)
    rt.files.remove_base(base_id)
    with rt.db.write() as tx:
        bases.remove(tx, base_id)


def forget_base(rt: Runtime, base_id: BaseId) -> None:
    """What else there is of a base that is gone; its lock is free."""
    rt.db.wipe()
    with suppress(BaseBusy):  # somebody waits for it, and will find that the base is gone; tidying removes the file
        rt.locks.forget(base_id)


def purge_remains(rt: Runtime, base_id: BaseId) -> bool:
    """Remove what a late process wrote of a base whose row is gone. False if there is a row."""
    with rt.locks.base(base_id):
        with rt.db.read() as tx:
            if base_id in bases.ids(tx):
                return False
        rt.indexes.drop(base_id)
        rt.files.remove_base(base_id)
    with suppress(BaseBusy):
        rt.locks.forget(base_id)
    return True
