"""What the whole lifecycle needs: inputs of jobs, adds that name themselves.

Revision: 0002; after: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("knowledge_job", sa.Column("input", sa.JSON(), nullable=False, server_default="{}"))
    op.create_table(
        "knowledge_request",
        sa.Column("base_id", sa.String(), nullable=False),
        sa.Column("key_hash", sa.String(), nullable=False),
        sa.Column("item_ids", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["base_id"], ["knowledge_base.id"], name="fk_request_base", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("base_id", "key_hash"),
    )
    op.create_index("ix_request_created", "knowledge_request", ["created_at"])
