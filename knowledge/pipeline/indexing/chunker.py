"""Documents in, the item's whole text and its numbered search units out."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from knowledge.model.documents import Chunking, Document, EmbedderSpec, Unit
from knowledge.pipeline.indexing import splitter
from knowledge.pipeline.indexing.embedder import MeasuresInput
from knowledge.pipeline.indexing.splitter import Span

DOCUMENT_BREAK: Final = "\n\n"  #: between two documents of one item

_BOUNDARIES: Final = tuple(  # where an oversized chunk is cut, best first: the place after the match
    re.compile(pattern) for pattern in (r"\n[ \t]*\n", r"\n", r"[。！？]", r"[.!?](?=\s)", r"[;；]", r"[,，、]", r"[ \t]")
)


class Chunks(NamedTuple):
    text: str  #: all documents, joined by a blank line
    units: list[Unit]


def split(documents: Iterable[Document], chunking: Chunking, measure: MeasuresInput | None = None) -> Chunks:
    """Cut an item's documents into units.

    Args:
        chunking: what the base asks for, as `effective` limits it to the base's embedder.
        measure: the embedder, if it can tell how much of a text it takes; a chunk that is too long for it is cut again, so
            that nothing is left out silently.

    Returns:
        The whole text, and units numbered 0, 1, 2 …; each is a verbatim slice of the text, lies inside one document, is not
        blank, and has no whitespace at either end. No documents: an empty text and no units.
    """
    parts: list[str] = []
    units: list[Unit] = []
    offset = 0
    for document in documents:
        if parts:
            offset += len(DOCUMENT_BREAK)
        for span in _spans(document.text, chunking, measure):
            units.append(
                Unit(
                    index=len(units),
                    text=document.text[span.start : span.end],
                    char_start=offset + span.start,
                    char_end=offset + span.end,
                    page=document.page,
                    locator=document.locator,
                )
            )
        parts.append(document.text)
        offset += len(document.text)
    return Chunks(DOCUMENT_BREAK.join(parts), units)


def effective(chunking: Chunking, spec: EmbedderSpec | None) -> Chunking:
    """The chunking that fits an embedder: its input limit if that is smaller, with the overlap in the same proportion.

    A base without embedder (None) keeps its own.
    """
    if spec is None or chunking.size <= spec.max_input_tokens:
        return chunking
    size = max(spec.max_input_tokens, 1)
    return replace(chunking, size=size, overlap=min(chunking.overlap * size // chunking.size, size - 1))


def _spans(text: str, chunking: Chunking, measure: MeasuresInput | None) -> Iterator[Span]:
    spans = splitter.split(
        text,
        size=chunking.size,
        overlap=chunking.overlap,
        strategy=chunking.strategy,
        separator=chunking.separator,
    )
    if measure is None:
        yield from spans
        return
    share = min(chunking.overlap / chunking.size, 0.5)
    for span in spans:
        yield from _fitted(text, span, share, measure)


def _fitted(text: str, span: Span, overlap_share: float, measure: MeasuresInput) -> Iterator[Span]:
    """`span`, or the pieces of it that the model takes whole."""
    start, covered = span.start, 0
    while start < span.end:
        end = _fitting_end(text, start, span.end, measure)
        piece = splitter.trimmed(text, start, end)
        if piece is not None and piece.end > covered:  # else all of it lies in the piece before
            yield piece
            covered = piece.end
        if end >= span.end:
            return
        following = splitter.before_cluster(text, end - int((end - start) * overlap_share), start)
        start = following if start < following < end else end


def _fitting_end(text: str, start: int, limit: int, measure: MeasuresInput) -> int:
    """The last good place to cut so that `text[start:place]` fits; at least one character on."""
    end = limit
    while True:
        fits = max(measure.longest_prefix(text[start:end]), 1)
        if start + fits >= end:
            return end
        # a cut may change how the last word falls into tokens, so what is left is measured again
        end = _nice_end(text, start, start + fits)


def _nice_end(text: str, start: int, end: int) -> int:
    half = start + (end - start) // 2
    for boundary in _BOUNDARIES:
        last = None
        for last in boundary.finditer(text, half, end):  # noqa: B007  (the last match is what counts)
            pass
        if last is not None and last.end() > start:
            return splitter.before_cluster(text, last.end(), start)
    return splitter.before_cluster(text, end, start)
