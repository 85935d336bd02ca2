"""What every source and format needs: containers that are no folders, what a reader found, conversions.

Revision: 0003; after: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_CONTAINERS = "('directory', 'archive', 'sitemap')"
_CHECKS = {  # name -> (before, after)
    "ck_item_type": (
        "type IN ('file', 'url', 'note', 'directory')",
        "type IN ('file', 'url', 'note', 'directory', 'archive', 'sitemap')",
    ),
    "ck_item_type_status": (
        "(type = 'directory' AND status NOT IN ('reading', 'embedding')) OR (type <> 'directory' AND status <> 'preparing')",
        (
            f"(type IN {_CONTAINERS} AND status NOT IN ('reading', 'embedding'))"
            f" OR (type NOT IN {_CONTAINERS} AND status <> 'preparing')"
        ),
    ),
    "ck_item_expanded_container": (
        "type = 'directory' OR expanded_at IS NULL",
        f"type IN {_CONTAINERS} OR expanded_at IS NULL",
    ),
}
_INDEXES = (
    ("knowledge_item", "uq_item_indexed_path", ["base_id", "indexed_path"], True, "indexed_path IS NOT NULL"),
    (
        "knowledge_job",
        "ix_job_converting",
        ["base_id"],
        False,
        "type = 'knowledge.check-file-processing-result' AND status IN ('pending', 'running') AND started_at IS NOT NULL",
    ),
)


def upgrade() -> None:
    op.add_column("knowledge_item", sa.Column("quality", sa.JSON(), nullable=False, server_default="{}"))
    for table, name, columns, unique, where in _INDEXES:
        condition = sa.text(where)
        op.create_index(name, table, columns, unique=unique, sqlite_where=condition, postgresql_where=condition)
    _make_rate()
    if op.get_bind().dialect.name == "sqlite":
        return _rewrite_checks()
    for name, (_, after) in _CHECKS.items():
        op.drop_constraint(name, "knowledge_item", type_="check")
        op.create_check_constraint(name, "knowledge_item", after)
    return None


def _make_rate() -> None:
    op.create_table(
        "knowledge_rate",
        sa.Column("id", sa.String(), primary_key=True),
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("job_id", sa.String()),
        sa.Column("run_token", sa.String()),
        sa.Column("starts_at", sa.BigInteger(), nullable=False),
        sa.Column("lease_until", sa.BigInteger()),
        sa.Column("released_at", sa.BigInteger()),
    )
    op.create_index("ix_rate_scope_starts", "knowledge_rate", ["scope", "starts_at"])
    op.create_index("ix_rate_scope_job", "knowledge_rate", ["scope", "job_id"])


def _rewrite_checks() -> None:
    """SQLite's own way to change a CHECK without a copy of the table: https://sqlite.org/lang_altertable.html, section 7.

    A copy would drop the old table, and with it, by foreign key, every row that names an item.
    """
    run = op.get_bind().exec_driver_sql
    sql = run("SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = 'knowledge_item'").scalar_one()
    for name, (before, after) in _CHECKS.items():
        old, new = f"CONSTRAINT {name} CHECK ({before})", f"CONSTRAINT {name} CHECK ({after})"
        assert sql.count(old) == 1, f"{name} is not what version 0001 made"
        sql = sql.replace(old, new)
    version = run("PRAGMA schema_version").scalar_one()
    run("PRAGMA writable_schema=ON")
    run("UPDATE sqlite_schema SET sql = ? WHERE type = 'table' AND name = 'knowledge_item'", (sql,))
    run(f"PRAGMA schema_version={version + 1}")
    run("PRAGMA writable_schema=OFF")
