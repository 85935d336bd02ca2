"""Celery's limit on the memory of a pool process, looked at before it can do harm.

A process that is over it after a job is replaced. Below what every process has from its start that is after each job, for ever:
each one loads everything again, and the worker does little else.
"""

import logging
from typing import Final

import psutil

from knowledge.errors import ConfigurationError

log = logging.getLogger(__name__)

SETTING: Final = "worker_max_memory_per_child (--max-memory-per-child)"
ROOM: Final = 1.5  #: below so many times the idle footprint it is told: an embedder that runs here takes some hundred MiB more


def check(limit_kib: int | None) -> None:
    """Before the pool is forked: what this process holds, each of its children holds.

    Args:
        limit_kib: as Celery has it, from wherever; None or 0 for no limit.

    Raises:
        ConfigurationError: no process could ever stay below it.
    """
    if not limit_kib:
        return
    idle_kib = psutil.Process().memory_info().rss // 1024
    figures = {"setting": SETTING, "limit_mib": limit_kib // 1024, "idle_mib": idle_kib // 1024}
    if limit_kib <= idle_kib:
        raise ConfigurationError(
            f"{SETTING} is {limit_kib // 1024} MiB, but a process of this worker holds {idle_kib // 1024} MiB when idle:"
            " each would end after one job. Raise it, or leave it out.",
            **figures,
        )
    if limit_kib < ROOM * idle_kib:
        log.warning("memory limit of processes is close to what they hold when idle", extra=figures)
