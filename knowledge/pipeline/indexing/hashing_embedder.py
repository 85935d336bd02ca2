"""A test double that real workers can run: vectors from word hashes, at almost no cost, the same on every machine.

It knows words, not meanings: two texts are near if they share words. For tests and benches; a base that wants only that is
better off without an embedder, because the lexical lane does the same with better ranking.
"""

import re
import zlib
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

import numpy as np

from knowledge.model.documents import EmbedderSpec, EmbeddingUse, Vector, Vectors
from knowledge.pipeline.indexing.embedder import EmbeddedBatch
from knowledge.pipeline.indexing.registry import EmbedderKind

BATCH_TEXTS: Final = 64
MAX_REMEMBERED_WORDS: Final = 1 << 17  #: about 15 MB a process

_WORD: Final = re.compile(r"\w+")
_UNSPACED_RUN: Final = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]{2,}")


class HashingEmbedder:
    """Each word adds +1 or -1 at a place that its CRC-32 chooses; the sum is scaled to length 1."""

    def __init__(self, spec: EmbedderSpec) -> None:
        self.spec = spec
        self._codes = _Codes()

    def embed(self, texts: Sequence[str]) -> Iterator[EmbeddedBatch]:
        for start in range(0, len(texts), BATCH_TEXTS):
            batch = texts[start : start + BATCH_TEXTS]
            vectors, words = self._embed(batch)
            yield EmbeddedBatch(
                positions=range(start, start + len(batch)),
                vectors=vectors,
                use=EmbeddingUse(texts=len(batch), tokens=None, estimated_tokens=words),
            )

    def embed_query(self, text: str) -> Vector:
        vector: Vector = self._embed([text])[0][0]
        return vector

    def _embed(self, batch: Sequence[str]) -> tuple[Vectors, int]:
        """The vectors, and the number of words, which are this model's tokens. All texts at once: numpy costs by the call."""
        width = self.spec.dimensions
        code_of = self._codes.__getitem__
        by_text = [list(map(code_of, _features(text))) for text in batch]
        counts = [len(codes) for codes in by_text]
        codes = np.fromiter(chain.from_iterable(by_text), dtype=np.int64, count=sum(counts))
        row = np.repeat(np.arange(len(batch)) * width, counts)
        summed = np.bincount(row + (codes >> 1) % width, weights=1 - 2 * (codes & 1), minlength=len(batch) * width)
        vectors = summed.reshape(len(batch), width).astype(np.float32)
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        for text in np.flatnonzero(lengths == 0):  # opposite words cancelled each other out
            vectors[text, (by_text[text][0] >> 1) % width] = lengths[text] = 1.0
        vectors /= lengths[:, np.newaxis]
        return vectors, len(codes)


class _Codes(dict[str, int]):
    """CRC-32 by word, remembered."""

    def __missing__(self, word: str) -> int:
        code = zlib.crc32(word.encode("utf-8", "surrogatepass"))
        if len(self) < MAX_REMEMBERED_WORDS:
            self[word] = code
        return code


def _features(text: str) -> list[str]:
    folded = text.casefold()
    words = _WORD.findall(folded)
    if not folded.isascii():
        for run in _UNSPACED_RUN.findall(folded):
            words.extend(run[place : place + 2] for place in range(len(run) - 1))
    return words or [folded]


KIND: Final = EmbedderKind(open=HashingEmbedder, required=frozenset(), defaults={"dimensions": 384, "model": "word-hashes-1"})
