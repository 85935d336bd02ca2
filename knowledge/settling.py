"""How accepted work is followed until it has settled: by the command line, which has the service, and by the thin client."""

from collections.abc import Sequence
from typing import Final, Protocol

from knowledge import clock
from knowledge.errors import BaseNotFound, ItemNotFound, JobNotFound
from knowledge.model.ids import BaseId, ItemId, JobId
from knowledge.model.jobs import ACTIVE_JOB, Job
from knowledge.model.results import StatusCounts
from knowledge.model.status import ItemStatus
from knowledge.model.views import Item

POLL_SECONDS: Final = 0.25
POLL_SHARE: Final = 5  #: a look that took t seconds is followed by at least 5 t of rest: big trees are not asked to death


class Asked(Protocol):
    """Who knows: the service, or a client of it. Each raises `Unavailable` kinds while it cannot say."""

    def job(self, job_id: JobId) -> Job: ...

    def item(self, item_id: ItemId) -> Item: ...

    def status_counts(self, base_id: BaseId, root_ids: Sequence[ItemId]) -> StatusCounts: ...

    def failures(self, base_id: BaseId, root_ids: Sequence[ItemId]) -> Sequence[Item]: ...


class Settling:
    """What is known of some subtrees, from look to look.

    Args:
        job_id: of a reindex, which changes no status before it has the sources; it must have ended as well.
        deleting: nothing is expected to be left.
    """

    def __init__(
        self, asked: Asked, base_id: BaseId, roots: Sequence[ItemId], *, job_id: JobId | None = None, deleting: bool = False
    ) -> None:
        self._asked, self._base_id, self._roots = asked, base_id, roots
        self._job_id, self._deleting = job_id, deleting
        self._most = len(roots)  # rows that there have been
        self._took = 0.0
        self.counts = StatusCounts(leaves={}, containers={})
        self.job: Job | None = None

    def look(self) -> bool:
        """Whether nothing of it is being worked on any more. Raises kinds of `Unavailable`."""
        began = clock.monotonic()
        self.job = self._find_job()  # before the counts: work that it starts must be seen in them
        try:
            self.counts = self._asked.status_counts(self._base_id, self._roots)
        except BaseNotFound:  # somebody deleted it with all that is waited for
            self.counts = StatusCounts(leaves={}, containers={})
        self._most = max(self._most, self.counts.total)
        self._took = clock.monotonic() - began
        return self.counts.is_settled and self._has_begun

    @property
    def rest_seconds(self) -> float:
        """Until the next look."""
        return max(POLL_SECONDS, POLL_SHARE * self._took)

    @property
    def share(self) -> float:
        """Part of the work that is done, 0..1."""
        return share_done(self.counts, self._most) if self._has_begun else 0.0

    def gone(self) -> int:
        """How many rows somebody else deleted meanwhile, at least; asked once, when it has settled."""
        lost = self._most - self.counts.total
        if self._deleting or lost <= 0:
            return 0
        if self._job_id is None:
            return lost
        return sum(not self._exists(root) for root in self._roots)  # a reindex drops files that are no longer there itself

    def failures(self) -> Sequence[Item]:
        """The first of what has failed, by itself."""
        try:
            return self._asked.failures(self._base_id, self._roots) if number(self.counts, ItemStatus.FAILED) else ()
        except BaseNotFound:
            return ()

    @property
    def _has_begun(self) -> bool:
        return self.job is None or self.job.status not in ACTIVE_JOB

    def _find_job(self) -> Job | None:
        try:
            return self._asked.job(self._job_id) if self._job_id else None
        except JobNotFound:  # it ended so long ago that its row is gone
            return None

    def _exists(self, item_id: ItemId) -> bool:
        try:
            self._asked.item(item_id)
        except ItemNotFound:
            return False
        return True


def share_done(counts: StatusCounts, most: int) -> float:
    """Part of the work that is done. Rows of a delete disappear as it proceeds, so they are measured by what is left."""
    if number(counts, ItemStatus.DELETING):
        return 1 - counts.total / max(most, 1)
    if not counts.leaves and counts.containers.get(ItemStatus.FAILED):  # a directory that could not be read
        return 0.0
    return counts.work_done


def number(counts: StatusCounts, status: ItemStatus) -> int:
    """Leaves and containers."""
    return counts.leaves.get(status, 0) + counts.containers.get(status, 0)
