"""Every stored path has its holder, not only those at the top: a free name in a folder is one look-up. What a key was for.

Where two names of one folder differ in case only, which an older version allowed for converted files, the first one holds it.

Revision: 0004; after: 0003
"""

import unicodedata

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_STEP = 1000  #: rows in memory at a time


def upgrade() -> None:
    op.add_column("knowledge_request", sa.Column("digest", sa.String()))
    op.drop_index("ix_rate_scope_job", "knowledge_rate")  # no question uses it
    _hold_paths()


def _hold_paths() -> None:
    connection = op.get_bind()
    hold = sa.text(
        "INSERT INTO knowledge_path (base_id, folded, item_id) VALUES (:base_id, :folded, :item_id) ON CONFLICT DO NOTHING"
    )
    after = ""
    while found := connection.execute(
        sa.text(
            "SELECT id, base_id, relative_path, indexed_path FROM knowledge_item"
            " WHERE id > :after AND group_id IS NOT NULL ORDER BY id LIMIT :step"
        ),
        {"after": after, "step": _STEP},
    ).all():
        held = [
            {"base_id": row.base_id, "folded": _folded(path), "item_id": row.id}
            for row in found
            for path in (row.relative_path, row.indexed_path)
            if path
        ]
        if held:
            connection.execute(hold, held)
        after = found[-1].id


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
