"""The tables of version 0.1."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def one_of(check: str, *values: str) -> sa.Enum:
    return sa.Enum(*values, name=check, native_enum=False, create_constraint=True, length=64)


def upgrade() -> None:
    op.create_table(
        "knowledge_group",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.CheckConstraint("trim(name) <> ''", name="ck_group_name"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "knowledge_job",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column(
            "type",
            one_of(
                "ck_job_type",
                "knowledge.prepare-root",
                "knowledge.index-documents",
                "knowledge.check-file-processing-result",
                "knowledge.delete-subtree",
                "knowledge.reindex-subtree",
            ),
            nullable=False,
        ),
        sa.Column("base_id", sa.String(), nullable=False),
        sa.Column("shard", sa.String(), nullable=False),
        sa.Column("track", one_of("ck_job_track", "index", "control"), nullable=False),
        sa.Column("recovery", one_of("ck_job_recovery", "abandon", "retry"), nullable=False),
        sa.Column("status", one_of("ck_job_status", "pending", "running", "completed", "failed", "cancelled"), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("idempotency_key", sa.String(), nullable=False),
        sa.Column("parent_id", sa.String(), nullable=True),
        sa.Column("after", sa.String(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("losses", sa.Integer(), nullable=False),
        sa.Column("publishes", sa.Integer(), nullable=False),
        sa.Column("scheduled_at", sa.BigInteger(), nullable=False),
        sa.Column("published_at", sa.BigInteger(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.Column("lease_until", sa.BigInteger(), nullable=True),
        sa.Column("cancel_requested_at", sa.BigInteger(), nullable=True),
        sa.Column("drain_until", sa.BigInteger(), nullable=True),
        sa.Column("run_token", sa.String(), nullable=True),
        sa.Column("owner_host", sa.String(), nullable=True),
        sa.Column("owner_pid", sa.Integer(), nullable=True),
        sa.Column("owner_started", sa.Float(), nullable=True),
        sa.Column("error", sa.String(), nullable=True),
        sa.Column("error_detail", sa.JSON(), nullable=False),
        sa.Column("progress", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("(status = 'running') = (lease_until IS NOT NULL)", name="ck_job_running_has_lease"),
        sa.CheckConstraint("(status = 'running') = (run_token IS NOT NULL)", name="ck_job_running_has_owner"),
        sa.CheckConstraint("(status IN ('pending', 'running')) = (finished_at IS NULL)", name="ck_job_terminal_finished"),
        sa.CheckConstraint("status <> 'pending' OR cancel_requested_at IS NULL", name="ck_job_waiting_not_cancelled"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "ix_job_after",
        "knowledge_job",
        ["after"],
        unique=False,
        sqlite_where=sa.text("after IS NOT NULL"),
        postgresql_where=sa.text("after IS NOT NULL"),
    )
    op.create_index("ix_job_base_created", "knowledge_job", ["base_id", "created_at"], unique=False)
    op.create_index("ix_job_created", "knowledge_job", ["created_at"], unique=False)
    op.create_index(
        "ix_job_flying",
        "knowledge_job",
        ["base_id", "track"],
        unique=False,
        sqlite_where=sa.text("status IN ('pending', 'running') AND published_at IS NOT NULL"),
        postgresql_where=sa.text("status IN ('pending', 'running') AND published_at IS NOT NULL"),
    )
    op.create_index(
        "ix_job_running",
        "knowledge_job",
        ["lease_until"],
        unique=False,
        sqlite_where=sa.text("status = 'running'"),
        postgresql_where=sa.text("status = 'running'"),
    )
    op.create_index("ix_job_type_finished", "knowledge_job", ["type", "finished_at", "id"], unique=False)
    op.create_index(
        "ix_job_waiting",
        "knowledge_job",
        ["base_id", "track", "priority", "scheduled_at", "id"],
        unique=False,
        sqlite_where=sa.text("status = 'pending' AND published_at IS NULL"),
        postgresql_where=sa.text("status = 'pending' AND published_at IS NULL"),
    )
    op.create_index(
        "uq_job_idempotency_key",
        "knowledge_job",
        ["idempotency_key"],
        unique=True,
        sqlite_where=sa.text("status IN ('pending', 'running') AND cancel_requested_at IS NULL"),
        postgresql_where=sa.text("status IN ('pending', 'running') AND cancel_requested_at IS NULL"),
    )
    op.create_table(
        "knowledge_spend",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("base_id", sa.String(), nullable=False),
        sa.Column("item_id", sa.String(), nullable=True),
        sa.Column("job_id", sa.String(), nullable=True),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("texts", sa.Integer(), nullable=False),
        sa.Column("cached_texts", sa.Integer(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("cost", sa.Float(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_spend_base_created", "knowledge_spend", ["base_id", "created_at"], unique=False)
    op.create_table(
        "knowledge_worker",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("started", sa.Float(), nullable=False),
        sa.Column("queues", sa.JSON(), nullable=False),
        sa.Column("broker_run_id", sa.String(), nullable=True),
        sa.Column("heartbeat_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "knowledge_base",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("group_id", sa.String(), nullable=True),
        sa.Column("status", one_of("ck_base_status", "completed", "failed"), nullable=False),
        sa.Column("error", sa.String(), nullable=True),
        sa.Column("embedding_model_id", sa.String(), nullable=True),
        sa.Column("dimensions", sa.Integer(), nullable=True),
        sa.Column("rerank_model_id", sa.String(), nullable=True),
        sa.Column("file_processor_id", sa.String(), nullable=True),
        sa.Column("chunk_size", sa.Integer(), nullable=False),
        sa.Column("chunk_overlap", sa.Integer(), nullable=False),
        sa.Column("chunk_strategy", sa.String(), nullable=False),
        sa.Column("chunk_separator", sa.String(), nullable=False),
        sa.Column("threshold", sa.Float(), nullable=True),
        sa.Column("document_count", sa.Integer(), nullable=True),
        sa.Column("fail_on_empty", sa.Boolean(), nullable=False),
        sa.Column("shard", sa.String(), nullable=False),
        sa.Column("deleting_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "(status = 'completed' AND error IS NULL AND (embedding_model_id IS NULL) = (dimensions IS NULL)"
            " AND (dimensions IS NULL OR dimensions > 0))"
            " OR (status = 'failed' AND error IS NOT NULL AND trim(error) <> '')",
            name="ck_base_status_error",
        ),
        sa.CheckConstraint("chunk_strategy <> 'delimiter' OR chunk_separator <> ''", name="ck_base_chunk_separator"),
        sa.CheckConstraint("chunk_strategy IN ('structured', 'delimiter')", name="ck_base_chunk_strategy"),
        sa.CheckConstraint("trim(name) <> ''", name="ck_base_name"),
        sa.CheckConstraint("chunk_size > 0 AND chunk_overlap >= 0 AND chunk_overlap < chunk_size", name="ck_base_chunking"),
        sa.CheckConstraint("document_count IS NULL OR document_count > 0", name="ck_base_document_count"),
        sa.CheckConstraint("threshold IS NULL OR (threshold >= 0 AND threshold <= 1)", name="ck_base_threshold"),
        sa.ForeignKeyConstraint(["group_id"], ["knowledge_group.id"], name="fk_base_group", ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "knowledge_job_item",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("item_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["knowledge_job.id"], name="fk_job_item_job", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "item_id"),
    )
    op.create_index("ix_job_item_item", "knowledge_job_item", ["item_id"], unique=False)
    op.create_table(
        "knowledge_item",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("base_id", sa.String(), nullable=False),
        sa.Column("group_id", sa.String(), nullable=True),
        sa.Column("type", one_of("ck_item_type", "file", "url", "note", "directory"), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("relative_path", sa.String(), nullable=True),
        sa.Column("indexed_path", sa.String(), nullable=True),
        sa.Column(
            "status",
            one_of(
                "ck_item_status", "idle", "preparing", "processing", "reading", "embedding", "completed", "failed", "deleting"
            ),
            nullable=False,
        ),
        sa.Column("error", sa.String(), nullable=True),
        sa.Column("error_detail", sa.JSON(), nullable=False),
        sa.Column("chunk_count", sa.Integer(), nullable=True),
        sa.Column("notices", sa.JSON(), nullable=False),
        sa.Column("expanded_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("(status = 'failed') = (error IS NOT NULL AND trim(error) <> '')", name="ck_item_failed_has_error"),
        sa.CheckConstraint(
            "(type = 'directory' AND status NOT IN ('reading', 'embedding'))"
            " OR (type <> 'directory' AND status <> 'preparing')",
            name="ck_item_type_status",
        ),
        sa.CheckConstraint("status = 'failed' OR error IS NULL", name="ck_item_error_only_failed"),
        sa.CheckConstraint("type = 'directory' OR expanded_at IS NULL", name="ck_item_expanded_container"),
        sa.ForeignKeyConstraint(
            ["base_id", "group_id"], ["knowledge_item.base_id", "knowledge_item.id"], name="fk_item_parent", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["base_id"], ["knowledge_base.id"], name="fk_item_base", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("base_id", "id", name="uq_item_base_id"),
    )
    op.create_index("ix_item_base_parent_created", "knowledge_item", ["base_id", "group_id", "created_at"], unique=False)
    op.create_index("ix_item_base_status", "knowledge_item", ["base_id", "status"], unique=False)
    op.create_index("ix_item_base_type_created", "knowledge_item", ["base_id", "type", "created_at"], unique=False)
    op.create_index("ix_item_parent_status", "knowledge_item", ["base_id", "group_id", "status"], unique=False)
    op.create_index(
        "ix_item_unsettled",
        "knowledge_item",
        ["status", "base_id"],
        unique=False,
        sqlite_where=sa.text("status IN ('preparing', 'processing', 'reading', 'embedding', 'deleting')"),
        postgresql_where=sa.text("status IN ('preparing', 'processing', 'reading', 'embedding', 'deleting')"),
    )
    op.create_index("uq_item_path", "knowledge_item", ["base_id", "relative_path"], unique=True)
    op.create_table(
        "knowledge_path",
        sa.Column("base_id", sa.String(), nullable=False),
        sa.Column("folded", sa.String(), nullable=False),
        sa.Column("item_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["base_id", "item_id"], ["knowledge_item.base_id", "knowledge_item.id"], name="fk_path_item", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("base_id", "folded"),
    )
    op.create_index("ix_path_item", "knowledge_path", ["base_id", "item_id"], unique=False)
