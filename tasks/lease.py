"""The thread that keeps the lease of the job in this process, and ends the process when the job hangs."""

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from knowledge import clock
from knowledge.errors import KnowledgeError
from knowledge.ingestion.run import RENEWALS_PER_LEASE, Run
from knowledge.ingestion.stall import settle_stalled
from knowledge.logs import log_context
from tasks import process

log = logging.getLogger(__name__)


class LeaseKeeper:
    """One per process; its thread starts with the first job and dies with the process, and so does the lease."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._run: Run | None = None
        self._is_idle = False  # the thread waits for a run, not for the time to renew
        self._pid = 0

    @contextmanager
    def keeping(self, run: Run) -> Iterator[None]:
        """Renew the run's lease every sixth of it until the block ends."""
        with self._changed:
            if self._pid != os.getpid():  # the first job of this process: threads do not survive a fork
                threading.Thread(target=self._keep, name="lease", daemon=True).start()
                self._pid = os.getpid()
            self._run = run
            if self._is_idle:  # waking it for each of many short jobs would cost more than they do
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._run = None

    def _keep(self) -> None:
        while True:
            with self._changed:
                self._is_idle = True
                self._changed.wait_for(lambda: self._run is not None)
                self._is_idle = False
                assert self._run is not None
                self._changed.wait(self._run.rt.options.lease_seconds / RENEWALS_PER_LEASE)
                run = self._run  # perhaps a later one: then this renewal comes early, never late
            if run is None:
                continue
            with log_context(job=run.job.id, base=run.job.base_id):
                self._renew(run)

    def _renew(self, run: Run) -> None:
        silent = clock.monotonic() - run.progressed_at
        if silent > run.rt.options.stall_seconds:
            log.error("job hangs", extra={"seconds": round(silent)})
            try:
                settle_stalled(run)
            except Exception as error:  # whatever it is, the process below must end
                log.warning("stalled run not settled; its lease runs out", extra={"reason": str(error)})
            with self._changed:
                hangs = self._run is run  # it may have ended meanwhile, and the next one begun
                if hangs:
                    self._run = None
            if hangs and process.is_pool_child():
                os.kill(os.getpid(), signal.SIGKILL)  # nothing else ends a thread that hangs; the pool starts a new process
            return
        try:
            run.renew()
        except Exception as error:  # the thread must live: the next renewal may succeed, and so may the next job's
            log.warning("lease not renewed", extra={"reason": str(error)}, exc_info=not isinstance(error, KnowledgeError))


KEEPER = LeaseKeeper()
