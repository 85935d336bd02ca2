"""The part of a passage worth showing, and which words in it the question asked for."""

import re
from collections.abc import Sequence
from typing import Final

WORD: Final = re.compile(r"\w+")
UNSPACED: Final = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+")
LEAD: Final = 40  #: characters of context kept before the first match
SHORTEST_TERM: Final = 3  #: shorter words of spaced scripts (of, in, a) say nothing about where to look


def terms(query: str) -> list[str]:
    """What to look for: longer words, and character pairs of scripts written without spaces."""
    found: dict[str, None] = {}
    for word in WORD.findall(query.casefold()):
        runs = UNSPACED.findall(word)
        for run in runs:
            found |= dict.fromkeys(run[i : i + 2] for i in range(max(1, len(run) - 1)))
        if not runs and len(word) >= SHORTEST_TERM:
            found[word] = None
    return list(found)


def snippet(text: str, wanted: Sequence[str], *, length: int) -> str:
    """The stretch of at most `length` characters (plus ellipses) that holds most of the wanted terms.

    Args:
        text: one line already (`one_line`).
        wanted: case-folded, from `terms`.
    """
    if len(text) <= length:
        return text
    start = _best_start(text, wanted, length)
    end = min(len(text), start + length)
    return ("… " if start else "") + text[start:end].strip() + (" …" if end < len(text) else "")


def _best_start(text: str, wanted: Sequence[str], length: int) -> int:
    folded = text.casefold()
    if len(folded) != len(text):  # folding changed offsets (ß): positions would lie
        folded = text.lower() if len(text.lower()) == len(text) else text
    starts = sorted({max(0, found.start() - LEAD) for term in wanted for found in re.finditer(re.escape(term), folded)})
    if not starts:
        return 0

    def held(start: int) -> int:
        return sum(term in folded[start : start + length] for term in wanted)

    best = min(max(starts, key=lambda start: (held(start), -start)), max(0, len(text) - length))
    blank = text.rfind(" ", max(0, best - LEAD), best + 1)
    return blank + 1 if blank >= 0 else best  # begin with a whole word where there are words
