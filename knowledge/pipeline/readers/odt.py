"""OpenDocument texts as Markdown: body, then notes and comments, headers and footers.

Of tracked changes the text as it is now.
"""

from collections.abc import Iterator
from typing import ClassVar

from knowledge.model.documents import Document, SourceFile
from knowledge.pipeline.readers.markdown import joined
from knowledge.pipeline.readers.media_type import ODT
from knowledge.pipeline.readers.odf import Flow, headers_and_footers, opened
from knowledge.pipeline.readers.port import Finding


class OdtReader:
    """One document."""

    name: ClassVar[str] = "odt"
    suffixes: ClassVar[frozenset[str]] = frozenset({".odt", ".ott", ".fodt"})

    def score(self, source: SourceFile) -> int | None:
        return 10 if source.media_type in (ODT, f"{ODT}-template", f"{ODT}-master") else None

    def read(self, source: SourceFile) -> Iterator[Finding]:
        with opened(source) as document:
            flow = Flow(document)
            blocks = list(flow.blocks(document.body("text")))
            margins = list(headers_and_footers(flow, document.styles))
            yield Document(joined([*blocks, *flow.notes(), *margins]))
