"""knowledge.check-file-processing-result: one look at a conversion; the first one begins it.

Enqueued by  knowledge.index-documents, when it finds a file that has to be converted.
Items        exactly one leaf.
Status       processing, until the index job behind it goes on | failed.
Recovery     ABANDON: a conversion may cost money, so a lost one is parked, never begun again.

Published as the first link of a chain. Only the look that finds the result lets the next link go.
"""

from celery import shared_task
from celery.exceptions import Ignore

from knowledge.ingestion import convert
from knowledge.model.jobs import JobType
from tasks.job import ABANDON, KnowledgeTask


@shared_task(base=KnowledgeTask, bind=True, name=JobType.CHECK_FILE_PROCESSING_RESULT.value, **ABANDON)
def check_file_processing_result(self: KnowledgeTask, job_id: str) -> None:
    self.perform(job_id, convert.run, alone=True)  # a row taken on the way would not have a message with its chain
    if not self.has_succeeded(job_id):
        raise Ignore
