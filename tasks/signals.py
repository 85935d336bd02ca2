"""What Celery tells us about processes: start, stop, fork, and the loss of a child."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import psutil
from billiard.exceptions import WorkerLostError
from celery import current_app, signals

from knowledge import topology
from knowledge.catalog import jobs
from knowledge.db.columns import utc_now
from knowledge.dispatch import BROKER_ERRORS
from knowledge.errors import KnowledgeError
from knowledge.ingestion import boot, recovery
from knowledge.process import this_process
from knowledge.runtime import Runtime
from tasks import memory, process
from tasks.heartbeat import Heartbeat

log = logging.getLogger(__name__)

_heartbeat: Heartbeat | None = None


@contextmanager
def _refusing() -> Iterator[None]:
    """End the worker. What a handler raises Celery writes down and forgets, except this."""
    try:
        yield
    except KnowledgeError as error:
        raise SystemExit(f"knowledge: this worker does not start: {error}") from error


@signals.worker_init.connect
def _check(**_: Any) -> None:
    """Refuse to start on tables of another version."""
    with _refusing():
        current_app.knowledge_check(process.runtime())


@signals.celeryd_after_setup.connect
def _report(sender: str, instance: Any, **_: Any) -> None:
    """Before the first message is taken: whatever a boot parks must not have begun."""
    queues = list(current_app.amqp.queues.consume_from)
    with _refusing():
        memory.check(instance.max_memory_per_child)
        boot.report_for_work(process.runtime(), current_app.knowledge_park_pending, sender, this_process(), queues)


@signals.worker_ready.connect
def _started(sender: Any, **_: Any) -> None:
    global _heartbeat
    _heartbeat = Heartbeat(sender.hostname, list(current_app.amqp.queues.consume_from))
    _heartbeat.start()
    try:
        recovery.settle_dead_of_this_host(process.runtime())
        sweep = {"exchange": topology.EXCHANGE, "routing_key": topology.UPKEEP_KEY}
        current_app.send_task(topology.RECOVERY, ignore_result=True, expires=60, **sweep)
    except (KnowledgeError, *BROKER_ERRORS) as error:  # beat sends the next one
        log.warning("no sweep at start", extra={"reason": str(error)})


@signals.worker_shutting_down.connect
def _drain(**_: Any) -> None:
    """A planned stop: running jobs may finish within the drain time, then park at their next checkpoint.

    They are told again every second. The catalogue may be busy just now, and a job whose message is in the pipe of its process
    begins a moment after the others were told: one that never heard of the stop would hold the worker for as long as it takes.
    """
    until = utc_now() + timedelta(seconds=current_app.knowledge_drain_seconds)
    if _heartbeat is not None:  # else nothing runs yet
        _heartbeat.ask(lambda rt: _stamp(rt, until))


def _stamp(rt: Runtime, until: datetime) -> None:
    me = this_process()
    children = [child.pid for child in psutil.Process(os.getpid()).children()]
    with rt.db.write() as tx:
        jobs.stamp_drain(tx, me.host, [me.pid, *children], until)


@signals.worker_shutdown.connect
def _stopped(**_: Any) -> None:
    if _heartbeat is not None:
        _heartbeat.stop()


@signals.task_failure.connect
def _child_lost(exception: BaseException | None = None, **_: Any) -> None:
    """The signal says which message was lost, not which run: settle every run of this host whose process is gone."""
    if isinstance(exception, WorkerLostError):
        try:
            recovery.settle_dead_of_this_host(process.runtime())
        except KnowledgeError as error:  # the sweep does it
            log.warning("lost child not settled", extra={"code": error.code})
