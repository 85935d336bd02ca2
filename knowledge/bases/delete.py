"""Delete a base: hidden at once, then its jobs, artefacts and rows. A failure keeps the row, and recovery finishes it."""

from typing import Final

from knowledge import clock
from knowledge.catalog import bases, jobs
from knowledge.errors import BaseBusy, DatabaseBusy, StorageFailed
from knowledge.ingestion.purge import purge_base
from knowledge.model.ids import BaseId
from knowledge.runtime import Runtime

_POLL_SECONDS: Final = 0.2
_HIDDEN: Final = "The base is hidden all the same, and the next sweep removes what is left of it."


def delete_base(rt: Runtime, base_id: BaseId) -> None:
    """See `KnowledgeService.delete_base`."""
    with rt.db.write(durable=True) as tx:  # without the base lock: whoever holds it looks for the base in its own transaction
        bases.get(tx, base_id, include_deleting=True)
        bases.mark_deleting(tx, base_id)
        jobs.cancel_base(tx, base_id)
    until = clock.monotonic() + rt.options.settle_seconds
    while clock.monotonic() < until and _is_working(rt, base_id):
        clock.sleep(_POLL_SECONDS)
    try:
        purge_base(rt, base_id)
    except (BaseBusy, DatabaseBusy, StorageFailed) as error:
        raise type(error)(f"{error} {_HIDDEN}", **error.details) from error


def _is_working(rt: Runtime, base_id: BaseId) -> bool:
    with rt.db.read() as tx:
        return bool(jobs.running_in(tx, base_id))
