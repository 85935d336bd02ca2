"""Cut one document into overlapping spans at the best places, never inside what a reader sees as one character.

Two strategies. *Structured* prefers headings, code-fence borders, rules and blank lines of Markdown, and never cuts inside a
fenced block if another place will do. *Delimiter* prefers the user's separator, then blank lines, lines, sentences and spaces.
Sizes are estimated tokens, turned into characters by the document's own average. Work is linear in the characters put out:
only the last 22 % before each target are looked at.
"""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from knowledge.errors import InvalidInput
from knowledge.pipeline.indexing.tokens import estimate_tokens

WINDOW_SHARE: Final = 0.22  #: of a chunk's length, searched for a break before its target end
DISTANCE_WEIGHT: Final = 0.7  #: a break at the far end of the window keeps 1 - 0.7 of its score
MAX_CLUSTER: Final = 32  #: characters; a longer run of combining marks is cut after all

_HEADING_SCORE: Final = {1: 100.0, 2: 90.0, 3: 80.0, 4: 70.0, 5: 60.0, 6: 50.0}
_LINE_SCORE: Final = {"fence": 80.0, "rule": 60.0, "blank": 20.0, "entry": 5.0}
_PLAIN_LINE_SCORE: Final = 1.0
_SEPARATOR_IN_STRUCTURE_SCORE: Final = 30.0
_DELIMITERS: Final = (("\n\n", 20.0), ("\n", 12.0), ("。", 10.0), (". ", 8.0), (" ", 3.0))
_SEPARATOR_SCORE: Final = 100.0

#: Joiner and non-joiner, vowels of Thai and Lao that are no marks, voicing of half-width kana.
_EXTENDING: Final = frozenset("\u200d\u200c\u0e33\u0eb3\uff9e\uff9f")
_VIRAMA: Final = 9  #: combining class of the sign that takes a consonant's vowel

_LINE_KIND: Final = re.compile(  # what the line after a newline is
    r"(?P<heading>\#{1,6})(?=[ \t])"
    r"|(?P<fence>[ ]{0,3}(?:```|~~~))"
    r"|(?P<rule>(?:-{3,}|\*{3,}|_{3,})[ \t]*(?=\n|\Z))"
    r"|(?P<blank>[ \t]*(?=\n))"
    r"|(?P<entry>[ \t]*(?:[-*+]|[0-9]{1,9}[.)])[ \t])"
)
_FENCE: Final = re.compile(r"^[ ]{0,3}(?:```|~~~)", re.MULTILINE)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}

_TRIMMED: Final = "".join(chr(code) for code in range(0x3001) if chr(code).isspace()) + "\u200b\u2060\ufeff"
_INVISIBLE_CATEGORIES: Final = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})
_INVISIBLE: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | {
    *map(chr, range(0x180B, 0x1810)),  # Mongolian variation selectors
    *map(chr, range(0xFE00, 0xFE10)),  # variation selectors
    *map(chr, range(0xE0100, 0xE01F0)),
}


class Span(NamedTuple):
    """A chunk's place in its document: code points, end exclusive."""

    start: int
    end: int


def split(text: str, *, size: int, overlap: int, strategy: str = "structured", separator: str = "") -> list[Span]:
    r"""Where to cut `text`.

    Args:
        size: estimated tokens a chunk should have at most; below 1 counts as 1.
        overlap: estimated tokens that neighbours share; clamped to `size - 1`.
        strategy: "structured" or "delimiter".
        separator: a place the user likes to cut at, in escaped form (`\n`, `\t`, `\r`, `\\`); "" for none.

    Returns:
        Spans in ascending order, none of them empty, blank, or with whitespace at either end. With overlap 0 they are disjoint
        and cover every visible character.

    Raises:
        InvalidInput: an unknown strategy, or "delimiter" without a separator.
    """
    finder = _FINDERS.get(strategy)
    if finder is None:
        raise InvalidInput(f"Unknown chunk strategy {strategy!r}.", field="strategy")
    literal = unescape(separator)
    if strategy == "delimiter" and not literal:
        raise InvalidInput("The delimiter strategy needs a separator.", field="separator")
    if is_blank(text):
        return []
    size = max(size, 1)
    overlap = min(max(overlap, 0), size - 1)
    chars_per_token = len(text) / max(estimate_tokens(text), 1)
    max_chars = max(_rounded(size * chars_per_token), 1)
    overlap_chars = min(_rounded(overlap * chars_per_token), max_chars - 1)
    return list(_walk(text, max_chars, overlap_chars, finder(text, literal)))


def trimmed(text: str, start: int, end: int) -> Span | None:
    """The span without whitespace and zero-width characters at its ends; None if nothing visible is left."""
    piece = text[start:end]
    body = piece.lstrip(_TRIMMED)
    if len(body) < len(piece) and body and unicodedata.combining(body[0]):
        body = piece[len(piece) - len(body) - 1 :]  # a mark on a blank
    start += len(piece) - len(body)
    body = body.rstrip(_TRIMMED)
    return None if is_blank(body) else Span(start, start + len(body))


def is_blank(text: str) -> bool:
    """Whether a reader would see nothing: only whitespace, control, format and filler characters."""
    return not text or text.isspace() or all(_is_invisible(char) for char in text)  # ends at the first visible one


def before_cluster(text: str, cut: int, floor: int) -> int:
    """`cut`, or a place a few characters before it where no combined character is torn apart; never at or below `floor`."""
    for place in range(cut, max(floor, cut - MAX_CLUSTER), -1):
        if place >= len(text) or not _joined(text, place, floor):
            return place
    return cut


def unescape(separator: str) -> str:
    """The literal characters of a separator as it is stored; an unknown escape stays as it is."""
    return re.sub(r"\\([ntr\\])", lambda match: _ESCAPES[match[1]], separator)


Breaks = Callable[[int, int], Iterator[tuple[int, float]]]
"""`breaks(low, high)`: places in [low, high] with their scores; of equal scores at least the place nearest to `high`."""


def _walk(text: str, max_chars: int, overlap_chars: int, breaks: Breaks) -> Iterator[Span]:
    window = max(_rounded(WINDOW_SHARE * max_chars), 1)
    cursor = covered = 0
    while True:
        target = cursor + max_chars
        if target >= len(text):
            cut = len(text)
        else:
            found = _best_break(breaks, max(target - window, cursor + 1), target, window)
            cut = before_cluster(text, target if found is None else found, cursor)
        span = trimmed(text, cursor, cut)
        if span is not None and span.end > covered:  # else all of it lies in the chunk before
            yield span
            covered = span.end
        if cut >= len(text):
            return
        following = before_cluster(text, cut - overlap_chars, cursor) if overlap_chars else cut
        cursor = following if following > cursor else cut


def _best_break(breaks: Breaks, low: int, target: int, window: int) -> int | None:
    best, best_score = None, 0.0
    for place, score in breaks(low, target):
        distance = (target - place) / window
        effective = score * (1 - DISTANCE_WEIGHT * distance * distance)
        if effective > best_score:
            best, best_score = place, effective
    return best


def _structured(text: str, separator: str) -> Breaks:
    fences = _fences(text)
    edges = [edge for fence in fences for edge in fence]

    def fenced(place: int) -> bool:
        """Strictly inside a fenced block: an odd number of edges lies before, and none here."""
        index = bisect_left(edges, place)
        return index % 2 == 1 and (index == len(edges) or edges[index] != place)

    def breaks(low: int, high: int) -> Iterator[tuple[int, float]]:
        if separator:
            after = high
            while (found := text.rfind(separator, max(low - len(separator), 0), after)) >= 0:
                place = found + len(separator)
                if not fenced(place):
                    yield place, _SEPARATOR_IN_STRUCTURE_SCORE
                    break
                after = place - 1
        place = high + 1
        while (place := text.rfind("\n", low, place)) >= 0:
            if not fenced(place):
                yield place, _line_score(text, place + 1)

    return breaks


def _line_score(text: str, start: int) -> float:
    match = _LINE_KIND.match(text, start)
    if match is None or match.lastgroup is None:
        return _PLAIN_LINE_SCORE
    if match.lastgroup == "heading":
        return _HEADING_SCORE[len(match[0])]
    return _LINE_SCORE[match.lastgroup]


def _fences(text: str) -> list[tuple[int, int]]:
    """Fenced blocks from the newline before the opening marker to the end of the closing one; an open one runs to the end."""
    if "```" not in text and "~~~" not in text:
        return []
    blocks: list[tuple[int, int]] = []
    opened: int | None = None
    for marker in _FENCE.finditer(text):
        if opened is None:
            opened = max(marker.start() - 1, 0)
        else:
            blocks.append((opened, marker.end()))
            opened = None
    if opened is not None:
        blocks.append((opened, len(text)))
    return blocks


def _delimiter(text: str, separator: str) -> Breaks:
    literals = ((separator, _SEPARATOR_SCORE), *_DELIMITERS)

    def breaks(low: int, high: int) -> Iterator[tuple[int, float]]:
        for literal, score in literals:  # of equal scores the last place wins, so one look from behind is enough
            found = text.rfind(literal, max(low - len(literal), 0), high)
            if found >= 0:
                yield found + len(literal), score

    return breaks


_FINDERS: Final[dict[str, Callable[[str, str], Breaks]]] = {"structured": _structured, "delimiter": _delimiter}


def _joined(text: str, place: int, floor: int) -> bool:
    """Whether the characters around `place` (floor < place < len) belong together on the screen; none are torn at `floor`."""
    before, after = text[place - 1], text[place]
    if after < "\u0300":
        return before == "\r" and after == "\n"
    if before in "\n\r":
        return False
    kind = unicodedata.category(after)
    if kind in {"Mn", "Me", "Mc"} or after in _EXTENDING or "\U0001f3fb" <= after <= "\U0001f3ff":
        return True
    if "\U000e0020" <= after <= "\U000e007f":  # the letters of a region in a flag
        return True
    if before == "\u200d":
        return kind == "So"
    if kind == "Lo" and unicodedata.combining(before) == _VIRAMA:
        return True  # two consonants of an Indic script, written as one
    if _is_flag_letter(after):
        run = place
        while run > floor and _is_flag_letter(text[run - 1]):
            run -= 1
        return (place - run) % 2 == 1
    return "\u1160" <= after <= "\u11ff" and "\u1100" <= before <= "\u11ff"  # Hangul written as single jamo


def _is_flag_letter(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _is_invisible(char: str) -> bool:
    return unicodedata.category(char) in _INVISIBLE_CATEGORIES or char in _INVISIBLE


def _rounded(value: float) -> int:
    return int(value + 0.5)
