"""The beat tasks. Their messages expire after one interval, and a tick that finds the last one running returns."""

from celery import current_app, shared_task

from knowledge import topology
from knowledge.ingestion import recovery
from knowledge.ingestion import tidy as tidying
from tasks import process


@shared_task(name=topology.RECOVERY, ignore_result=True)
def sweep() -> None:
    recovery.sweep(process.runtime())


@shared_task(name=topology.DUE_TICK, ignore_result=True)
def due_tick() -> None:
    recovery.tick(process.runtime())


@shared_task(name=topology.TIDY, ignore_result=True)
def tidy() -> None:
    tidying.tidy(process.runtime())
    current_app.knowledge_rewrite_broker()  # what commands said is gone from its memory, but not yet from its file
