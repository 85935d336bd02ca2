"""Documents in, the item's whole text and its numbered search units out."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, groupby
from typing import Final, NamedTuple

from knowledge.model.documents import Checkpoint, Chunking, Document, EmbedderSpec, Unit
from knowledge.pipeline.indexing import splitter
from knowledge.pipeline.indexing.embedder import MeasuresInput
from knowledge.pipeline.indexing.splitter import Span
from knowledge.pipeline.indexing.tokens import estimate_tokens

DOCUMENT_BREAK: Final = "\n\n"  #: between two documents of one item

_BOUNDARIES: Final = tuple(  # where an oversized chunk is cut, best first: the place after the match
    re.compile(pattern) for pattern in (r"\n[ \t]*\n", r"\n", r"[。！？]", r"[.!?](?=\s)", r"[;；]", r"[,，、]", r"[ \t]")
)


_SPANS_PER_LOOK: Final = 64  #: between two looks at the checkpoint; an embedder's own count takes some 0.2 ms for each


class Chunks(NamedTuple):
    text: str  #: all documents, joined by a blank line
    units: list[Unit]


def split(
    documents: Iterable[Document],
    chunking: Chunking,
    measure: MeasuresInput | None = None,
    checkpoint: Checkpoint = lambda: None,
) -> Chunks:
    """Cut an item's documents into units. Small records are put together, as many whole ones as a chunk takes.

    Args:
        chunking: what the base asks for, as `effective` limits it to the base's embedder.
        measure: the embedder, if it can tell how much of a text it takes; a chunk that is too long for it is cut again, so
            that nothing is left out silently.
        checkpoint: called every few units, and for each document or row of small records.

    Returns:
        The whole text, and units numbered 0, 1, 2 …; each is a verbatim slice of the text, lies inside one document or holds
        several records, is not blank, and has no whitespace at either end. No documents: an empty text and no units.

    Raises:
        Interrupted: from `checkpoint`.
    """
    parts: list[str] = []
    units: list[Unit] = []
    offset = 0
    for (page, locator, shares), found in groupby(documents, key=_place):
        texts = [document.text for document in found]
        for pieces in [texts] if shares else [[text] for text in texts]:
            checkpoint()
            text = DOCUMENT_BREAK.join(pieces)
            if parts:
                offset += len(DOCUMENT_BREAK)
            cut = _records(text, pieces, chunking, measure) if shares else _spans(text, 0, len(text), chunking, measure)
            for span in cut:
                if len(units) % _SPANS_PER_LOOK == 0:
                    checkpoint()
                units.append(
                    Unit(len(units), text[span.start : span.end], offset + span.start, offset + span.end, page, locator)
                )
            parts.append(text)
            offset += len(text)
    return Chunks(DOCUMENT_BREAK.join(parts), units)


def effective(chunking: Chunking, spec: EmbedderSpec | None) -> Chunking:
    """The chunking that fits an embedder: its input limit if that is smaller, with the overlap in the same proportion.

    A base without embedder (None) keeps its own.
    """
    if spec is None or chunking.size <= spec.max_input_tokens:
        return chunking
    size = max(spec.max_input_tokens, 1)
    return replace(chunking, size=size, overlap=min(chunking.overlap * size // chunking.size, size - 1))


def _place(document: Document) -> tuple[int | None, str | None, bool]:
    return document.page, document.locator, document.shares


def _records(text: str, records: Sequence[str], chunking: Chunking, measure: MeasuresInput | None) -> Iterator[Span]:
    """As many whole records a chunk as it takes; they do not overlap. One that is too long is cut like any text."""
    room = chunking.size * len(text) / max(estimate_tokens(text), 1)
    ends = [end - len(DOCUMENT_BREAK) for end in accumulate(len(record) + len(DOCUMENT_BREAK) for record in records)]
    first = start = 0
    while first < len(ends):
        after = bisect_right(ends, start + room, first)  # the first record that has no place any more
        while measure is not None and after > first:
            fits = start + measure.longest_prefix(text[start : ends[after - 1]])
            if fits >= ends[after - 1]:
                break
            after = bisect_right(ends, fits, first, after - 1)
        while after > first and (tokens := estimate_tokens(text[start : ends[after - 1]])) > chunking.size:
            # `room` is an average: these are of more tokens than others, in another script for example.
            after = bisect_right(ends, start + (ends[after - 1] - start) * chunking.size / tokens, first, after - 1)
        if after > first:
            span = splitter.trimmed(text, start, ends[after - 1])
            yield from [] if span is None else [span]
        else:
            after = first + 1
            yield from _spans(text, start, ends[first], chunking, measure)
        first, start = after, ends[after - 1] + len(DOCUMENT_BREAK)


def _spans(text: str, start: int, end: int, chunking: Chunking, measure: MeasuresInput | None) -> Iterator[Span]:
    share = min(chunking.overlap / chunking.size, 0.5)
    for span in splitter.split(
        text[start:end],
        size=chunking.size,
        overlap=chunking.overlap,
        strategy=chunking.strategy,
        separator=chunking.separator,
    ):
        moved = Span(start + span.start, start + span.end)
        if measure is None:
            yield moved
        else:
            yield from _fitted(text, moved, share, measure)


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
        end = _nice_end(text, start, start + fits)
        if text[end - 1].isspace() or text[end].isspace():
            return end
        # a cut may change how the last word falls into tokens, so what is left is measured again


def _nice_end(text: str, start: int, end: int) -> int:
    half = start + (end - start) // 2
    for boundary in _BOUNDARIES:
        last = None
        for last in boundary.finditer(text, half, end):  # noqa: B007  (the last match is what counts)
            pass
        if last is not None and last.end() > start:
            return splitter.before_cluster(text, last.end(), start)
    return splitter.before_cluster(text, end, start)
