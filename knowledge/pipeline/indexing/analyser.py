"""Text to lexical tokens: one function for the index and for questions, so that both always agree.

A token is a run of letters, marks and digits after folding; everything else separates. Folding: NFKC, case, Latin, Greek,
Cyrillic, Arabic and Hebrew diacritics, decimal digits of every script to 0-9. Digits part from letters of other scripts
("2024年", "2024г"), not from Latin ones ("mp3"). Scripts that write no spaces become overlapping character pairs plus the last
character alone: every character then begins a token, so a word of two or more characters is found as its pairs and a word of
one as a prefix.

What leaves this module is exactly what SQLite's `ascii` tokenizer makes of it (all of U+0080 and above belongs to tokens), so
no Unicode table but Python's own takes part. Stems are left to the index.
"""

import re
import unicodedata
from dataclasses import dataclass
from string import ascii_lowercase, ascii_uppercase
from typing import Final


@dataclass(frozen=True, slots=True)
class Term:
    """One thing to look for: a whole token, or the beginning of one."""

    text: str
    prefix: bool = False


def index_text(text: str) -> str:
    """The tokens of a text, parted by anything that is no token; case of ASCII letters is left as it is."""
    if text.isascii():
        return text
    folded = _fold(text)
    return folded if folded.isascii() else _part_digits(_UNSPACED.sub(_pairs_and_last, folded))


def tokens(text: str) -> list[str]:
    """The tokens of a text in order, as an index without a tokenizer of its own stores them."""
    return _TOKEN.findall(index_text(text).translate(_ASCII_LOWER))


def terms(query: str) -> list[Term]:
    """What a question asks for: each term once, in order; empty if it holds no letter or digit."""
    found: dict[Term, None] = {}
    for match in _RUN_OR_TOKEN.finditer(_part_digits(_fold(query)).translate(_ASCII_LOWER)):
        run = match["run"]
        if run is None:
            found[Term(match.group())] = None
        elif len(run) == 1:
            found[Term(run, prefix=True)] = None
        else:
            found.update((Term(pair), None) for pair in _pairs(run))
    return list(found)


_WITHOUT_DECOMPOSITION: Final = {
    "ø": "o",
    "ł": "l",
    "đ": "d",
    "ð": "d",
    "þ": "th",
    "æ": "ae",
    "œ": "oe",
    "ı": "i",
    "ħ": "h",
    "ŧ": "t",
}
_DROPPED: Final = re.compile(
    "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u065f\u0670\ufe00-\ufe0f]"
)  #: diacritics, tatweel, variants


class _Folding(dict[int, str]):
    """What each character of NFKC text becomes; filled as characters are met (`str.translate` asks for code points)."""

    def __missing__(self, code: int) -> str:
        decomposed = unicodedata.normalize("NFKD", chr(code).casefold())
        plain = unicodedata.normalize("NFC", _DROPPED.sub("", decomposed))
        self[code] = folded = "".join(map(_part, plain))
        return folded


def _part(character: str) -> str:
    """A character of a token, nothing for what is invisible, a space for what separates."""
    category = unicodedata.category(character)
    if category == "Nd":
        return str(unicodedata.decimal(character))
    if category[0] in "LMN":
        return _WITHOUT_DECOMPOSITION.get(character, character)
    return "" if category == "Cf" else " "


_FOLDING: Final = _Folding()
#: As SQLite does it. The rest is folded already, and `lower` would undo that: small Cherokee letters fold to capital ones.
_ASCII_LOWER: Final = str.maketrans(ascii_uppercase, ascii_lowercase)
_NOT_ASCII: Final = re.compile("[^\x00-\x7f]+")

_UNSPACED_RANGES: Final = (
    "\u0e01-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff\ua9e0-\ua9ff\uaa60-\uaa7f"  # Burmese, Khmer
    "\u3005-\u3007\u3021-\u302f\u3031-\u303c\u3041-\u30ff\u31f0-\u31ff"  # iteration marks, Hiragana, Katakana
    "\u3105-\u312f\u31a0-\u31bf"  # Bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "\u1100-\u11ff\uac00-\ud7ff"  # Hangul: spaced, but particles cling to the word that is asked for
)
_UNSPACED: Final = re.compile(f"[{_UNSPACED_RANGES}]+")
_TOKEN: Final = re.compile("[0-9A-Za-z\x80-\U0010ffff]+")
_RUN_OR_TOKEN: Final = re.compile(f"(?P<run>[{_UNSPACED_RANGES}]+)|(?:(?![{_UNSPACED_RANGES}])[0-9A-Za-z\x80-\U0010ffff])+")
_DIGIT_THEN_OTHER: Final = re.compile("([0-9])(?=[^\x00-\x7f])")
_OTHER_THEN_DIGIT: Final = re.compile("(?<=[^\x00-\x7f])([0-9])")


def _fold(text: str) -> str:
    # ASCII stretches are copied, not looked at: English with a few typographic quotes stays fast.
    return _NOT_ASCII.sub(lambda match: match.group().translate(_FOLDING), unicodedata.normalize("NFKC", text))


def _part_digits(folded: str) -> str:
    return _OTHER_THEN_DIGIT.sub(r" \1", _DIGIT_THEN_OTHER.sub(r"\1 ", folded))


def _pairs(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(len(run) - 1)]


def _pairs_and_last(match: re.Match[str]) -> str:
    run = match.group()
    return f" {' '.join(run[i : i + 2] for i in range(len(run)))} "
