"""What an embedder is. Ours and other people's come through the entry point group `knowledge.embedders`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from knowledge.model.documents import EmbedderSpec, EmbeddingUse, Vector, Vectors


@dataclass(frozen=True, slots=True)
class EmbeddedBatch:
    """One answer of the model: `vectors[i]` belongs to the text at `positions[i]` of the request."""

    positions: Sequence[int]
    vectors: Vectors  #: float32, shape (len(positions), dimensions)
    use: EmbeddingUse


class Embedder(Protocol):
    spec: EmbedderSpec

    def embed(self, texts: Sequence[str]) -> Iterator[EmbeddedBatch]:
        """Vectors of document texts, one batch at a time.

        Lazy: the next request is sent only when the next batch is asked for, so that the caller can store what has been paid
        for, and stop, in between. Together the batches cover each position exactly once, in any order. An answer of which
        nothing can be used is a batch without positions, for what it cost; the error follows.

        Raises:
            EmbeddingFault: one of its kinds; batches yielded before stay valid.
        """
        ...

    def embed_query(self, text: str) -> Vector:
        """The vector of a question, float32, shape (dimensions,)."""
        ...


@runtime_checkable
class MeasuresInput(Protocol):
    """An embedder that knows its own tokenizer: the chunker asks it, so that no text is longer than the model reads."""

    def longest_prefix(self, text: str) -> int:
        """How many characters of `text`, from its start, the model takes whole; `len(text)` if all of it.

        If it takes `text[:n]`, it takes `text[:m]` for every smaller `m` beside white space: no token spans white space.
        """
        ...
