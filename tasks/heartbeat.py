"""The worker's main process tells the catalogue that it lives, and notices when the broker has lost its memory."""

import logging
import os
import threading
from collections.abc import Sequence
from contextlib import suppress

from knowledge.catalog import jobs, workers
from knowledge.errors import KnowledgeError
from knowledge.locks.process import this_process
from knowledge.runtime import Runtime
from tasks import process

log = logging.getLogger(__name__)


class Heartbeat:
    """A thread of the main process. No child is forked while it uses the database: the child would inherit its locks."""

    def __init__(self, name: str, queues: Sequence[str]) -> None:
        self._name = name
        self._queues = list(queues)
        self._stop = threading.Event()
        self._using_database = threading.Lock()
        self._thread = threading.Thread(target=self._beat_until_stopped, name="heartbeat", daemon=True)
        os.register_at_fork(
            before=self._using_database.acquire,
            after_in_parent=self._using_database.release,
            after_in_child=self._using_database.release,
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        with suppress(KnowledgeError), self._using_database, process.runtime().db.write() as tx:
            workers.leave(tx, self._name, this_process())

    def _beat_until_stopped(self) -> None:
        while not self._stop.is_set():
            try:
                self._beat(process.runtime())
            except Exception as error:  # the thread must live: a worker that falls silent counts as dead
                log.warning("no heartbeat", extra={"reason": str(error)}, exc_info=not isinstance(error, KnowledgeError))
            self._stop.wait(workers.HEARTBEAT_SECONDS)

    def _beat(self, rt: Runtime) -> None:
        run_id = rt.dispatch.broker_run_id()
        with self._using_database, rt.db.write() as tx:
            before = workers.beat(tx, self._name, this_process(), self._queues, run_id)
            if run_id is not None and run_id != before:
                lost = jobs.clear_all_published(tx)
                log.info("connected to a broker that has started anew", extra={"sent_again": lost})
