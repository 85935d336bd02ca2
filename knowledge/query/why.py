"""What explains an item's status: the job behind it, whose run it is, and its last error."""

from collections.abc import Sequence
from datetime import UTC, datetime

from knowledge.catalog import items, jobs, tree, workers
from knowledge.db.columns import utc_now
from knowledge.db.engine import Tx
from knowledge.model.ids import ItemId
from knowledge.model.jobs import ACTIVE_JOB, Job, JobStatus, JobType, Owner
from knowledge.model.rates import HANGING, NO_PLACE, PAGES, SCOPE
from knowledge.model.results import Why
from knowledge.model.status import ACTIVE, CHILD_FAILED, CONTAINERS, ItemStatus
from knowledge.model.views import Item
from knowledge.process import is_dead, this_process
from knowledge.runtime import Runtime


def explain(rt: Runtime, item_id: ItemId) -> Why:
    """Raises `ItemNotFound`."""
    with rt.db.read() as tx:
        item = items.get(tx, item_id)
        job = _explaining(tx, item)
        alive = _is_alive(tx, job.owner) if job and job.owner and job.status is JobStatus.RUNNING else None
        if item.status is ItemStatus.FAILED and item.error == CHILD_FAILED:
            return Why(item, job, _of_children(item, tree.failures(tx, item.base_id, [item.id], limit=1)), alive)
    return Why(item, job, _sentence(item, job, alive), alive)


def _explaining(tx: Tx, item: Item) -> Job | None:
    """The job behind its status; a delete names the outermost of what it removes."""
    job, above = jobs.last_of_item(tx, item.id), item
    while item.status is ItemStatus.DELETING and (job is None or job.status not in ACTIVE_JOB) and above.group_id:
        found = items.find(tx, above.group_id)
        if found is None or found.status is not ItemStatus.DELETING:
            break
        job, above = jobs.last_of_item(tx, found.id), found
    return job


def _sentence(item: Item, job: Job | None, owner_alive: bool | None) -> str:
    if item.status is ItemStatus.FAILED:
        return f"It failed with {item.error}: {item.error_detail.get('message', 'no detail was recorded')}"
    if item.status is ItemStatus.COMPLETED:
        return "It is done."
    if job is None or job.status not in ACTIVE_JOB:
        if item.status in ACTIVE and item.type in CONTAINERS:
            return "Its children are being worked on, or the next sweep parks it."
        return "No job works on it; the next sweep takes care of it."
    if job.status is JobStatus.RUNNING:
        assert job.owner is not None
        whose = f"process {job.owner.pid} on {job.owner.host}"
        if owner_alive is False:
            return f"{whose} was working on it and is gone; the next sweep settles it."
        return f"{whose} is working on it."
    if job.type is JobType.CHECK_FILE_PROCESSING_RESULT and job.progress:
        return _of_conversion(job)
    until = job.scheduled_at.isoformat(timespec="seconds")
    if job.error == NO_PLACE:
        return f"It waits until {until} for its turn ({NO_PLACE}): {_reason_of_turn(str(job.error_detail.get(SCOPE)))}."
    if job.error:
        return f"It waits until {until} after {job.error} (attempt {job.attempt})."
    if job.scheduled_at > utc_now():
        return f"It waits until {until}."
    return "It waits for a worker." if job.published_at else "It waits for its turn among the jobs of its base."


def _of_children(item: Item, failures: Sequence[Item]) -> str:
    if not failures:  # mended since
        return f"Something in this {item.type} has failed."
    first = failures[0]
    return f"Something in this {item.type} has failed, first {first.name} ({first.id}) with {first.error}."


def _reason_of_turn(scope: str) -> str:
    if scope.startswith(HANGING):
        hung = scope.removeprefix(HANGING)
        who = "a page of its base" if hung.startswith(PAGES) else hung
        return f"{who} has not answered in time, so one job at a time asks what hangs"
    return f"{scope} is asked as often as it may be, or asked to wait"


def _of_conversion(job: Job) -> str:
    """What a check knows of the conversion that it waits for."""
    told, converter = job.progress, job.input.get("processor")
    trouble = f" ({told['trouble']})" if told.get("trouble") else ""
    again = f"looked at again at {job.scheduled_at.isoformat(timespec='seconds')}"
    match told.get("stage"):
        case "converting":
            since = datetime.fromtimestamp(float(str(told["began"])), UTC).isoformat(timespec="seconds")
            place = f", {told['step']} {int(str(told['done'])) + 1} of {told['of']}" if told.get("of") else ""
            return f"It is being converted by {converter} since {since}{place}{trouble}; {again}."
        case "queued":
            return f"It waits for {converter}, which converts as many files as it may; {again}."
        case _:
            return f"It waits for {converter}, which is not reached{trouble}; {again}."


def _is_alive(tx: Tx, owner: Owner) -> bool | None:
    if owner.host == this_process().host:
        return not is_dead(owner)
    beating = {view.host for view in workers.list_all(tx) if view.is_alive}
    return True if owner.host in beating else None
