"""knowledge.prepare-root: bring the rows of a container in step with its source and enqueue its leaves.

Enqueued by  ingestion.add, ingestion.reindex.
Items        one container: a directory, archive or sitemap.
Status       preparing -> processing, completed or failed by its children.
Recovery     ABANDON: expansion may have enqueued paid work; a killed run is parked, its leaves go on.
"""

from celery import shared_task

from knowledge.ingestion import prepare
from knowledge.model.jobs import JobType
from tasks.job import ABANDON, KnowledgeTask


@shared_task(base=KnowledgeTask, bind=True, name=JobType.PREPARE_ROOT.value, **ABANDON)
def prepare_root(self: KnowledgeTask, job_id: str) -> None:
    self.perform(job_id, prepare.run)
