"""Files inside files: members of an archive, attachments of a mail. Each goes to the reader that knows it, on one budget."""

import io
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import BinaryIO, Final

from knowledge.errors import EmptySource, ReaderBudgetExceeded, SourceFault
from knowledge.model.documents import Document, ReadResult, SourceFile
from knowledge.model.status import Notice
from knowledge.pipeline.readers.port import Finding
from knowledge.pipeline.readers.reading import Reading
from knowledge.pipeline.readers.registry import ReaderRegistry

_ITS_OWN: Final = frozenset({"depth", "pixels", "pages"})  #: figures that say something about the inner file alone


def read_inside(stream: BinaryIO, name: str, outer: SourceFile) -> ReadResult:
    """What a file inside `outer` says, read by any installed reader.

    Args:
        name: what the inner file is called; its suffix is a hint.

    Raises:
        SourceFault: it cannot be read; see `ends_outer`.
    """
    try:
        outer.budget.enter()
        with tempfile.NamedTemporaryFile(prefix="knowledge-inside-") as file:
            shutil.copyfileobj(stream, file)
            file.flush()
            reading = Reading(outer.budget.budget)
            for event in _registry().events(Path(file.name), name, outer.budget):
                reading.take(event)
            return reading.result()
    finally:
        outer.budget.leave()


def attached(data: bytes, name: str, outer: SourceFile, place: str) -> Iterator[Finding]:
    """What a file that hangs on a mail says, under its name as a heading; one that cannot be read does not cost the mail.

    Args:
        place: where it hangs, as a locator.

    Raises:
        SourceFault: what both may take together is used up.
    """
    try:
        result = read_inside(io.BytesIO(data), name, outer)
    except SourceFault as error:
        if ends_outer(error):
            raise
        yield from told(error)
        return
    yield from sorted(result.notices - {Notice.NO_TEXT_EXTRACTED})
    for number, document in enumerate(result.documents):
        heading = f"## {name}\n\n" if number == 0 else ""
        yield replace(placed(document, place), text=heading + document.text)


def ends_outer(error: SourceFault) -> bool:
    """Whether a fault of an inner file is one of the outer file too: what they may take together is used up."""
    return isinstance(error, ReaderBudgetExceeded) and error.details.get("figure") not in _ITS_OWN


def told(error: SourceFault) -> frozenset[Notice]:
    """What the outer file says about an inner one that was not read; an empty one is whole."""
    return frozenset() if isinstance(error, EmptySource) else frozenset({Notice.PARTIAL_TEXT})


def placed(document: Document, place: str) -> Document:
    """A document of an inner file, located in the outer one."""
    inner = f"page {document.page}" if document.page is not None else document.locator
    return replace(document, page=None, locator=f"{place}, {inner}" if inner else place)


@cache
def _registry() -> ReaderRegistry:
    return ReaderRegistry.installed()
