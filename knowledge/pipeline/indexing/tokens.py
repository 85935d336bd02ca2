"""How many tokens a text has, estimated without any model's vocabulary.

The text falls into pieces at whitespace and punctuation. Costs, the first that fits:

    whitespace                                    0
    punctuation, n in a row                       n / 2, rounded up
    a piece with a Chinese, Japanese or Korean character   1 a character
    a piece of up to 3 characters                 1
    ASCII letters and digits                      n / 6, rounded up
    the same with accented Latin letters          n / 3, rounded up
    any other script, emoji                       1 a character

English comes to about four characters a token.

Source: the heuristic of the `tokenx` package, by its description.
"""

from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

BLOCK_CHARS: Final = 1 << 20  #: a text is measured in blocks of this size, so that memory stays below 20 MB

_SPACE, _MARK, _PLAIN, _ACCENTED, _CJK, _OTHER = range(6)
_TABLE_SIZE: Final = 0x4_0000  #: beyond lie tags, variation selectors and private use only

_SPACES: Final = (
    (0x09, 0x0D),
    (0x1C, 0x20),
    (0x85, 0x85),
    (0xA0, 0xA0),
    (0x1680, 0x1680),
    (0x2000, 0x200A),
    (0x2028, 0x2029),
    (0x202F, 0x202F),
    (0x205F, 0x205F),
    (0x3000, 0x3000),
)
_MARKS: Final = (
    (0x21, 0x2F),
    (0x3A, 0x40),
    (0x5B, 0x60),
    (0x7B, 0x7E),
    (0xA1, 0xA9),
    (0xAB, 0xB4),
    (0xB6, 0xB9),
    (0xBB, 0xBF),
    (0xD7, 0xD7),
    (0xF7, 0xF7),
    (0x2010, 0x2027),
    (0x2030, 0x205E),
    (0x2190, 0x21FF),
    (0x2500, 0x259F),
)
_PLAINS: Final = ((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A))
_ACCENTEDS: Final = ((0xC0, 0xD6), (0xD8, 0xF6), (0xF8, 0x24F), (0x300, 0x36F), (0x1E00, 0x1EFF))
_CJKS: Final = (
    (0x1100, 0x11FF),
    (0x2E80, 0x2FFF),
    (0x3001, 0x33FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xA960, 0xA97F),
    (0xAC00, 0xD7FF),
    (0xF900, 0xFAFF),
    (0xFE30, 0xFE4F),
    (0xFF00, 0xFFEF),
    (0x1AFF0, 0x1B2FF),
    (0x20000, 0x3FFFF),
)


def estimate_tokens(text: str) -> int:
    """Estimated tokens of `text`; 0 if it is empty or whitespace. Linear in its length, about 100 MB/s."""
    total, start = 0, 0
    while start < len(text):
        kinds = _kinds(text[start : start + BLOCK_CHARS])
        starts = np.flatnonzero(np.concatenate(([True], kinds[1:] != kinds[:-1])))
        starts = _join_words(kinds, starts)
        end = len(kinds)
        if start + end < len(text) and len(starts) > 1:  # the last piece may go on in the next block
            end = int(starts[-1])
            starts = starts[:-1]
        total += _plain_cost(kinds, starts, end) if kinds.max() <= _PLAIN else _cost(kinds[:end], starts)
        start += end
    return total


def _kinds(text: str) -> npt.NDArray[np.uint8]:
    codes: npt.NDArray[np.integer]
    if text.isascii():
        codes = np.frombuffer(text.encode("ascii"), dtype=np.uint8)
    else:
        codes = np.minimum(np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4"), _TABLE_SIZE)
    kinds: npt.NDArray[np.uint8] = _table().take(codes)
    return kinds


def _join_words(kinds: npt.NDArray[np.uint8], starts: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Drop the borders inside a word: only whitespace and punctuation part pieces."""
    here = kinds[starts]
    inside_word = np.zeros(len(starts), dtype=bool)
    inside_word[1:] = (here[1:] > _MARK) & (here[:-1] > _MARK)
    return starts[~inside_word]


def _plain_cost(kinds: npt.NDArray[np.uint8], starts: npt.NDArray[np.intp], end: int) -> int:
    """As `_cost`, for blocks in which every piece has one kind of character: most texts, in half the time."""
    lengths = np.empty_like(starts)
    np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
    lengths[-1] = end - starts[-1]
    first = kinds[starts]
    marks, words = lengths[first == _MARK], lengths[first == _PLAIN]
    return int(((marks + 1) // 2).sum() + ((words + 5) // 6).sum())


def _cost(kinds: npt.NDArray[np.uint8], starts: npt.NDArray[np.intp]) -> int:
    """Sum over the pieces of one block; `starts` are their first positions, ascending, beginning with 0."""
    lengths = np.diff(starts, append=len(kinds))
    first = kinds[starts]
    worst = np.maximum.reduceat(np.where(kinds == _CJK, _OTHER + 1, kinds), starts)
    cost = np.where(
        worst == _OTHER + 1,
        lengths,
        np.where(
            lengths <= 3,
            1,
            np.where(worst == _PLAIN, -(-lengths // 6), np.where(worst == _ACCENTED, -(-lengths // 3), lengths)),
        ),
    )
    cost = np.where(first == _MARK, -(-lengths // 2), cost)
    return int(cost[first != _SPACE].sum())


@cache
def _table() -> npt.NDArray[np.uint8]:
    """Kind of each code point; the last entry stands for all beyond."""
    table = np.full(_TABLE_SIZE + 1, _OTHER, dtype=np.uint8)
    for kind, ranges in ((_SPACE, _SPACES), (_MARK, _MARKS), (_PLAIN, _PLAINS), (_ACCENTED, _ACCENTEDS), (_CJK, _CJKS)):
        for first, last in ranges:
            table[first : last + 1] = kind
    return table
