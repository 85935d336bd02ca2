"""Word files as Markdown: paragraphs and tables in the order of the text, then notes, comments, headers and footers.

Of tracked changes the text as it would be accepted: insertions stay, deletions go.
"""

import posixpath
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import ClassVar, Final

from knowledge.errors import CorruptSource, SourceFault
from knowledge.model.documents import Document, SourceFile
from knowledge.model.status import Notice
from knowledge.pipeline.readers.drawing import graphic
from knowledge.pipeline.readers.inside import ends_outer, read_inside, told
from knowledge.pipeline.readers.markdown import joined, table
from knowledge.pipeline.readers.media_type import DOCX
from knowledge.pipeline.readers.ooxml import Element, Package, attribute, child, chosen, local, opened

_GONE: Final = frozenset(
    {"del", "moveFrom", "instrText", "delText", "delInstrText", "rt", "rPr", "pPr", "tblPr", "sectPr", "binData"}
)
_TEXT: Final = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "\u2011", "ptab": "\t"}
_HEADING_LEVELS: Final = 6


class DocxReader:
    """One document."""

    name: ClassVar[str] = "docx"
    suffixes: ClassVar[frozenset[str]] = frozenset({".docx", ".docm"})

    def score(self, source: SourceFile) -> int | None:
        return 10 if source.media_type == DOCX else None

    def read(self, source: SourceFile) -> Iterator[Document | Notice]:
        with opened(source) as package:
            notices: set[Notice] = set()
            yield Document(text(package, lambda name: _chunk(package, name, source, notices)))
            yield from notices


def text(package: Package, chunk: Callable[[str], str] = lambda name: "") -> str:
    """All of a Word file.

    Args:
        chunk: the text of a part in another format, by its name, that stands in the place of paragraphs.

    Raises:
        CorruptSource, EncryptedSource, ReaderBudgetExceeded
    """
    main = package.main_part("word/document.xml")
    root = package.xml(main)
    if root is None:
        raise CorruptSource("This Word file has no text part.", part=main)
    related = package.relationships(main)
    parts = {one.id: one.target for one in related}
    levels = _heading_levels([package.xml(one.target) for one in related if one.kind == "styles"])

    def elsewhere(element: Element) -> str:
        if local(element) == "altChunk":
            return chunk(parts.get(attribute(element, "id") or "", ""))
        return graphic(package, element, parts)

    body = _Body(levels, elsewhere)
    blocks = list(body.blocks(root))
    for kind, mark in (("footnotes", "^"), ("endnotes", "^e"), ("comments", "")):
        for one in related:
            if one.kind == kind and (part := package.xml(one.target)) is not None:
                blocks += _notes(body, part, mark)
    for kind in ("header", "footer"):
        found = [
            joined(body.blocks(part)) for one in related if one.kind == kind and (part := package.xml(one.target)) is not None
        ]
        blocks += dict.fromkeys(text for text in found if text.strip())  # each once, though every section has its own
    return joined(blocks)


def _chunk(package: Package, name: str, source: SourceFile, notices: set[Notice]) -> str:
    """HTML mostly: some programs put all they write into one such part."""
    data = package.bytes(name)
    if data is None:
        return ""
    try:
        result = read_inside(BytesIO(data), posixpath.basename(name), source)
    except SourceFault as error:
        if ends_outer(error):
            raise
        notices |= told(error)
        return ""
    notices |= result.notices - {Notice.NO_TEXT_EXTRACTED}
    return "\n\n".join(document.text for document in result.documents)


def text_of_2003(root: Element) -> str:
    """All of a document in the XML form of Word 2003, whose notes, headers and footers stand where they belong to."""
    body = _Body(_heading_levels([one for one in root if local(one) == "styles"]))
    blocks = list(body.blocks(child(root, "body")))
    margins = [joined(body.blocks(one)) for one in root.iter("{*}hdr", "{*}ftr")]
    return joined([*blocks, *body.notes, *dict.fromkeys(text for text in margins if text.strip())])


def _notes(body: "_Body", part: Element, mark: str) -> Iterator[str]:
    for note in part:
        text = joined(body.blocks(note))
        if text.strip() and attribute(note, "type") not in ("separator", "continuationSeparator", "continuationNotice"):
            author = attribute(note, "author")
            name = f"{mark}{attribute(note, 'id') or ''}" if mark else f"comment by {author}" if author else "comment"
            yield f"[{name}]: {text}"


def _heading_levels(parts: list[Element | None]) -> dict[str, int]:
    """Style id to heading level 1…6, from outline levels or names, also inherited."""
    own: dict[str, int] = {}
    based_on: dict[str, str] = {}
    for part in parts:
        for style in part if part is not None else ():
            style_id = attribute(style, "styleId")
            if style_id is None:
                continue
            for element in style.iter():
                value = attribute(element, "val") or ""
                match local(element):
                    case "basedOn":
                        based_on[style_id] = value
                    case "outlineLvl" if value.isdecimal() and int(value) < _HEADING_LEVELS:
                        own[style_id] = int(value) + 1
                    case "name" if value.lower() == "title":
                        own.setdefault(style_id, 1)
                    case "name" if value.lower().startswith("heading ") and value[8:].isdecimal():
                        own.setdefault(style_id, min(int(value[8:]), _HEADING_LEVELS))
    for style_id in based_on:
        ancestor, seen = style_id, {style_id}
        while ancestor not in own and based_on.get(ancestor) and based_on[ancestor] not in seen:
            ancestor = based_on[ancestor]
            seen.add(ancestor)
        if ancestor in own:
            own.setdefault(style_id, own[ancestor])
    return own


class _Body:
    """Turns block elements into Markdown blocks."""

    def __init__(self, levels: dict[str, int], elsewhere: Callable[[Element], str] = lambda element: "") -> None:
        self._levels, self._elsewhere = levels, elsewhere
        self.notes: list[str] = []  #: met inside the text, as only Word 2003 writes them

    def blocks(self, parent: Element) -> Iterator[str]:
        for element in parent:
            match local(element):
                case "p":
                    yield from self._paragraph(element)
                case "tbl":
                    yield from self._table(element)
                case "AlternateContent":
                    yield from self.blocks(chosen(element))
                case "altChunk":
                    yield self._elsewhere(element)
                case "annotation" if _is_apart(element):
                    self._annotation(element)
                case name if name not in _GONE:  # body, sdt, sdtContent, ins, customXml …: only what they hold counts
                    yield from self.blocks(element)

    def _paragraph(self, paragraph: Element) -> Iterator[str]:
        inner: list[str] = []
        text = "".join(self._inline(paragraph, inner)).strip()
        if text:
            yield self._prefix(paragraph) + text
        yield from inner

    def _inline(self, parent: Element, inner: list[str]) -> Iterator[str]:
        """Text of the runs below an element; boxes and tables among them go to `inner`, to follow the paragraph."""
        for element in parent:
            name = local(element)
            match name:
                case "t":
                    yield element.text or ""
                case "footnoteReference" | "endnoteReference":
                    yield f"[{'^' if name[0] == 'f' else '^e'}{attribute(element, 'id') or ''}]"
                case "txbxContent":
                    inner.extend(self.blocks(element))
                case "tbl":
                    inner.extend(self._table(element))
                case "AlternateContent":
                    yield from self._inline(chosen(element), inner)
                case "textpath":  # words drawn along a line: watermarks are made so
                    inner.append((attribute(element, "string") or "").strip())
                case "chart" | "relIds":
                    inner.append(self._elsewhere(element))
                case "footnote" | "endnote":
                    yield f"[^{len(self.notes) + 1}]"
                    self.notes.append(f"[^{len(self.notes) + 1}]: {joined(self.blocks(element))}")
                case "annotation" if _is_apart(element):
                    self._annotation(element)
                case _ if name in _TEXT:
                    yield _TEXT[name]
                case _ if name not in _GONE:
                    yield from self._inline(element, inner)

    def _annotation(self, element: Element) -> None:
        if (attribute(element, "type") or "").endswith("Comment") and (text := joined(self.blocks(element))).strip():
            author = attribute(element, "author")
            self.notes.append(f"[comment{f' by {author}' if author else ''}]: {text}")

    def _prefix(self, paragraph: Element) -> str:
        level, list_level = 0, -1
        for properties in paragraph:
            if local(properties) != "pPr":
                continue
            for element in properties:
                match local(element):
                    case "pStyle":
                        level = level or self._levels.get(attribute(element, "val") or "", 0)
                    case "outlineLvl" if (value := attribute(element, "val") or "").isdecimal():
                        level = int(value) + 1 if int(value) < _HEADING_LEVELS else 0
                    case "numPr":
                        list_level = _list_level(element)
        if level:
            return "#" * level + " "
        return "  " * list_level + "- " if list_level >= 0 else ""

    def _table(self, element: Element) -> Iterator[str]:
        rows = [[self._cell(cell) for cell in _found(row, "tc")] for row in _found(element, "tr") if not _is_deleted(row)]
        if [len(row) for row in rows] == [1]:  # a frame around text, not a table
            for cell in _found(next(iter(_found(element, "tr"))), "tc"):
                yield from self.blocks(cell)
            return
        widened = [[text for cell, span in row for text in (cell, *[""] * (span - 1))] for row in rows]
        if any(text for row in widened for text in row):
            yield table(widened)

    def _cell(self, cell: Element) -> tuple[str, int]:
        """(text of a cell on one line, number of columns it covers). The rest of a vertical merge is empty as it stands."""
        span = 1
        for properties in cell:
            if local(properties) == "tcPr":
                for element in properties:
                    if local(element) == "gridSpan" and (value := attribute(element, "val") or "").isdecimal():
                        span = max(1, min(int(value), 64))
        return " ".join(" ".join(self._flat(cell)).split()), span

    def _flat(self, parent: Element) -> Iterator[str]:
        """The texts of a cell; a table inside gives its cells one after the other."""
        for element in parent:
            match local(element):
                case "p":
                    inner: list[str] = []
                    yield "".join(self._inline(element, inner))
                    yield from inner
                case "AlternateContent":
                    yield from self._flat(chosen(element))
                case name if name not in _GONE and name != "tcPr":
                    yield from self._flat(element)


def _found(parent: Element, name: str) -> Iterator[Element]:
    """Children of one name, also inside content controls and insertions."""
    for element in parent:
        kind = local(element)
        if kind == name:
            yield element
        elif kind in ("sdt", "sdtContent", "customXml", "ins", "moveTo"):
            yield from _found(element, name)


def _is_apart(annotation: Element) -> bool:
    """Whether an annotation of Word 2003 is a comment or a deletion; others mark text that stays."""
    return (attribute(annotation, "type") or "").endswith(("Comment", "Deletion", "Formatting"))


def _is_deleted(row: Element) -> bool:
    return any(local(mark) == "del" for properties in row if local(properties) == "trPr" for mark in properties)


def _list_level(numbering: Element) -> int:
    """0 for the outermost level of a list; -1 for a paragraph that was taken out of one."""
    level = 0
    for element in numbering:
        value = attribute(element, "val") or ""
        if local(element) == "numId" and value == "0":
            return -1
        if local(element) == "ilvl" and value.isdecimal():
            level = min(int(value), 8)
    return level
