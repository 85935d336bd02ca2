"""From a message's job id to a run of that job, or to nothing."""

import logging

from knowledge.catalog import jobs
from knowledge.catalog.jobs import Refusal
from knowledge.db.columns import utc_now
from knowledge.errors import BaseBusy
from knowledge.ingestion import recovery
from knowledge.ingestion.run import Run
from knowledge.model.ids import JobId
from knowledge.model.jobs import Job, JobStatus
from knowledge.process import is_dead, this_process
from knowledge.runtime import Runtime

log = logging.getLogger(__name__)


def claim(rt: Runtime, job_id: JobId) -> Run | None:
    """A run of this job, if the ledger lets this process have it; messages are wake-ups, so None is nothing special.

    A run whose process was lost is settled first: an abandon job is parked and closed, a retry job starts again.
    """
    answer = _try(rt, job_id)
    if answer is Refusal.TAKEN and _settle_if_lost(rt, job_id):
        answer = _try(rt, job_id)
    if isinstance(answer, Refusal):
        log.info("message dropped", extra={"job": job_id, "reason": answer.value})
        return None
    return Run(rt, answer)


def claim_next(rt: Runtime, job: Job) -> Run | None:
    """A run of the next waiting job of the same base and type, which saves a way through the broker."""
    with rt.db.write() as tx:
        following = jobs.claim_next(tx, job, this_process(), rt.options.lease_seconds, rt.options.base_concurrency)
    return None if following is None else Run(rt, following)


def has_succeeded(rt: Runtime, job_id: JobId) -> bool:
    """Whether the row of this job says so; not if it was pruned."""
    with rt.db.read() as tx:
        job = jobs.find(tx, job_id)
    return job is not None and job.status is JobStatus.COMPLETED


def _settle_if_lost(rt: Runtime, job_id: JobId) -> bool:
    """Whether the row is worth another try. What is settled is the run that is read here, as long as its lease stays over."""
    with rt.db.read() as tx:
        job = jobs.find(tx, job_id)
    if job is None or job.owner is None or job.lease_until is None:  # it has ended meanwhile
        return False
    if job.lease_until > utc_now() and not is_dead(job.owner):
        return False
    try:
        return recovery.settle_lost(rt, job, wait_seconds=1.0)
    except BaseBusy:
        log.info("base is busy; the sweep will settle this run", extra={"job": job_id, "base": job.base_id})
        return False


def _try(rt: Runtime, job_id: JobId) -> Job | Refusal:
    with rt.db.write() as tx:
        return jobs.claim(tx, job_id, this_process(), rt.options.lease_seconds, rt.options.base_concurrency)
