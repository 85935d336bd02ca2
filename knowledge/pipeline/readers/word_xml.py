"""Word documents as one XML text: the form of Word 2003, and the flat form of later versions."""

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar

from knowledge.errors import CorruptSource
from knowledge.model.documents import Document, SourceFile
from knowledge.pipeline.readers import docx
from knowledge.pipeline.readers.media_type import WORD_XML
from knowledge.pipeline.readers.ooxml import Element, Package, attribute, child, local, parsed
from knowledge.pipeline.readers.port import Finding


class WordXmlReader:
    """One document."""

    name: ClassVar[str] = "word-xml"
    suffixes: ClassVar[frozenset[str]] = frozenset()  #: mostly `.doc` or `.xml`, which other readers claim

    def score(self, source: SourceFile) -> int | None:
        return 10 if source.media_type == WORD_XML else None

    def read(self, source: SourceFile) -> Iterator[Finding]:
        data = source.path.read_bytes()
        source.budget.inflate(len(data))
        root = parsed(data, source.name)
        if local(root) == "package":
            yield Document(docx.text(Package(_Flat(root))))
        elif child(root, "body") is not None:
            yield Document(docx.text_of_2003(root))
        else:
            raise CorruptSource("This XML text is no Word document.", root=local(root))


class _Flat:
    """The parts of a flat package, as if they lay in an archive."""

    def __init__(self, root: Element) -> None:
        self._parts = {attribute(part, "name") or "": part for part in root if local(part) == "part"}
        self.entries: Mapping[str, object] = self._parts

    def read(self, name: str) -> bytes:
        from lxml import etree

        data = child(self._parts[name], "xmlData")
        return etree.tostring(data[0]) if data is not None and len(data) else b""

    @contextmanager
    def opened(self, name: str) -> Iterator[io.BytesIO]:
        yield io.BytesIO(self.read(name))
