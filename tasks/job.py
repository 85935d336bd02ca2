"""The task class of every job: claim the row, keep its lease, run the flow, settle.

What happens after a loss is the ledger's decision alone, so the options never let the broker repeat a lost task
(`reject_on_worker_lost` would, without limit, also one that kills its child each time).
"""

import logging
import time
from typing import Any, Final

from celery import Task

from knowledge.ingestion import claims
from knowledge.ingestion.run import Flow, perform
from knowledge.logs import log_context
from knowledge.model.ids import JobId
from knowledge.model.jobs import KINDS, JobType, Recovery
from tasks import process
from tasks.lease import KEEPER

log = logging.getLogger(__name__)

CHAIN_SECONDS: Final = 1.0  #: how long one delivery may go on with further rows of the same base

_BOTH: Final[dict[str, Any]] = {"acks_late": True, "ignore_result": True, "reject_on_worker_lost": False, "max_retries": 0}
ABANDON: Final = {**_BOTH, "recovery": Recovery.ABANDON}
RETRY: Final = {**_BOTH, "recovery": Recovery.RETRY}


class KnowledgeTask(Task):
    """Base of the five jobs; `recovery` says what becomes of a lost run and must agree with the job table."""

    abstract = True
    recovery: Recovery

    def perform(self, job_id: str, flow: Flow, *, alone: bool = False) -> None:
        """Run this job, then, unless `alone`, for up to a second further waiting ones of its base, one at a time."""
        assert self.recovery is KINDS[JobType(self.name)].recovery
        rt = process.runtime()
        until = time.monotonic() + CHAIN_SECONDS
        run = claims.claim(rt, JobId(job_id))
        base_id = run.job.base_id if run else None
        while run is not None:
            item = run.job.item_ids[0] if len(run.job.item_ids) == 1 else None
            with log_context(job=run.job.id, base=run.job.base_id, item=item):
                started = time.monotonic()
                with KEEPER.keeping(run):
                    perform(run, flow)
                log.info("job ran", extra={"type": self.name, "seconds": round(time.monotonic() - started, 3)})
            if alone or time.monotonic() >= until or run.is_draining:
                break
            run = claims.claim_next(rt, run.job)
        if base_id is not None:
            rt.dispatch.publish_due(base_id)

    def has_succeeded(self, job_id: str) -> bool:
        """Whether the work of this job is done, by whichever run."""
        return claims.has_succeeded(process.runtime(), JobId(job_id))
