"""What a person may do to a job: have it stop, or have it go on now."""

from knowledge.catalog import jobs, rate, status
from knowledge.errors import InvalidOperation
from knowledge.model.ids import JobId
from knowledge.model.jobs import ACTIVE_JOB, Job, JobStatus, Recovery
from knowledge.model.rates import HANGING, SCOPE
from knowledge.model.status import INDEXING_INTERRUPTED
from knowledge.runtime import Runtime


def cancel_job(rt: Runtime, job_id: JobId) -> Job:
    """A waiting job is closed and its items parked; a running one stops at its next checkpoint.

    Raises:
        JobNotFound. InvalidOperation: it has ended, or it is a delete, which always wins.
    """
    with rt.db.write(durable=True) as tx:
        job = jobs.get(tx, job_id)
        if job.status not in ACTIVE_JOB:
            raise InvalidOperation(f"This job has ended: {job.status}.", job_id=job_id)
        if job.kind.recovery is Recovery.RETRY:
            raise InvalidOperation("A delete cannot be cancelled: what it hides must go.", job_id=job_id)
        jobs.cancel_one(tx, job)
        if job.status is JobStatus.PENDING:
            status.park_cancelled(tx, job, INDEXING_INTERRUPTED, {"message": "Its job was cancelled."})
        job = jobs.get(tx, job_id)
    rt.dispatch.publish_due(job.base_id)
    return job


def requeue_job(rt: Runtime, job_id: JobId) -> Job:
    """A job that waits, for a back-off or a lost message, is due now and sent again. A web server that asked to wait is asked
    again, and so is what hangs; how often it may be asked stays as it is.

    Raises:
        JobNotFound. InvalidOperation: it runs, waits for another job, or has ended; `item reindex` makes a new one.
    """
    with rt.db.write() as tx:
        job = jobs.get(tx, job_id)
        if not jobs.hurry(tx, job):
            raise InvalidOperation(f"This job does not wait for its time ({job.status}): {_hint(job)}.", job_id=job_id)
        if isinstance(scope := job.error_detail.get(SCOPE), str):
            rate.resume(tx, scope)
            rate.answered(tx, scope.removeprefix(HANGING))
    rt.dispatch.publish_due(job.base_id)
    with rt.db.read() as tx:
        return jobs.get(tx, job_id)


def _hint(job: Job) -> str:
    if job.status not in ACTIVE_JOB:
        return "reindex its items for a new one"
    return f"it follows the job {job.after}" if job.after else "it is being worked on"
