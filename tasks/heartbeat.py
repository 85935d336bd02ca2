"""The worker's main process tells the catalogue that it lives, and notices when the broker has lost its memory."""

import logging
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final

from knowledge import clock
from knowledge.catalog import jobs, workers
from knowledge.errors import KnowledgeError
from knowledge.process import this_process
from knowledge.runtime import Runtime
from tasks import process

log = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 1.0  #: until what was asked for is done once more

Call = Callable[[Runtime], None]


class Heartbeat:
    """A thread of the main process. No child is forked while it talks to catalogue or broker: the child would inherit locks
    that nobody opens any more, and hang with its first job.
    """

    def __init__(self, name: str, queues: Sequence[str]) -> None:
        self._name = name
        self._queues = list(queues)
        self._stop = threading.Event()
        self._wish: Call | None = None
        self._woken: SimpleQueue[None] = SimpleQueue()
        self._talking = threading.Lock()
        self._thread = threading.Thread(target=self._beat_until_stopped, name="heartbeat", daemon=True)
        os.register_at_fork(
            before=self._talking.acquire,
            after_in_parent=self._talking.release,
            after_in_child=self._talking.release,
        )

    def start(self) -> None:
        self._thread.start()

    def ask(self, call: Call) -> None:
        """Have the thread do this now and every second until it stops: what fails is tried again, and what begins later is
        reached as well. Only the first wish counts.

        For signal handlers: they interrupt the main thread anywhere, also inside a transaction, so one that used the catalogue
        itself would wait for itself.
        """
        if self._wish is None:
            self._wish = call
            self._woken.put(None)

    def stop(self) -> None:
        self._stop.set()
        self._woken.put(None)
        with suppress(KnowledgeError), self._talking, process.runtime().db.write() as tx:
            workers.leave(tx, self._name, this_process())

    def _beat_until_stopped(self) -> None:
        beat_at = clock.monotonic()
        while True:
            with self._talking:
                if self._stop.is_set():
                    return
                if self._wish is not None:
                    self._try(self._wish)
                if clock.monotonic() >= beat_at:
                    self._try(self._beat)
                    beat_at = clock.monotonic() + workers.HEARTBEAT_SECONDS
            with suppress(Empty):
                rest = max(0.0, beat_at - clock.monotonic())
                self._woken.get(timeout=rest if self._wish is None else min(rest, AGAIN_SECONDS))

    def _try(self, call: Call) -> None:
        try:
            call(process.runtime())
        except Exception as error:  # the thread must live: a worker that falls silent counts as dead
            log.warning("no heartbeat", extra={"reason": str(error)}, exc_info=not isinstance(error, KnowledgeError))

    def _beat(self, rt: Runtime) -> None:
        run_id = rt.dispatch.broker_run_id()
        with rt.db.write() as tx:
            before = workers.beat(tx, self._name, this_process(), self._queues, run_id)
            if run_id is not None and run_id != before:
                lost = jobs.clear_all_published(tx)
                log.info("connected to a broker that has started anew", extra={"sent_again": lost})
