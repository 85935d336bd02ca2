"""The words of a drawing (SVG): its title and description, and the lines of text in it; no shapes and no scripts."""

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from knowledge.model.documents import Document, SourceFile
from knowledge.pipeline.readers.media_type import SVG
from knowledge.pipeline.readers.port import Finding
from knowledge.pipeline.readers.xml import parsed

_SAID: Final = frozenset({"title", "desc", "text"})
_UNSEEN: Final = frozenset({"script", "style", "metadata"})

_Element = Any  #: lxml has no types of its own


class SvgReader:
    """One document; a drawing without words gives none."""

    name: ClassVar[str] = "svg"
    suffixes: ClassVar[frozenset[str]] = frozenset({".svg"})

    def score(self, source: SourceFile) -> int | None:
        return 10 if source.media_type == SVG else None

    def read(self, source: SourceFile) -> Iterator[Finding]:
        yield Document("\n".join(_lines(parsed(source.path.read_bytes()))))


def _lines(root: _Element) -> Iterator[str]:
    """Depth first without recursion."""
    pending = [root]
    while pending:
        element = pending.pop()
        name = element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""
        if name in _SAID:
            text = "\n".join(_runs(element)) if name == "text" else " ".join("".join(element.itertext()).split())
            if text:
                yield text
        elif name == "foreignObject":
            yield from filter(None, (" ".join(text.split()) for text in element.itertext()))
        elif name and name not in _UNSEEN:
            pending.extend(reversed(element))


def _runs(text: _Element) -> Iterator[str]:
    """Lines of one text: a piece that is placed by itself, further down, begins a new one."""
    line = [text.text or ""]
    for piece in text:
        if isinstance(piece.tag, str) and ("y" in piece.attrib or "dy" in piece.attrib) and "".join(line).strip():
            yield " ".join("".join(line).split())
            line = []
        line += [*(piece.itertext() if isinstance(piece.tag, str) else ()), piece.tail or ""]
    if rest := " ".join("".join(line).split()):
        yield rest
