"""The five jobs: what they are called, where they run, and what happens to lost ones."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from knowledge.model.ids import BaseId, ItemId, JobId


class JobType(StrEnum):
    PREPARE_ROOT = "knowledge.prepare-root"
    INDEX_DOCUMENTS = "knowledge.index-documents"
    CHECK_FILE_PROCESSING_RESULT = "knowledge.check-file-processing-result"
    DELETE_SUBTREE = "knowledge.delete-subtree"
    REINDEX_SUBTREE = "knowledge.reindex-subtree"


class Track(StrEnum):
    INDEX = "index"  #: long work, inside the window of its base
    CONTROL = "control"  #: short work, in a worker process of its own


class Recovery(StrEnum):
    ABANDON = "abandon"  #: lost work is parked where a person sees it
    RETRY = "retry"  #: lost work is sent again, for ever


class JobStatus(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


ACTIVE_JOB: Final = frozenset({JobStatus.PENDING, JobStatus.RUNNING})

ROOTS_DONE: Final = "roots_done"  #: in the progress of a reindex that waits for some of its roots
MAX_EXECUTIONS: Final = 3  #: of an abandon job that ends in errors; losses end it at once
STUCK_AFTER: Final = 8  #: losses and errors after which a retry job is shown as stuck
STUCK_BACKOFF_SECONDS: Final = 900.0


@dataclass(frozen=True, slots=True)
class JobKind:
    """The row of the job table."""

    type: JobType
    track: Track
    recovery: Recovery
    backoff_seconds: float  #: before the second execution; doubles
    max_backoff_seconds: float
    key: str  #: last word of the idempotency key


KINDS: Final = {
    kind.type: kind
    for kind in (
        JobKind(JobType.PREPARE_ROOT, Track.INDEX, Recovery.ABANDON, 2.0, 60.0, "prepare"),
        JobKind(JobType.INDEX_DOCUMENTS, Track.INDEX, Recovery.ABANDON, 1.0, 30.0, "index"),
        JobKind(JobType.CHECK_FILE_PROCESSING_RESULT, Track.CONTROL, Recovery.ABANDON, 1.0, 30.0, "check"),
        JobKind(JobType.DELETE_SUBTREE, Track.CONTROL, Recovery.RETRY, 2.0, 60.0, "delete"),
        JobKind(JobType.REINDEX_SUBTREE, Track.INDEX, Recovery.ABANDON, 2.0, 60.0, "reindex"),
    )
}


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job that shall exist."""

    type: JobType
    base_id: BaseId
    item_ids: Sequence[ItemId]
    parent_id: JobId | None = None
    priority: int = 0
    input: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def prepare_root(
        cls,
        base_id: BaseId,
        item_id: ItemId,
        parent_id: JobId | None = None,
        *,
        allow_empty: bool = False,
        only_changed: bool = False,
        confined: bool = False,
    ) -> "JobSpec":
        """`only_changed`: files of the same size and time as before are left alone. `confined`: see `reindex_subtree`."""
        asked = {"allow_empty": allow_empty, "only_changed": only_changed, "confined": confined}
        return cls(JobType.PREPARE_ROOT, base_id, (item_id,), parent_id, input=asked)

    @classmethod
    def index_documents(
        cls, base_id: BaseId, item_id: ItemId, parent_id: JobId | None = None, *, converted: bool = False, stored: bool = False
    ) -> "JobSpec":
        """`converted`: read what the conversion left, not the file itself. `stored`: read what is stored, fetch nothing."""
        asked = {name: True for name, value in (("converted", converted), ("stored", stored)) if value}
        return cls(JobType.INDEX_DOCUMENTS, base_id, (item_id,), parent_id, input=asked)

    @classmethod
    def check_file_processing_result(
        cls, base_id: BaseId, item_id: ItemId, parent_id: JobId, *, processor: str, media_type: str
    ) -> "JobSpec":
        """`processor` converts the item's file, which is of this media type by its bytes."""
        asked = {"processor": processor, "media_type": media_type}
        return cls(JobType.CHECK_FILE_PROCESSING_RESULT, base_id, (item_id,), parent_id, input=asked)

    @classmethod
    def reindex_subtree(
        cls,
        base_id: BaseId,
        root_ids: Iterable[ItemId],
        *,
        allow_empty: bool = False,
        backfill: bool = False,
        only_changed: bool = False,
        confined: bool = False,
    ) -> "JobSpec":
        """A job that acquires sources again.

        Args:
            backfill: the items lack their first vectors until it is done.
            only_changed: see `prepare_root`.
            confined: a client asked for it, so sources are read below the import roots only.
        """
        asked = {"allow_empty": allow_empty, "backfill": backfill, "only_changed": only_changed, "confined": confined}
        return cls(JobType.REINDEX_SUBTREE, base_id, tuple(sorted(root_ids)), input=asked)

    @classmethod
    def delete_subtree(cls, base_id: BaseId, root_ids: Iterable[ItemId]) -> "JobSpec":
        return cls(JobType.DELETE_SUBTREE, base_id, tuple(sorted(root_ids)))

    @property
    def kind(self) -> JobKind:
        return KINDS[self.type]

    @property
    def idempotency_key(self) -> str:
        """Fixed length, whatever the number of items."""
        words = ["knowledge", self.base_id, ",".join(sorted(self.item_ids)), self.kind.key]
        if self.parent_id:
            words.append(self.parent_id)
        words += sorted(name for name, value in self.input.items() if value is True)  # asking for more is another job
        return hashlib.sha256(":".join(words).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that runs a job. `started` (see `knowledge.process.began`) tells it from others with the same pid."""

    host: str
    pid: int
    started: float


@dataclass(frozen=True, slots=True)
class Job:
    """One row of the ledger as others may see it."""

    id: JobId
    type: JobType
    base_id: BaseId
    shard: str
    item_ids: tuple[ItemId, ...]
    status: JobStatus
    attempt: int  #: executions that ended in an error
    losses: int  #: executions whose process was lost
    publishes: int  #: messages sent for it
    parent_id: JobId | None  #: the job that enqueued it
    scheduled_at: datetime
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    published_at: datetime | None = None
    lease_until: datetime | None = None
    cancel_requested_at: datetime | None = None
    run_token: str | None = None
    owner: Owner | None = None
    input: dict[str, object] = field(default_factory=dict)
    error: str | None = None
    error_detail: dict[str, object] = field(default_factory=dict)
    progress: dict[str, object] = field(default_factory=dict)
    after: JobId | None = None  #: the job that must succeed before this one may run
    then: tuple[JobId, JobType] | None = None  #: the job that waits for this one; known where jobs are about to be sent

    @property
    def kind(self) -> JobKind:
        return KINDS[self.type]

    @property
    def only_item(self) -> ItemId:
        (item_id,) = self.item_ids
        return item_id

    @property
    def roots_done(self) -> tuple[ItemId, ...]:
        """Of a reindex: the roots that it has put to work already, while it waits for others."""
        done = self.progress.get(ROOTS_DONE)
        return tuple(done) if isinstance(done, list) else ()

    @property
    def is_stuck(self) -> bool:
        return self.status in ACTIVE_JOB and self.attempt + self.losses >= STUCK_AFTER

    @property
    def is_unpublished(self) -> bool:
        return self.status is JobStatus.PENDING and self.published_at is None
