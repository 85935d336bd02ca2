"""The ledger as dispatch sees it: each call is one transaction."""

from collections.abc import Sequence

from knowledge.catalog import jobs
from knowledge.db.columns import utc_now
from knowledge.db.engine import Database
from knowledge.model.ids import BaseId
from knowledge.model.jobs import Job


class LedgerWindow:
    """Implements `dispatch.Ledger`.

    Args:
        size: index jobs of one base that may be in flight.
    """

    def __init__(self, db: Database, *, size: int) -> None:
        self._db = db
        self._size = size

    def bases_with_due(self) -> Sequence[BaseId]:
        with self._db.read() as tx:
            return jobs.bases_with_due(tx, utc_now())

    def take_due(self, base_id: BaseId) -> Sequence[Job]:
        now = utc_now()
        with self._db.read() as tx:
            if not jobs.has_due(tx, base_id, now):
                return []
        with self._db.write() as tx:
            return jobs.take_due(tx, base_id, self._size, now)

    def clear_published(self, job_ids: Sequence[str]) -> None:
        with self._db.write() as tx:
            jobs.clear_published(tx, job_ids)
