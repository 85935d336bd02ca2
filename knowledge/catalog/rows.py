"""The tables. Rows stay inside `catalog/`; frozen views leave.

Table classes are not validated when built, so the database itself refuses nonsense: every rule is a named CHECK, key or index.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any, cast

from sqlalchemy import (
    JSON,
    CheckConstraint,
    Column,
    Float,
    ForeignKeyConstraint,
    Index,
    MetaData,
    Table,
    UniqueConstraint,
    text,
)
from sqlmodel import Field, SQLModel

from knowledge.db.columns import UtcDateTime, utc_now, value_enum
from knowledge.model.jobs import JobStatus, JobType, Recovery, Track
from knowledge.model.status import CONTAINERS, BaseStatus, ItemStatus, ItemType

_CONTAINER_TYPES = "('directory', 'archive', 'sitemap')"
_CONVERTING = "type = 'knowledge.check-file-processing-result' AND status IN ('pending', 'running') AND started_at IS NOT NULL"


class _Row(SQLModel):
    """Our own metadata, so that tables of an application that shares the process are never ours to migrate."""

    metadata = MetaData()


def _one_of(kind: type[StrEnum], check: str, **options: Any) -> Any:
    return Field(sa_type=value_enum(kind, check), nullable=False, **options)


def _instant(*, nullable: bool = False) -> Any:
    return Field(
        default=None if nullable else ..., sa_type=UtcDateTime, nullable=nullable, default_factory=None if nullable else utc_now
    )


class KnowledgeGroup(_Row, table=True):
    """A name that bases are shown under."""

    __tablename__ = "knowledge_group"
    __table_args__ = (CheckConstraint("trim(name) <> ''", name="ck_group_name"),)

    id: str = Field(primary_key=True)
    name: str


class KnowledgeBase(_Row, table=True):
    """One library with its own index and embedding contract."""

    __tablename__ = "knowledge_base"
    __table_args__ = (
        CheckConstraint("trim(name) <> ''", name="ck_base_name"),
        CheckConstraint("chunk_size > 0 AND chunk_overlap >= 0 AND chunk_overlap < chunk_size", name="ck_base_chunking"),
        CheckConstraint("chunk_strategy IN ('structured', 'delimiter')", name="ck_base_chunk_strategy"),
        CheckConstraint("chunk_strategy <> 'delimiter' OR chunk_separator <> ''", name="ck_base_chunk_separator"),
        CheckConstraint("threshold IS NULL OR (threshold >= 0 AND threshold <= 1)", name="ck_base_threshold"),
        CheckConstraint("document_count IS NULL OR document_count > 0", name="ck_base_document_count"),
        CheckConstraint(
            "(status = 'completed' AND error IS NULL AND (embedding_model_id IS NULL) = (dimensions IS NULL)"
            " AND (dimensions IS NULL OR dimensions > 0))"
            " OR (status = 'failed' AND error IS NOT NULL AND trim(error) <> '')",
            name="ck_base_status_error",
        ),
        ForeignKeyConstraint(["group_id"], ["knowledge_group.id"], name="fk_base_group", ondelete="SET NULL"),
    )

    id: str = Field(primary_key=True)
    name: str
    group_id: str | None = None
    status: BaseStatus = _one_of(BaseStatus, "ck_base_status", default=BaseStatus.COMPLETED)
    error: str | None = None
    embedding_model_id: str | None = None
    dimensions: int | None = None
    rerank_model_id: str | None = None
    file_processor_id: str | None = None
    chunk_size: int = 1024
    chunk_overlap: int = 200
    chunk_strategy: str = "structured"
    chunk_separator: str = "\\n\\n"
    threshold: float | None = None
    document_count: int | None = None
    fail_on_empty: bool = False
    shard: str = "main"
    deleting_at: datetime | None = _instant(nullable=True)
    created_at: datetime = _instant()
    updated_at: datetime = _instant()


class KnowledgeItem(_Row, table=True):
    """One source a person added, or one child found while expanding a directory."""

    __tablename__ = "knowledge_item"
    __table_args__ = (
        CheckConstraint("(status = 'failed') = (error IS NOT NULL AND trim(error) <> '')", name="ck_item_failed_has_error"),
        CheckConstraint("status = 'failed' OR error IS NULL", name="ck_item_error_only_failed"),
        CheckConstraint(
            f"(type IN {_CONTAINER_TYPES} AND status NOT IN ('reading', 'embedding'))"
            f" OR (type NOT IN {_CONTAINER_TYPES} AND status <> 'preparing')",
            name="ck_item_type_status",
        ),
        CheckConstraint(f"type IN {_CONTAINER_TYPES} OR expanded_at IS NULL", name="ck_item_expanded_container"),
        UniqueConstraint("base_id", "id", name="uq_item_base_id"),
        ForeignKeyConstraint(["base_id"], ["knowledge_base.id"], name="fk_item_base", ondelete="CASCADE"),
        ForeignKeyConstraint(  # a parent lives in the same base; deleting it deletes its subtree
            ["base_id", "group_id"], ["knowledge_item.base_id", "knowledge_item.id"], name="fk_item_parent", ondelete="CASCADE"
        ),
        Index("ix_item_base_type_created", "base_id", "type", "created_at"),
        Index("ix_item_base_parent_created", "base_id", "group_id", "created_at"),
        Index("ix_item_parent_status", "base_id", "group_id", "status"),
        Index("ix_item_base_status", "base_id", "status"),
        Index("uq_item_path", "base_id", "relative_path", unique=True),
        Index(
            "uq_item_indexed_path",
            "base_id",
            "indexed_path",
            unique=True,
            sqlite_where=text("indexed_path IS NOT NULL"),
            postgresql_where=text("indexed_path IS NOT NULL"),
        ),
        Index(
            "ix_item_unsettled",
            "status",
            "base_id",
            sqlite_where=text("status IN ('preparing', 'processing', 'reading', 'embedding', 'deleting')"),
            postgresql_where=text("status IN ('preparing', 'processing', 'reading', 'embedding', 'deleting')"),
        ),
    )

    id: str = Field(primary_key=True)
    base_id: str
    group_id: str | None = None
    """Parent container; None marks a root."""
    type: ItemType = _one_of(ItemType, "ck_item_type")
    source: str
    data: dict[str, Any] = Field(default_factory=dict, sa_column=Column(JSON, nullable=False))
    relative_path: str | None = None
    """Where its bytes are below raw/; None until captured."""
    indexed_path: str | None = None
    """Converted Markdown that is indexed instead."""
    status: ItemStatus = _one_of(ItemStatus, "ck_item_status")
    error: str | None = None
    error_detail: dict[str, Any] = Field(default_factory=dict, sa_column=Column(JSON, nullable=False))
    chunk_count: int | None = None
    notices: list[str] = Field(default_factory=list, sa_column=Column(JSON, nullable=False))
    quality: dict[str, Any] = Field(default_factory=dict, sa_column=Column(JSON, nullable=False, server_default="{}"))
    """What its reader found; see `model.quality`."""
    expanded_at: datetime | None = _instant(nullable=True)
    created_at: datetime = _instant()
    updated_at: datetime = _instant()


class KnowledgePath(_Row, table=True):
    """A path below raw/ that an item holds, folded; freed when the row of the item is gone, or released."""

    __tablename__ = "knowledge_path"
    __table_args__ = (
        ForeignKeyConstraint(
            ["base_id", "item_id"], ["knowledge_item.base_id", "knowledge_item.id"], name="fk_path_item", ondelete="CASCADE"
        ),
        Index("ix_path_item", "base_id", "item_id"),
    )

    base_id: str = Field(primary_key=True)
    folded: str = Field(primary_key=True)
    item_id: str


class KnowledgeJob(_Row, table=True):
    """One run of a job type. Active rows are the truth about work; terminal rows are history and decide nothing."""

    __tablename__ = "knowledge_job"
    __table_args__ = (
        CheckConstraint("(status = 'running') = (run_token IS NOT NULL)", name="ck_job_running_has_owner"),
        CheckConstraint("(status = 'running') = (lease_until IS NOT NULL)", name="ck_job_running_has_lease"),
        CheckConstraint("status <> 'pending' OR cancel_requested_at IS NULL", name="ck_job_waiting_not_cancelled"),
        CheckConstraint("(status IN ('pending', 'running')) = (finished_at IS NULL)", name="ck_job_terminal_finished"),
        Index(
            "uq_job_idempotency_key",
            "idempotency_key",
            unique=True,
            sqlite_where=text("status IN ('pending', 'running') AND cancel_requested_at IS NULL"),
            postgresql_where=text("status IN ('pending', 'running') AND cancel_requested_at IS NULL"),
        ),
        Index(
            "ix_job_waiting",
            "base_id",
            "track",
            "priority",
            "scheduled_at",
            "id",  # jobs of one commit share their time; without it each look would sort all of them
            sqlite_where=text("status = 'pending' AND published_at IS NULL"),
            postgresql_where=text("status = 'pending' AND published_at IS NULL"),
        ),
        Index(
            "ix_job_flying",
            "base_id",
            "track",
            sqlite_where=text("status IN ('pending', 'running') AND published_at IS NOT NULL"),
            postgresql_where=text("status IN ('pending', 'running') AND published_at IS NOT NULL"),
        ),
        Index(
            "ix_job_running",
            "lease_until",
            sqlite_where=text("status = 'running'"),
            postgresql_where=text("status = 'running'"),
        ),
        Index(
            "ix_job_after", "after", sqlite_where=text("after IS NOT NULL"), postgresql_where=text("after IS NOT NULL")
        ),  # every job that ends looks for its followers
        Index(
            "ix_job_converting",
            "base_id",
            sqlite_where=text(_CONVERTING),
            postgresql_where=text(_CONVERTING),
        ),
        Index("ix_job_created", "created_at"),
        Index("ix_job_base_created", "base_id", "created_at"),
        Index("ix_job_type_finished", "type", "finished_at", "id"),
    )

    id: str = Field(primary_key=True)
    type: JobType = _one_of(JobType, "ck_job_type")
    base_id: str
    """No foreign key: the history of a base outlives it until pruned."""
    shard: str
    track: Track = _one_of(Track, "ck_job_track")
    recovery: Recovery = _one_of(Recovery, "ck_job_recovery")
    status: JobStatus = _one_of(JobStatus, "ck_job_status", default=JobStatus.PENDING)
    priority: int = 0
    idempotency_key: str
    parent_id: str | None = None
    after: str | None = None
    """The job that must succeed before this one may run."""
    attempt: int = 0
    losses: int = 0
    publishes: int = 0
    scheduled_at: datetime = _instant()
    published_at: datetime | None = _instant(nullable=True)
    started_at: datetime | None = _instant(nullable=True)
    finished_at: datetime | None = _instant(nullable=True)
    lease_until: datetime | None = _instant(nullable=True)
    cancel_requested_at: datetime | None = _instant(nullable=True)
    drain_until: datetime | None = _instant(nullable=True)
    run_token: str | None = None
    owner_host: str | None = None
    owner_pid: int | None = None
    owner_started: float | None = Field(default=None, sa_column=Column(Float))
    error: str | None = None
    error_detail: dict[str, Any] = Field(default_factory=dict, sa_column=Column(JSON, nullable=False))
    input: dict[str, Any] = Field(default_factory=dict, sa_column=Column(JSON, nullable=False, server_default="{}"))
    progress: dict[str, Any] = Field(default_factory=dict, sa_column=Column(JSON, nullable=False))
    created_at: datetime = _instant()
    updated_at: datetime = _instant()


class KnowledgeJobItem(_Row, table=True):
    """A root that a job works on; makes *touches*, *covers* and cancel-by-subtree indexed queries."""

    __tablename__ = "knowledge_job_item"
    __table_args__ = (
        ForeignKeyConstraint(["job_id"], ["knowledge_job.id"], name="fk_job_item_job", ondelete="CASCADE"),
        Index("ix_job_item_item", "item_id"),
    )

    job_id: str = Field(primary_key=True)
    item_id: str = Field(primary_key=True)


class KnowledgeWorker(_Row, table=True):
    """One worker process; it tells every few seconds that it lives."""

    __tablename__ = "knowledge_worker"

    name: str = Field(primary_key=True)
    host: str
    pid: int
    started: float = Field(sa_column=Column(Float, nullable=False))
    queues: list[str] = Field(default_factory=list, sa_column=Column(JSON, nullable=False))
    broker_run_id: str | None = None
    heartbeat_at: datetime = _instant()


class KnowledgeSpend(_Row, table=True):
    """One request to an embedder (later also a reranker), and what it cost."""

    __tablename__ = "knowledge_spend"
    __table_args__ = (Index("ix_spend_base_created", "base_id", "created_at"),)

    id: str = Field(primary_key=True)
    base_id: str
    item_id: str | None = None
    job_id: str | None = None
    model: str
    texts: int
    """Sent in this request."""
    cached_texts: int = 0
    """Not sent, because the cache had them."""
    tokens: int
    """As the provider counted, else estimated."""
    cost: float | None = Field(default=None, sa_column=Column(Float))
    created_at: datetime = _instant()


class KnowledgeRate(_Row, table=True):
    """One start of something that is asked outside, or its place in the queue for it; see `catalog.rate`."""

    __tablename__ = "knowledge_rate"
    __table_args__ = (Index("ix_rate_scope_starts", "scope", "starts_at"),)

    id: str = Field(primary_key=True)
    scope: str
    job_id: str | None = None
    """Whose start it is; no foreign key, because jobs are pruned and starts count for a minute only."""
    run_token: str | None = None
    """Of the run that has the place; it is free again when the run has ended, however that was. `None`: it waits."""
    starts_at: datetime = _instant()
    lease_until: datetime | None = _instant(nullable=True)
    """Of a holder without a job, and of a pause."""
    released_at: datetime | None = _instant(nullable=True)


class KnowledgeRequest(_Row, table=True):
    """An add that named itself, so that sending it twice adds once."""

    __tablename__ = "knowledge_request"
    __table_args__ = (
        ForeignKeyConstraint(["base_id"], ["knowledge_base.id"], name="fk_request_base", ondelete="CASCADE"),
        Index("ix_request_created", "created_at"),
    )

    base_id: str = Field(primary_key=True)
    key_hash: str = Field(primary_key=True)
    item_ids: list[str] = Field(sa_column=Column(JSON, nullable=False))
    created_at: datetime = _instant()
    digest: str | None = None
    """Of its inputs; None where an older version kept none."""


def _table(row: type[_Row]) -> Table:
    return cast(Table, row.__table__)  # type: ignore[attr-defined]  # SQLModel adds it when table=True


METADATA = _Row.metadata
GROUP = _table(KnowledgeGroup)
BASE = _table(KnowledgeBase)
ITEM = _table(KnowledgeItem)
PATH = _table(KnowledgePath)
JOB = _table(KnowledgeJob)
JOB_ITEM = _table(KnowledgeJobItem)
WORKER = _table(KnowledgeWorker)
SPEND = _table(KnowledgeSpend)
RATE = _table(KnowledgeRate)
REQUEST = _table(KnowledgeRequest)

IS_CONTAINER = ITEM.c.type.in_(sorted(CONTAINERS))
