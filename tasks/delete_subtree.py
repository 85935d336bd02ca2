"""knowledge.delete-subtree: cancel touching jobs, then remove vectors, files and rows.

Enqueued by  ingestion.delete, the sweep.
Items        outermost roots, all deleting.
Status       deleting -> gone.
Recovery     RETRY: a delete always converges; every step can be repeated.
"""

from celery import shared_task

from knowledge.ingestion import delete
from knowledge.model.jobs import JobType
from tasks.job import RETRY, KnowledgeTask


@shared_task(base=KnowledgeTask, bind=True, name=JobType.DELETE_SUBTREE.value, **RETRY)
def delete_subtree(self: KnowledgeTask, job_id: str) -> None:
    self.perform(job_id, delete.run)
