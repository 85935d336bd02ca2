"""The Celery application: `celery -A config.celery worker`. Options with reasons."""

import os
from datetime import timedelta
from typing import Any, Final

from celery import Celery, signals

from config import logging as logs
from config import settings as config_settings
from config import wiring
from config.beat import schedule
from config.broker import endpoint, rewrite
from config.settings import Settings
from knowledge.ingestion.boot import ParkPending
from knowledge.topology import EXCHANGE, UPKEEP_KEY, UPKEEP_QUEUE, queues

SHARD: Final = "main"

#: Celery takes these before what it is told; another application's variables must not lead ours to its broker
_PREFERRED_BY_CELERY: Final = (
    "CELERY_BROKER_URL",
    "CELERY_BROKER_READ_URL",
    "CELERY_BROKER_WRITE_URL",
    "CELERY_RESULT_BACKEND",
)

_TASKS: Final = (
    "tasks.prepare_root",
    "tasks.check_file_processing_result",
    "tasks.index_documents",
    "tasks.commands",
    "tasks.delete_subtree",
    "tasks.reindex_subtree",
    "tasks.recovery",
    "tasks.signals",
)


def make(settings: Settings) -> Celery:
    """An application of these settings; nothing is connected yet."""
    for name in _PREFERRED_BY_CELERY:
        os.environ.pop(name, None)
    broker = endpoint(settings)
    answers = broker if broker.startswith("redis") else None  # clients speak to Redis and Valkey only
    app = Celery("knowledge", broker=broker, backend=answers, include=_TASKS, set_as_current=True)
    app.conf.update(_options(settings))
    # tasks/ reads these; it must not import config/
    app.knowledge_runtime = lambda *, pooled: wiring.runtime(settings, app, pooled=pooled)
    app.knowledge_check = wiring.check
    app.knowledge_park_pending = ParkPending(settings.park_pending_on_start)
    app.knowledge_rewrite_broker = lambda: rewrite(settings)
    app.knowledge_drain_seconds = settings.drain_seconds
    app.knowledge_waiting_places = settings.commands_concurrency - max(1, settings.commands_concurrency // 4)
    return app


def _options(settings: Settings) -> dict[str, Any]:
    return {
        "task_queues": queues(SHARD),
        "task_default_queue": UPKEEP_QUEUE,  # nothing relies on a default; a stray message must not reach an index worker
        "task_default_exchange": EXCHANGE.name,
        "task_default_exchange_type": EXCHANGE.type,
        "task_default_routing_key": UPKEEP_KEY,
        "task_create_missing_queues": False,  # a typo must fail, not make a queue that nobody reads
        "task_acks_late": True,
        "task_reject_on_worker_lost": False,  # the ledger decides what is repeated
        "task_acks_on_failure_or_timeout": True,
        "task_ignore_result": True,  # only commands answer
        "result_expires": 600,
        "task_serializer": "json",
        "accept_content": ["json"],
        "worker_pool": "prefork",
        "worker_prefetch_multiplier": 1,
        "worker_max_tasks_per_child": 500,  # against slow leaks
        "worker_hijack_root_logger": False,
        "worker_send_task_events": True,
        "task_send_sent_event": True,
        "worker_cancel_long_running_tasks_on_connection_loss": False,  # would kill paid work when a connection resets
        "worker_soft_shutdown_timeout": 0,  # SIGTERM is answered by draining, see tasks.signals
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_channel_error_retry": True,  # a broker whose disk is full refuses; that ends no worker
        "worker_consumer": "config.consumer:PatientConsumer",
        "task_publish_retry": True,
        "task_publish_retry_policy": {"max_retries": 1, "interval_start": 0.1, "interval_step": 0.1, "interval_max": 0.2},
        "broker_transport_options": {
            "visibility_timeout": settings.visibility_timeout_seconds,  # above the longest job: the clock never doubles one
            "priority_steps": [0],
            "queue_order_strategy": "round_robin",
            "socket_timeout": 5,  # publishing to a broker that hangs would block for ever
            "socket_connect_timeout": 2,
            "socket_keepalive": True,
            "health_check_interval": 10,
        },
        "beat_schedule": schedule(timedelta(seconds=settings.sweep_seconds), timedelta(seconds=settings.tick_seconds)),
        "beat_max_loop_interval": min(5.0, settings.tick_seconds),
    }


@signals.setup_logging.connect
def _logging(**_: Any) -> None:
    logs.configure(config_settings.load())


app = make(config_settings.load())
