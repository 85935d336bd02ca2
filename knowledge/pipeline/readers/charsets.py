"""Which old charset bytes are in, by the characters that people write with.

A charset of two bytes a character has a part of frequent characters and a larger one of rare ones; read in the wrong one, text
falls into the rare part. A language of Latin letters has few foreign ones of its own; read in the wrong charset, it has others.
Cyrillic words change their case in the middle. None of this needs long texts, as statistics of letter pairs do. What it cannot
tell is left to them: Greek, Arabic, Hebrew, Thai.
"""

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Final

_SAMPLE_BYTES: Final = 8 * 1024  #: more say nothing new
_SURE_WIDE: Final = 0.8  #: share of frequent characters among all foreign ones
_SURE_LATIN: Final = 0.97  #: share of the letters of one language among all foreign ones; the rest are signs
_SURE_CYRILLIC: Final = 0.95
_LEAST_FREQUENT: Final = 0.45  #: share of the frequent letters
_WITH_VOWEL: Final = 0.85  #: share of the words of three letters and more that have one
_FEWEST: Final = 3  #: foreign characters, below which a language is a guess
_FEWEST_CYRILLIC: Final = 12
_KANA_SHARE: Final = 0.05  #: of Japanese text at least
#: Korean syllables lie among the frequent characters of GB 2312; it takes so many to rule out chance.
KOREAN_CHARACTERS: Final = 4
_HANGUL_SHARE: Final = 0.85  #: of Korean text; Chinese text read as Korean has about half as much

#: Foreign small letters by language, most frequent languages first: they win where others have the same letters.
_ALPHABETS: Final = (
    "àâçéèêëîïôùûüÿœæ",  # French
    "äöüß",  # German
    "áéíñóúü",  # Spanish
    "ãõáàâçéêíóôúü",  # Portuguese
    "àèéìíîòóùú",  # Italian
    "åäöæøé",  # Swedish, Danish, Norwegian, Finnish
    "áéëïíóöúü",  # Dutch
    "ąćęłńóśźż",  # Polish
    "áčďéěíňóřšťúůýž",  # Czech
    "áäčďéíĺľňóôŕšťúýž",  # Slovak
    "áéíóöőúüű",  # Hungarian
    "çğıöşüâîû",  # Turkish
    "ăâîșțşţ",  # Romanian
    "čćđšž",  # Croatian, Slovene, Serbian
    "ąčęėįšųūž",  # Lithuanian
    "āčēģīķļņōŗšūž",  # Latvian
    "äöõüšž",  # Estonian
    "áðéíóúýþæö",  # Icelandic
)
_ALSO_CAPITAL: Final = "İŸ"  #: whose small letters are other ones, or none
_SIGNS: Final = "„“”‘’‚«»–—…•·°§©®€£¿¡ªº²³±×№µ\u00a0\u00ad"
_CYRILLIC: Final = ("cp1251", "koi8_u", "cp866", "iso8859_5", "mac_cyrillic")
_RUSSIAN: Final = frozenset("абвгдежзийклмнопрстуфхцчшщъыьэюяё" + "іїєґў" + "ђѓѕјљњћќџ")
_RUSSIAN_VOWELS: Final = frozenset("аеёиоуыэюяіїєъaeiou")
_FREQUENT_RUSSIAN: Final = frozenset("оеаинтсрвл")  #: make up more than half of a text in any Slavic language
_LATIN: Final = ("cp1252", "cp1250", "iso8859_2", "cp1254", "cp1257", "iso8859_15", "cp850", "cp852", "mac_roman")

_HIGH: Final = re.compile(rb"[\x80-\xff]")
#: A letter with an accent among plain ones, in the charsets of Windows and ISO.
_ACCENTED: Final = re.compile(rb"(?<![\x80-\xff])[\xc0-\xff](?![\x80-\xff])")
_WRONG_SIGN: Final = re.compile(r"(?<=[^\W\d_])(?:[„“…•«»©®](?=[^\W\d_])|[€£§°±×№¿¡])")
_WORD: Final = re.compile(r"[^\W\d_]{3,}")
#: A foreign letter, or two, beside a Latin one.
_AMONG_LATIN: Final = re.compile("(?<=[A-Za-z])[^\\x00-\\x7f]{1,2}|[^\\x00-\\x7f]{1,2}(?=[A-Za-z])")


def likeliest(sample: bytes) -> str | None:
    """The charset of some text that is not UTF-8, as Python names it; None if this knows no better than statistics."""
    sample = sample[:_SAMPLE_BYTES]
    return _wide(sample) or _latin(sample) or _cyrillic(sample)


def _wide(sample: bytes) -> str | None:
    """A charset of two bytes a character."""
    if len(_ACCENTED.findall(sample)) * 2 > len(_HIGH.findall(sample)):
        return None
    best, found = _SURE_WIDE, None
    for encoding, common in WIDE:
        text = whole(sample, encoding)
        if text is None or len(odd := foreign(text)) < 2:
            continue
        share = sum(map(common, odd)) / len(odd)
        if encoding in JAPANESE and sum(map(_is_kana, odd)) < len(odd) * _KANA_SHARE:
            share -= 0.1
        if encoding in KOREAN:  # with Chinese characters among the syllables
            share = 1.0 if share > _HANGUL_SHARE and len(odd) >= KOREAN_CHARACTERS else share - 0.1
        if share > best:
            best, found = share, encoding
    return found


def _latin(sample: bytes) -> str | None:
    western = whole(sample, "cp1252")
    if western is not None and not _letters(western) and 0 < len(foreign(western)) * 3 < len(western):
        return "cp1252"  # degrees, quotes and dashes
    best, found = _SURE_LATIN, None
    for encoding in _LATIN:
        text = whole(sample, encoding)
        if text is None or len(odd := _letters(text)) < _FEWEST:
            continue
        if sum(map(len, _AMONG_LATIN.findall(text))) < len(odd) * 0.6:  # words of some other script
            return None
        for alphabet in _ALPHABETS:
            share = sum(one in alphabet or one.lower() in alphabet or one in _ALSO_CAPITAL for one in odd) / len(odd)
            if share > best and _is_written(text):
                best, found = share, encoding
    return found


def _cyrillic(sample: bytes) -> str | None:
    best, found = 0.0, None
    for encoding in _CYRILLIC:
        text = whole(sample, encoding)
        if text is None or len(odd := _letters(text)) < _FEWEST_CYRILLIC:
            continue
        share = sum(one.lower() in _RUSSIAN for one in odd) / len(odd)
        frequent = sum(one in _FREQUENT_RUSSIAN for one in odd) / len(odd)
        words = _WORD.findall(text.lower())
        vowels = sum(not _RUSSIAN_VOWELS.isdisjoint(word) for word in words) / max(len(words), 1)
        if (
            share > _SURE_CYRILLIC
            and vowels > _WITH_VOWEL
            and frequent > _LEAST_FREQUENT
            and share + frequent > best
            and _is_written(text)
        ):
            best, found = share + frequent, encoding
    return found


def _letters(text: str) -> list[str]:
    """Its foreign letters. A sign in the middle of a word, or behind it, stands for a letter that was read wrongly."""
    return [*(one for one in foreign(text) if one not in _SIGNS), *_WRONG_SIGN.findall(text)]


def _is_written(text: str) -> bool:
    """Whether capitals stand where people put them: not behind a small letter."""
    inside = sum(before.islower() and one > "\x7f" and one.isupper() for before, one in pairwise(text))
    return inside * 50 <= len(foreign(text))


def whole(sample: bytes, encoding: str) -> str | None:
    """All of it decoded, but for a character cut off at the end."""
    for cut in (0, 1, 2):
        try:
            return sample[: len(sample) - cut].decode(encoding)
        except UnicodeDecodeError as error:
            if error.end < len(sample) - cut:
                return None
    return None


def foreign(text: str) -> list[str]:
    return [character for character in text if character > "\x7f"]


def _within(encoding: str, first: int, last: int) -> Callable[[str], bool]:
    """Characters whose code in a charset of two bytes lies in the rows of the frequent ones."""

    def common(character: str) -> bool:
        if character in _PUNCTUATION:
            return True
        try:
            code = character.encode(encoding)
        except UnicodeEncodeError:
            return False
        return len(code) == 2 and first <= int.from_bytes(code) <= last

    return common


def _is_kana(character: str) -> bool:
    return "\u3041" <= character <= "\u30fe"


def _is_japanese(character: str) -> bool:
    return _is_kana(character) or _JIS_FIRST_LEVEL(character)


def _is_korean(character: str) -> bool:
    return "\u3131" <= character <= "\u318e" or _SYLLABLES(character)


_PUNCTUATION: Final = frozenset("\u3000、。，．・：；？！（）「」『』【】《》〈〉“”‘’—…～·％")
_JIS_FIRST_LEVEL: Final = _within("cp932", 0x889F, 0x9872)
_SYLLABLES: Final = _within("euc_kr", 0xB0A1, 0xC8FE)

Charset = tuple[str, Callable[[str], bool]]
JAPANESE: Final = frozenset({"cp932", "euc_jp"})
KOREAN: Final = frozenset({"cp949", "johab"})
#: Charsets of two bytes a character, with their frequent characters. The earlier wins a tie.
WIDE: Final[tuple[Charset, ...]] = (
    ("cp932", _is_japanese),
    ("cp949", _is_korean),
    ("gb18030", _within("gb2312", 0xB0A1, 0xD7F9)),
    ("euc_jp", _is_japanese),
    ("big5", _within("big5", 0xA440, 0xC67E)),
    ("johab", _is_korean),
)
