"""What each request to an embedder cost."""

import uuid
from dataclasses import dataclass

from sqlalchemy import func, select

from knowledge.catalog.rows import SPEND
from knowledge.db.columns import utc_now
from knowledge.db.engine import Tx
from knowledge.model.documents import EmbedderSpec, EmbeddingUse
from knowledge.model.ids import BaseId, ItemId, JobId


@dataclass(frozen=True, slots=True)
class SpendTotal:
    requests: int
    texts: int  #: sent
    cached_texts: int  #: not sent, because the cache had them
    tokens: int
    cost: float | None  #: in the currency of the declared price; None if no price is declared


def record(
    tx: Tx,
    spec: EmbedderSpec,
    use: EmbeddingUse,
    *,
    base_id: BaseId,
    item_id: ItemId | None,
    job_id: JobId | None,
    cached_texts: int,
) -> None:
    tokens = use.tokens if use.tokens is not None else use.estimated_tokens
    price = spec.price_per_million_tokens
    tx.execute(
        SPEND.insert().values(
            id=str(uuid.uuid4()),
            base_id=base_id,
            item_id=item_id,
            job_id=job_id,
            model=spec.id,
            texts=use.texts,
            cached_texts=cached_texts,
            tokens=tokens,
            cost=None if price is None else price * tokens / 1e6,
            created_at=utc_now(),
        )
    )


def total(tx: Tx, base_id: BaseId) -> SpendTotal:
    row = tx.execute(
        select(
            func.count().filter(SPEND.c.texts > 0),  # a row without one tells of texts that all came from the cache
            func.sum(SPEND.c.texts),
            func.sum(SPEND.c.cached_texts),
            func.sum(SPEND.c.tokens),
            func.sum(SPEND.c.cost),
        ).where(SPEND.c.base_id == base_id)
    ).one()
    requests, texts, cached, tokens, cost = row
    return SpendTotal(requests, texts or 0, cached or 0, tokens or 0, cost)
