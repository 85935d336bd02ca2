"""The Celery application that jobs are measured against: a task that does nothing, on our broker, with our options."""

from typing import Final

from celery import Celery

from config.broker import endpoint
from config.celery import app as ours
from config.settings import load
from tests.bench.fleet import BARE_QUEUE

_SAME: Final = (
    "task_acks_late",
    "task_acks_on_failure_or_timeout",
    "task_reject_on_worker_lost",
    "task_ignore_result",
    "task_serializer",
    "accept_content",
    "worker_pool",
    "worker_prefetch_multiplier",
    "worker_max_tasks_per_child",
    "worker_send_task_events",
    "task_send_sent_event",
    "broker_transport_options",
    "broker_connection_retry_on_startup",
)

app = Celery("bare", broker=endpoint(load()), set_as_current=False)
app.conf.update({name: ours.conf[name] for name in _SAME}, task_default_queue=BARE_QUEUE)


@app.task(name="bare.nothing")  # type: ignore[untyped-decorator]  # Celery has no types
def nothing(job_id: str) -> None:
    """What a job would be if it had no row, no lease and nothing to do."""
