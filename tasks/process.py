"""The runtime of this process. Built at first use from the factory that the Celery application carries."""

import os

import billiard
from celery import current_app

from knowledge.runtime import Runtime

_runtime: tuple[int, Runtime] | None = None


def runtime() -> Runtime:
    """This process's own; a forked child gets a new one and leaves its parent's connections alone."""
    global _runtime
    if _runtime is None or _runtime[0] != os.getpid():
        _runtime = (os.getpid(), current_app.knowledge_runtime(pooled=is_pool_child()))
    return _runtime[1]


def is_pool_child() -> bool:
    """Whether this is a process of the prefork pool, which its parent replaces when it ends."""
    return bool(billiard.current_process().name != "MainProcess")
