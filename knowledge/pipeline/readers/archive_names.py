"""Names inside archives as their authors wrote them.

Old programs write a name in the charset of their system and do not say which. A name is too short for statistics, but the names
of one archive share a charset, and each charset has a small set of characters that names are really made of: the one that
explains most of the foreign bytes by them wins.
"""

import re
from collections.abc import Sequence
from typing import Final

from knowledge.pipeline.readers.charsets import JAPANESE, KOREAN, KOREAN_CHARACTERS, WIDE, Charset

_HIGH: Final = re.compile(rb"[\x80-\xff]")
#: A foreign byte alone among ASCII letters, as in `Übung`: in scripts of two bytes they come in runs.
#: Katakana do not, whose first byte is 83.
_LONELY: Final = re.compile(rb"(?<![\x80-\xff])[\x80-\x82\x84-\xff](?![\x80-\xff])")

_AMONG_LATIN: Final = re.compile("[A-Za-z][^\\x00-\\x7f][A-Za-z]")  #: no Japanese writes so
#: A capital behind a small letter, or beside a Latin one: bytes of another charset.
_STRANGE_CYRILLIC: Final = re.compile("[а-яё][А-ЯЁ]|[A-Za-z][А-яЁё]|[А-яЁё][A-Za-z]")


def decoded_names(names: Sequence[bytes]) -> list[str]:
    """Each name as text, in the same order; what fits no charset as the DOS code page 437, which fits everything."""
    foreign = [name for name in names if _HIGH.search(name)]
    utf8 = [text for name in foreign if (text := _strictly(name, "utf-8")) is not None]
    encoding = "utf-8" if len(utf8) == len(foreign) else _likeliest(b"\n".join(foreign))
    return [_decoded(name, encoding) for name in names]


def _decoded(name: bytes, encoding: str) -> str:
    text = _strictly(name, "utf-8")  # some programs write UTF-8 without the flag, among others
    if text is None:
        text = _strictly(name, encoding)
    return name.decode("cp437") if text is None else text


def _strictly(name: bytes, encoding: str) -> str | None:
    try:
        return name.decode(encoding)
    except UnicodeDecodeError:
        return None


def _likeliest(sample: bytes) -> str:
    is_western = len(_LONELY.findall(sample)) * 2 > len(_HIGH.findall(sample))
    best, encoding = 0.0, "cp437"
    for candidate, common in _WESTERN if is_western else _CHARSETS:
        if (text := _strictly(sample, candidate)) is None:
            continue
        odd = [character for character in text if character > "\x7f"]
        share = sum(common(character) for character in odd) / len(odd) if odd else 0.0
        if candidate in KOREAN and len(odd) < KOREAN_CHARACTERS:
            share -= 0.1
        if candidate in JAPANESE and _AMONG_LATIN.search(text):
            share /= 2
        if common is _is_cyrillic and _STRANGE_CYRILLIC.search(text):
            share /= 2
        if share > best:
            best, encoding = share, candidate
    return encoding


def _is_cyrillic(character: str) -> bool:
    return "\u0410" <= character <= "\u044f" or character in "ёЁіІїЇєЄ№"


def _is_accented(character: str) -> bool:
    return "\u00c0" <= character <= "\u017f" and character not in "×÷"


#: The earlier wins a tie.
_WESTERN: Final[tuple[Charset, ...]] = (("cp850", _is_accented), ("cp852", _is_accented), ("cp1252", _is_accented))
_CHARSETS: Final[tuple[Charset, ...]] = (
    ("cp866", _is_cyrillic),
    ("cp1251", _is_cyrillic),
    *(charset for charset in WIDE if charset[0] in ("cp932", "cp949", "gb18030", "big5")),  # what systems have used for names
    *_WESTERN,
)
