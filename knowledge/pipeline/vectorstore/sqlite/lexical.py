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
LARGE_BASE_BODIES: Final = 5000  #: below, scoring every row takes a few milliseconds
_MATCH: Final = "SELECT rowid, -rank FROM lexical WHERE lexical MATCH ? ORDER BY rank LIMIT ?"
_COUNT: Final = "SELECT count(*) FROM (SELECT 1 FROM lexical WHERE lexical MATCH ? LIMIT ?)"


class FrequentTerms:
    """Which words most rows have; remembered until the base has grown or shrunk by a tenth."""

    def __init__(self) -> None:
        self._bodies = 0
        self._known: dict[Term, bool] = {}

    def is_frequent(self, connection: apsw.Connection, term: Term, bodies: int) -> bool:
        known = self._known
        if abs(bodies - self._bodies) * 10 > self._bodies or len(known) > 10_000:
            self._bodies, self._known = bodies, (known := {})
        if term not in known:
            ceiling = int(bodies * FREQUENT_SHARE)
            known[term] = one_row(connection, _COUNT, (_quoted(term), ceiling + 1))[0] > ceiling
        return known[term]


def search(connection: apsw.Connection, frequent: FrequentTerms, query: str, limit: int) -> list[tuple[int, float]]:
    """(body, BM25 score), best first, at most `limit`; equal ones by body."""
    wanted = terms(query)[:MAX_TERMS]
    if not wanted or limit <= 0:
        return []
    if len(wanted) >= LONG_QUERY_TERMS:
        (bodies,) = one_row(connection, "SELECT bodies FROM state")
        if bodies >= LARGE_BASE_BODIES:
            wanted = [term for term in wanted if not frequent.is_frequent(connection, term, bodies)] or wanted
    found: list[Any] = connection.execute(_MATCH, (" OR ".join(map(_quoted, wanted)), limit)).fetchall()
    return sorted(found, key=lambda row: (-row[1], row[0]))


def _quoted(term: Term) -> str:
    return f'"{term.text}" *' if term.prefix else f'"{term.text}"'  # tokens hold no quote
