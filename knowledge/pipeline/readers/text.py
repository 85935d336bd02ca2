"""Plain text, Markdown and source code, verbatim: a citation must be found in the file as it stands."""

from collections.abc import Iterator
from typing import ClassVar

from knowledge.model.documents import Document, SourceFile
from knowledge.pipeline.readers.decoding import decode
from knowledge.pipeline.readers.media_type import MARKDOWN, PLAIN, PLAIN_SUFFIXES
from knowledge.pipeline.readers.port import Finding


class TextReader:
    """One document, the whole file."""

    name: ClassVar[str] = "text"
    suffixes: ClassVar[frozenset[str]] = PLAIN_SUFFIXES | {".md", ".markdown", ".mdx"}

    def score(self, source: SourceFile) -> int | None:
        if source.media_type in (PLAIN, MARKDOWN):
            return 10
        return 1 if source.media_type.startswith("text/") else None  # better than nothing for a kind of text without a reader

    def read(self, source: SourceFile) -> Iterator[Finding]:
        decoded = decode(source.path.read_bytes())
        yield from decoded.findings()
        yield Document(decoded.text)
