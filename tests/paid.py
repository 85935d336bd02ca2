"""The store of paid vectors, looked at from outside, whatever its writers are doing."""

from pathlib import Path

from sqlalchemy import inspect, select

from knowledge.catalog.embeddings import VECTOR
from knowledge.db.engine import Database


def stored_at(data_dir: Path) -> dict[str, float]:
    """When the vector of each text hash was stored, in seconds since the epoch.

    Nothing, while the store is not there or is only being made: its first writer makes the file before the table.
    """
    store = Database(f"sqlite:///{data_dir / 'embeddings.sqlite'}", pooled=False)
    if not store.path.exists():
        return {}
    with store.read() as tx:
        if not inspect(tx).has_table(VECTOR.name):
            return {}
        return {row.text_hash: row.paid_at.timestamp() for row in tx.execute(select(VECTOR.c.text_hash, VECTOR.c.paid_at))}
