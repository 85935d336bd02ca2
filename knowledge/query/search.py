"""Search: lanes → fuse → visible only → rank.

A base with an embedder searches by words and by meaning (hybrid), one without by words alone. Everything visible may be shown:
material is replaced as a whole, so what the index holds is always an item's last good state.
"""

import unicodedata
from collections.abc import Sequence
from typing import Final

from knowledge.catalog import bases, items, tree
from knowledge.errors import DimensionMismatch, EmptyQuery, InvalidInput
from knowledge.model.documents import EmbedderSpec
from knowledge.model.ids import BaseId, ItemId
from knowledge.model.results import ScoreKind, SearchAnswer, SearchHit
from knowledge.model.views import Base, Item
from knowledge.pipeline.indexing.analyser import terms
from knowledge.pipeline.indexing.tokens import estimate_tokens
from knowledge.pipeline.vectorstore.port import LaneHit, StoredUnit
from knowledge.query.fusion import fuse
from knowledge.runtime import Runtime

DEFAULT_HITS: Final = 10
MAX_HITS: Final = 200
OVERFETCH: Final = 5  #: candidates per wanted hit, so that hidden ones can be left out
MAX_CANDIDATES: Final = 200
LANE_DEPTH: Final = 5  #: rows each lane fetches per candidate
MAX_QUERY_CHARACTERS: Final = 10_000


def search(rt: Runtime, base_id: BaseId, query: str, *, limit: int | None = None) -> SearchAnswer:
    """See `KnowledgeService.search`."""
    try:
        return _search(rt, base_id, query, limit)
    except DimensionMismatch:  # the base got its embedder between two looks
        return _search(rt, base_id, query, limit)


def _search(rt: Runtime, base_id: BaseId, query: str, limit: int | None) -> SearchAnswer:
    if len(query) > MAX_QUERY_CHARACTERS:
        raise InvalidInput(f"A query may have at most {MAX_QUERY_CHARACTERS:,} characters.", characters=len(query))
    if limit is not None and not 1 <= limit <= MAX_HITS:
        raise InvalidInput(f"limit must be 1 to {MAX_HITS}.", limit=limit)
    with rt.db.read() as tx:
        base = bases.require_runnable(tx, base_id)
    if not terms(query):
        raise EmptyQuery
    wanted = limit or base.document_count or DEFAULT_HITS
    candidates = _candidates(rt, base, query, min(wanted * OVERFETCH, max(MAX_CANDIDATES, wanted)))
    passages = rt.index(base).fetch([hit.unit_id for hit in candidates])
    with rt.db.read() as tx:
        shown = items.visible(tx, base_id, {hit.item_id for hit in candidates})
        pending, stale = tree.unfinished_leaves(tx, base_id)
    hits = [
        _hit(rank, hit, passages[hit.unit_id], shown[hit.item_id])
        for rank, hit in enumerate(
            [hit for hit in candidates if hit.item_id in shown and hit.unit_id in passages][:wanted], start=1
        )
    ]
    return SearchAnswer(hits, base.mode, pending, stale)


def _candidates(rt: Runtime, base: Base, query: str, count: int) -> Sequence[LaneHit]:
    index = rt.index(base)
    depth = count * LANE_DEPTH
    lexical = index.lexical(query, depth)
    embedder = rt.embedder(base)
    if embedder is None or not _may_know(embedder.spec, query):
        return lexical[:count]
    nearest = index.nearest(embedder.embed_query(query), depth)
    return fuse([nearest, lexical])[:count]


def _may_know(spec: EmbedderSpec, query: str) -> bool:
    """Whether a model can make sense of the query's script; a vector of unknown signs would only add noise.

    A model that names its languages, all written in Latin letters, is not asked about a query without a Latin letter.
    """
    if not spec.languages or not set(spec.languages) <= _LATIN:
        return True
    return any(unicodedata.name(character, "").startswith("LATIN") for character in query if character.isalpha())


_LATIN: Final = frozenset(
    ("en", "de", "fr", "es", "it", "pt", "nl", "sv", "da", "no", "fi", "pl", "cs", "sk", "ro", "hu", "tr", "id", "vi")
)


def _hit(rank: int, hit: LaneHit, stored: StoredUnit, item: Item) -> SearchHit:
    unit = stored.unit
    return SearchHit(
        rank=rank,
        score=hit.score,
        score_kind=ScoreKind.RANKING,
        chunk_id=stored.unit_id,
        item_id=ItemId(hit.item_id),
        concept_id=stored.path,
        title=item.title,
        text=unit.text,
        char_start=unit.char_start,
        char_end=unit.char_end,
        page=unit.page,
        item_status=item.status,
        source=item.source,
        chunk_index=unit.index,
        token_count=estimate_tokens(unit.text),
    )
