"""The language of a text, where a look at it leaves no doubt; for people to read, never for deciding what is found.

Scripts that one language writes decide alone. Among languages in Latin letters the small words do that no text of any length
goes without.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

SAMPLE_CHARACTERS: Final = 5_000
_LEAST_LETTERS: Final = 20
_LEAST_WORDS: Final = 5  #: small words of the language
_LEAST_SHARE: Final = 0.08  #: of all words
_AHEAD: Final = 1.3  #: times as many small words as the next language has

_SCRIPTS: Final = (  # in this order: Japanese writes with Han characters as well
    ("ja", re.compile(r"[\u3041-\u30ff]")),
    ("ko", re.compile(r"[\uac00-\ud7a3]")),
    ("zh", re.compile(r"[\u4e00-\u9fff]")),
    ("th", re.compile(r"[\u0e01-\u0e4e]")),
    ("el", re.compile(r"[\u0370-\u03ff]")),
    ("he", re.compile(r"[\u05d0-\u05ea]")),
    ("hy", re.compile(r"[\u0531-\u0587]")),
    ("ka", re.compile(r"[\u10d0-\u10ff]")),
)
_WORD: Final = re.compile(r"[^\W\d_]+")
_SHARES: Final = {"ja": 0.1}  #: of all letters; the others must have half of them
_SMALL_WORDS: Final = {
    "da": "og er ikke af der jeg det til på som med har havde hvad fra",
    "de": "der die das und ist nicht mit von auf den dem ein eine für sich auch wird",
    "en": "to in a the and of is that was for with are this from which by be not",
    "es": "de la en a no o fue sus entre el los las y que una por con del para como más pero su se lo",
    "fr": "de la en ne il elle le les et des est une dans pour que qui sur du au par pas avec",
    "it": "la in a il gli che di per una della nel sono con non dei alla più anche",
    "la": "et in ut sed non ad est ex quis sit amet ac nec cum qui ab vel at",  # filler texts, mostly
    "nl": "de het een en van ik niet dat zijn met voor op te werd ook",
    "pl": "się nie jest że na jak do przez dla oraz był tym są ale",
    "pt": "de no a o os as e que uma não do da em para com por mais foi ao dos",
    "sv": "och att det som är en på för med inte av till den har",
}
_BY_WORD: Final = {
    word: frozenset(language for language, words in _SMALL_WORDS.items() if word in words.split())
    for words in _SMALL_WORDS.values()
    for word in words.split()
}


def language(texts: Iterable[str]) -> str | None:
    """ISO 639-1, or None where it is not clear; looks at the beginning only."""
    sample = _beginning(texts)
    words = Counter(_WORD.findall(sample.lower()))
    letters = sum(len(word) * times for word, times in words.items())
    if letters < _LEAST_LETTERS:
        return None
    for code, script in () if sample.isascii() else _SCRIPTS:
        if len(script.findall(sample)) >= letters * _SHARES.get(code, 0.5):
            return code
    counts: Counter[str] = Counter()
    for word in _BY_WORD.keys() & words.keys():
        for code in _BY_WORD[word]:
            counts[code] += words[word]
    (best, most), (_, next_most) = (*counts.most_common(2), ("", 0), ("", 0))[:2]
    if most < max(_LEAST_WORDS, words.total() * _LEAST_SHARE):
        return None
    return best if most >= next_most * _AHEAD else None


def _beginning(texts: Iterable[str]) -> str:
    parts, left = [], SAMPLE_CHARACTERS
    for text in texts:
        parts.append(text[:left])
        left -= len(parts[-1])
        if left <= 0:
            break
    return " ".join(parts)
