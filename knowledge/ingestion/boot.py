"""The first worker of an installation starts: a restart never silently spends.

Jobs that waited when everything was stopped are parked where they would cost money; the others go on. While another worker
lives it is no boot: jobs queued but never started survive the loss or restart of any one of them.
"""

import logging
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from knowledge.catalog import bases, jobs, status, workers
from knowledge.model.jobs import Owner
from knowledge.model.status import INDEXING_INTERRUPTED
from knowledge.process import is_dead
from knowledge.runtime import Runtime

log = logging.getLogger(__name__)

SILENT_SECONDS: Final = 60.0  #: a worker that has not been heard of for so long is not there


class ParkPending(StrEnum):
    """Which waiting jobs a boot parks."""

    ALWAYS = "always"
    BILLED = "billed"  #: those of bases whose embedder costs money
    NEVER = "never"


def report_for_work(rt: Runtime, mode: ParkPending, name: str, owner: Owner, queues: Sequence[str]) -> bool:
    """Write this worker's first heartbeat; if it is the first worker, park first. Returns whether it was a boot.

    One transaction, so that of two workers that start together exactly one boots.
    """
    parked = 0
    with rt.db.write() as tx:
        is_boot = not any(not is_dead(other) for other in workers.others(tx, name, SILENT_SECONDS))
        if is_boot and mode is not ParkPending.NEVER:
            costly = bases.ids(tx) if mode is ParkPending.ALWAYS else bases.using(tx, _billed(rt))
            for job in jobs.park_pending_of(tx, costly):
                detail = {"message": "It waited when all workers were stopped; nothing is spent by a restart."}
                parked += len(status.park_unfinished(tx, job, INDEXING_INTERRUPTED, detail))
        workers.beat(tx, name, owner, queues, None)
    if parked:
        log.warning("waiting jobs parked at boot", extra={"parked": parked, "mode": mode.value})
    return is_boot


def _billed(rt: Runtime) -> list[str]:
    return [spec.id for spec in rt.embedders.specs() if spec.billed]
