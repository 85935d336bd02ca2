"""XML of any kind: the text between the tags, one line for each innermost element or run of mixed text."""

from collections.abc import Iterator
from typing import Any, ClassVar

from knowledge.model.documents import Document, SourceFile
from knowledge.pipeline.readers.decoding import decode
from knowledge.pipeline.readers.media_type import XML
from knowledge.pipeline.readers.port import Finding

_Element = Any  #: lxml has no types of its own


class XmlReader:
    """One document. An element without text shows its attributes instead; a file that is not well formed is read as it stands.

    No entity is resolved but the five of XML itself: others can name files of this machine, or grow without end.
    """

    name: ClassVar[str] = "xml"
    suffixes: ClassVar[frozenset[str]] = frozenset({".xml"})

    def score(self, source: SourceFile) -> int | None:
        return 10 if source.media_type == XML else None

    def read(self, source: SourceFile) -> Iterator[Finding]:
        from lxml import etree

        data = source.path.read_bytes()
        parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True, remove_pis=True)
        try:
            root = etree.fromstring(data, parser)
        except etree.XMLSyntaxError:
            decoded = decode(data)
            yield from decoded.findings()
            yield Document(decoded.text)
        else:
            yield Document("\n".join(_lines(root)))


def _lines(root: _Element) -> Iterator[str]:
    """Depth first without recursion."""
    pending = [root]
    while pending:
        element = pending.pop()
        if not isinstance(element.tag, str):  # an entity that was not resolved
            continue
        if len(element) and not _is_mixed(element):
            pending.extend(reversed(element))
        elif text := " ".join("".join(element.itertext()).split()):
            yield text
        elif element.attrib:
            yield ", ".join(f"{key.rpartition('}')[2]}: {value}" for key, value in element.attrib.items())


def _is_mixed(element: _Element) -> bool:
    return bool((element.text or "").strip()) or any((child.tail or "").strip() for child in element)
