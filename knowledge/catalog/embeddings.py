"""Vectors that were paid for, by (embedder fingerprint, text hash). No text is kept.

A store of its own beside the catalogue. Before a request is sent, as much is written as its answer will need; each answer is
flushed to the disk before the next request is sent. Bounded in size: the longest unused go first, but nothing within seven days
of its payment.
"""

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Final

import numpy as np
from sqlalchemy import Column, Index, Integer, LargeBinary, MetaData, String, Table, func, select, tuple_, update

from knowledge.db.columns import UtcDateTime, utc_now
from knowledge.db.engine import Database
from knowledge.db.sql import id_set, insert_new
from knowledge.model.documents import Vector

KEEP_PAID: Final = timedelta(days=7)
_EVICT_BATCH: Final = 1000

_METADATA = MetaData()
VECTOR: Final = Table(
    "paid_vector",
    _METADATA,
    Column("fingerprint", String, primary_key=True),
    Column("text_hash", String, primary_key=True),
    Column("vector", LargeBinary, nullable=False),  #: float32, little-endian
    Column("paid_at", UtcDateTime, nullable=False),
    Column("used_at", UtcDateTime, nullable=False),
    Index("ix_paid_vector_used", "used_at"),
)
_TRIAL: Final = Table(  # one row, written anew by each `ensure_room`
    "trial",
    _METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("filling", LargeBinary, nullable=False),  #: zeros
)


class EmbeddingCache:
    """Implements `pipeline.indexing.embedding.VectorCache`.

    Args:
        max_bytes: of used pages; what is above goes at the next `evict`.
    """

    def __init__(self, db: Database, *, max_bytes: int) -> None:
        self._db = db
        self._max_bytes = max_bytes
        self._is_ready = False

    def get(self, fingerprint: str, hashes: Collection[str]) -> dict[str, Vector]:
        """The stored vectors among these, float32."""
        if not hashes:
            return {}
        self._prepare()
        mine = (VECTOR.c.fingerprint == fingerprint) & VECTOR.c.text_hash.in_(id_set(hashes))
        with self._db.read() as tx:
            found = {row.text_hash: np.frombuffer(row.vector, "<f4") for row in tx.execute(select(VECTOR).where(mine))}
        if found:
            with self._db.write() as tx:
                tx.execute(update(VECTOR).where(mine).values(used_at=utc_now()))
        return found

    def ensure_room(self, byte_count: int) -> None:
        """Find out, by writing as much, whether an answer of this size could be stored now.

        A few bytes would prove too little: on a disk that is almost full they fit again and again, and no answer does.

        Raises:
            DatabaseBusy, StorageFull, StorageFailed
        """
        self._prepare()
        with self._db.write() as tx:
            tx.execute(_TRIAL.delete())
            tx.execute(_TRIAL.insert().values(id=1, filling=func.zeroblob(byte_count)))

    def put(self, fingerprint: str, vectors: Mapping[str, Vector]) -> None:
        """Keep these; on the disk when this returns."""
        if not vectors:
            return
        self._prepare()
        now = utc_now()
        with self._db.write(durable=True) as tx:
            tx.execute(
                insert_new(tx, VECTOR),
                [
                    {
                        "fingerprint": fingerprint,
                        "text_hash": text_hash,
                        "vector": np.asarray(vector, "<f4").tobytes(),
                        "paid_at": now,
                        "used_at": now,
                    }
                    for text_hash, vector in vectors.items()
                ],
            )

    def evict(self) -> int:
        """Bring the store under its bound, as far as the seven days allow. Returns how many vectors went."""
        self._prepare()
        gone = 0
        while self._used_bytes() > self._max_bytes:
            with self._db.write() as tx:
                oldest = (
                    select(VECTOR.c.fingerprint, VECTOR.c.text_hash)
                    .where(VECTOR.c.paid_at < utc_now() - KEEP_PAID)
                    .order_by(VECTOR.c.used_at)
                    .limit(_EVICT_BATCH)
                )
                count = tx.execute(VECTOR.delete().where(tuple_(VECTOR.c.fingerprint, VECTOR.c.text_hash).in_(oldest))).rowcount
            if not count:
                break
            gone += count
        return gone

    def _used_bytes(self) -> int:
        with self._db.read() as tx:
            pages, free, size = (
                tx.exec_driver_sql(f"PRAGMA {name}").scalar() or 0 for name in ("page_count", "freelist_count", "page_size")
            )
        return int((pages - free) * size)

    def _prepare(self) -> None:
        if not self._is_ready:
            with self._db.write() as tx:
                _METADATA.create_all(tx)
            self._is_ready = True
