"""knowledge.index-documents: read, chunk and embed one leaf, then replace its material.

Enqueued by  ingestion.add, ingestion.prepare, ingestion.reindex, bases.bundle, or as the last link of a conversion chain.
Items        exactly one leaf.
Status       processing -> reading -> embedding -> completed | failed.
Recovery     ABANDON: embeddings cost money, so a killed run is parked, never resumed.
"""

from celery import shared_task

from knowledge.ingestion import index
from knowledge.model.jobs import JobType
from tasks.job import ABANDON, KnowledgeTask


@shared_task(base=KnowledgeTask, bind=True, name=JobType.INDEX_DOCUMENTS.value, **ABANDON)
def index_documents(self: KnowledgeTask, job_id: str) -> None:
    self.perform(job_id, index.run)
