"""The lexical lane: bodies that share tokens with a question, by BM25.

A question is an OR of quoted tokens; nothing of it reaches FTS5's syntax. FTS5 scores every row that has any of the words, so
in a large base the words that a fifth of all rows have are left out of questions long enough to do without.
"""

from typing import Any, Final

import apsw

from knowledge.pipeline.indexing.analyser import Term, terms
from knowledge.pipeline.vectorstore.sqlite.connection import one_row

MAX_TERMS: Final = 64
LONG_QUERY_TERMS: Final = 4
FREQUENT_SHARE: Final = 0.2
REMEMBERED_TERMS: Final = 10_000
LARGE_BASE_BODIES: Final = 5000  #: below, scoring every row takes a few milliseconds
_MATCH: Final = "SELECT rowid, -rank FROM lexical WHERE lexical MATCH ? ORDER BY rank LIMIT ?"
_COUNT: Final = "SELECT count(*) FROM (SELECT 1 FROM lexical WHERE lexical MATCH ? LIMIT ?)"


class TermCounts:
    """How many bodies hold a term, counted up to `FREQUENT_SHARE`; forgotten when the base has changed by a tenth."""

    def __init__(self) -> None:
        self._bodies = 0
        self._known: dict[Term, int] = {}

    def spared(self, connection: apsw.Connection, wanted: list[Term], bodies: int) -> list[Term]:
        """The terms without the frequent ones; all of them if nothing would be found by the rest."""
        ceiling = int(bodies * FREQUENT_SHARE)
        counts = {term: self._count(connection, term, bodies, ceiling) for term in wanted}
        rare = [term for term in wanted if counts[term] <= ceiling]
        return rare if any(counts[term] for term in rare) else wanted

    def _count(self, connection: apsw.Connection, term: Term, bodies: int, ceiling: int) -> int:
        known = self._known
        if abs(bodies - self._bodies) * 10 > self._bodies or len(known) > REMEMBERED_TERMS:
            self._bodies, self._known = bodies, (known := {})
        if term not in known:
            (known[term],) = one_row(connection, _COUNT, (_quoted(term), ceiling + 1))
        return known[term]


def search(connection: apsw.Connection, counts: TermCounts, query: str, limit: int) -> list[tuple[int, float]]:
    """(body, BM25 score), best first, at most `limit`; equal ones by body."""
    wanted = terms(query)[:MAX_TERMS]
    if not wanted or limit <= 0:
        return []
    if len(wanted) >= LONG_QUERY_TERMS:
        (bodies,) = one_row(connection, "SELECT bodies FROM state")
        if bodies >= LARGE_BASE_BODIES:
            wanted = counts.spared(connection, wanted, bodies)
    found: list[Any] = connection.execute(_MATCH, (" OR ".join(map(_quoted, wanted)), limit)).fetchall()
    return sorted(found, key=lambda row: (-row[1], row[0]))


def _quoted(term: Term) -> str:
    return f'"{term.text}" *' if term.prefix else f'"{term.text}"'  # tokens hold no quote
