"""Documents made from a seed: titled paragraphs of made-up words, as frequent and as long as those of a language."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from knowledge.model.documents import Chunking

CHUNKING: Final = Chunking(size=200, overlap=0)  #: about 800 characters: three chunks of 2 KB

_VOCABULARY: Final = 20_000
_SENTENCE_WORDS: Final = 12
_PARAGRAPH_SENTENCES: Final = 5


def documents(count: int, *, size_bytes: int, seed: int) -> list[str]:
    """So many different ASCII texts of that size, to the byte."""
    words = _words(np.random.default_rng(seed), count * size_bytes)
    return [_document(number, words, size_bytes) for number in range(count)]


def _words(rng: np.random.Generator, total_bytes: int) -> Iterator[str]:
    """Endless; frequencies fall as 1 / (rank + 2.7) (Zipf and Mandelbrot), frequent words are short."""
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    ranks = np.arange(_VOCABULARY)
    lengths = np.clip(rng.normal(2 + np.log10(ranks + 1) * 1.5, 1.2), 1, 14).astype(int)
    lexicon = np.array(["".join(rng.choice(letters, size)) for size in lengths])
    frequency = 1 / (ranks + 2.7)
    while True:
        yield from lexicon[rng.choice(_VOCABULARY, size=total_bytes // 4, p=frequency / frequency.sum())].tolist()


def _document(number: int, words: Iterator[str], size_bytes: int) -> str:
    parts = [f"# Document {number}\n\n"]
    size, sentence = len(parts[0]), 0
    while size < size_bytes:
        sentence += 1
        end = ".\n\n" if sentence % _PARAGRAPH_SENTENCES == 0 else ". "
        parts.append(" ".join(next(words) for _ in range(_SENTENCE_WORDS)).capitalize() + end)
        size += len(parts[-1])
    return "".join(parts)[: size_bytes - 1].rstrip().ljust(size_bytes - 1, ".") + "\n"
