"""Search: lanes → fuse → visible only → rank.

A base with an embedder searches by words and by meaning (hybrid), one without by words alone; so does one whose embedder cannot
be reached now, and says so. What does not pass by itself, such as a wrong key, is an error instead.

Everything visible may be shown: material is replaced as a whole, so what the index holds is always an item's last good state.
"""

import logging
import unicodedata
from collections.abc import Sequence
from functools import partial
from typing import Final

from knowledge.catalog import bases, items, tree
from knowledge.errors import DimensionMismatch, EmbedderSlowDown, EmbedderUnavailable, EmptyQuery, InvalidInput
from knowledge.ingestion import mending
from knowledge.model.arguments import require_whole
from knowledge.model.documents import EmbedderSpec, Vector
from knowledge.model.ids import BaseId, ItemId
from knowledge.model.results import ScoreKind, SearchAnswer, SearchHit, SearchNotice
from knowledge.model.views import Base, Item
from knowledge.pipeline.indexing.analyser import terms
from knowledge.pipeline.indexing.tokens import estimate_tokens
from knowledge.pipeline.vectorstore.port import IndexStore, LaneHit, StoredUnit
from knowledge.query.fusion import fuse
from knowledge.runtime import Runtime

DEFAULT_HITS: Final = 10
MAX_HITS: Final = 200
OVERFETCH: Final = 5  #: candidates per wanted hit, so that hidden ones can be left out
MAX_CANDIDATES: Final = 200
LANE_DEPTH: Final = 5  #: rows each lane fetches per candidate
DEEPER: Final = 8  #: times as many candidates at each further look
DEEPEST: Final = 10_000  #: candidates; beyond them an answer may be short
MAX_QUERY_CHARACTERS: Final = 10_000
_BY_WORDS: Final = {SearchNotice.EMBEDDER_UNAVAILABLE, SearchNotice.EMBEDDER_SLOW_DOWN}

log = logging.getLogger(__name__)


def search(rt: Runtime, base_id: BaseId, query: str, *, limit: int | None = None) -> SearchAnswer:
    """See `KnowledgeService.search`."""
    try:
        return _search(rt, base_id, query, limit)
    except DimensionMismatch:  # the base got its embedder between two looks
        return _search(rt, base_id, query, limit)


def _search(rt: Runtime, base_id: BaseId, query: str, limit: int | None) -> SearchAnswer:
    if len(query) > MAX_QUERY_CHARACTERS:
        raise InvalidInput(f"A query may have at most {MAX_QUERY_CHARACTERS:,} characters.", characters=len(query))
    query = query.encode("utf-8", errors="replace").decode()  # half a character, as of a cut text, is none that a model takes
    if limit is not None:
        require_whole("limit", limit, MAX_HITS)
    with rt.db.read() as tx:
        base = bases.require_runnable(tx, base_id)
    if not terms(query):
        raise EmptyQuery
    vector, notices = _vector(rt, base, query)
    wanted = limit or base.document_count or DEFAULT_HITS
    hits = mending.read(rt, base, partial(_visible_hits, rt, base, query, vector, wanted))
    with rt.db.read() as tx:
        pending, stale = tree.unfinished_leaves(tx, base_id)
        if tree.has_lost_index(tx, base_id):
            notices.append(SearchNotice.INDEX_LOST)
    return SearchAnswer(hits, "lexical" if _BY_WORDS & {*notices} else base.mode, pending, stale, notices)


def _visible_hits(
    rt: Runtime, base: Base, query: str, vector: Vector | None, wanted: int, index: IndexStore
) -> list[SearchHit]:
    """The best `wanted` hits of visible items; looks deeper while those on top belong to items that are being deleted."""
    count = min(wanted * OVERFETCH, max(MAX_CANDIDATES, wanted))
    while True:
        candidates = _candidates(index, query, vector, count)
        passages = index.fetch([hit.unit_id for hit in candidates])
        with rt.db.read() as tx:
            shown = items.visible(tx, base.id, {hit.item_id for hit in candidates})
        found = [hit for hit in candidates if hit.item_id in shown and hit.unit_id in passages]
        if len(found) >= wanted or len(candidates) < count or count >= DEEPEST:
            ranked = enumerate(found[:wanted], start=1)
            return [_hit(rank, hit, passages[hit.unit_id], shown[hit.item_id]) for rank, hit in ranked]
        count *= DEEPER


def _vector(rt: Runtime, base: Base, query: str) -> tuple[Vector | None, list[SearchNotice]]:
    """What the query means, if the base's model can say; and why it cannot now."""
    embedder = rt.embedder(base)
    if embedder is None or not _may_know(embedder.spec, query):
        return None, []
    try:
        return embedder.embed_query(query), []
    except (EmbedderUnavailable, EmbedderSlowDown) as error:
        log.warning("searched by words only", extra={"base": base.id, "code": error.code, "model": embedder.spec.id})
        return None, [SearchNotice(error.code)]


def _candidates(index: IndexStore, query: str, vector: Vector | None, count: int) -> Sequence[LaneHit]:
    depth = count * LANE_DEPTH
    lexical = index.lexical(query, depth)
    return lexical[:count] if vector is None else fuse([index.nearest(vector, depth), lexical])[:count]


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
        name=item.name,
        text=unit.text,
        char_start=unit.char_start,
        char_end=unit.char_end,
        page=unit.page,
        locator=unit.locator,
        item_status=item.status,
        source=item.source,
        chunk_index=unit.index,
        token_count=estimate_tokens(unit.text),
    )
