"""knowledge.reindex-subtree: acquire sources again and enqueue their indexing.

Enqueued by  ingestion.reindex, bases.enable.
Items        outermost roots, all completed or failed.
Status       unchanged until the sources are here; then preparing | processing.
Recovery     ABANDON: its index jobs cost money, so a killed run is not repeated by itself.
"""

from celery import shared_task

from knowledge.ingestion import reindex
from knowledge.model.jobs import JobType
from tasks.job import ABANDON, KnowledgeTask


@shared_task(base=KnowledgeTask, bind=True, name=JobType.REINDEX_SUBTREE.value, **ABANDON)
def reindex_subtree(self: KnowledgeTask, job_id: str) -> None:
    self.perform(job_id, reindex.run)
