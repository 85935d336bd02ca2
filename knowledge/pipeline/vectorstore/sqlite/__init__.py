"""The index of one base as one SQLite file, read and written through apsw. See `schema` for what lies where."""

from knowledge.pipeline.vectorstore.sqlite.store import SqliteIndexStore
from knowledge.pipeline.vectorstore.sqlite.stores import SqliteIndexStores

__all__ = ["SqliteIndexStore", "SqliteIndexStores"]
