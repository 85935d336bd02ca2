"""Excel workbooks as Markdown tables, sheet by sheet and row by row.

Of a formula its value as it was last worked out; nothing is calculated here.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar, Final

from knowledge.errors import CorruptSource
from knowledge.model.documents import SourceFile
from knowledge.pipeline.readers.drawing import graphic, paragraphs
from knowledge.pipeline.readers.media_type import XLSX
from knowledge.pipeline.readers.number_formats import Kind, kind_of, shown
from knowledge.pipeline.readers.ooxml import Element, Package, attribute, child, chosen, local, opened
from knowledge.pipeline.readers.port import Finding
from knowledge.pipeline.readers.sheets import COLUMNS, MARGIN_CODE, Row, Sheets

_MARGINS: Final = ("oddHeader", "evenHeader", "firstHeader", "oddFooter", "evenFooter", "firstFooter")
_SHORT: Final = 15  #: digits; a longer number is shown in another way
_ESCAPED: Final = re.compile("_x([0-9A-Fa-f]{4})_")


class XlsxReader:
    """Blocks of some 3,000 characters of each sheet, hidden ones as well; text boxes, charts and comments follow the cells."""

    name: ClassVar[str] = "xlsx"
    suffixes: ClassVar[frozenset[str]] = frozenset({".xlsx", ".xlsm", ".xltx", ".xltm"})

    def score(self, source: SourceFile) -> int | None:
        return 10 if source.media_type == XLSX else None

    def read(self, source: SourceFile) -> Iterator[Finding]:
        with opened(source) as package:
            main = package.main_part("xl/workbook.xml")
            root = package.xml(main)
            if root is None:
                raise CorruptSource("This Excel file has no workbook part.", part=main)
            book = _Book(package, main, root)
            sheets = Sheets()
            for name, part in book.sheets:
                source.budget.page()
                reading = _Sheet(book, part)
                yield from sheets.sheet(name, reading.rows(), reading.after())
            yield sheets.facts(len(book.sheets))


class _Book:
    """What all sheets share: their names, the texts of cells, and what each style makes of a number."""

    def __init__(self, package: Package, main: str, root: Element) -> None:
        self.package = package
        related = package.relationships(main)
        parts = {one.id: one.target for one in related}
        self.sheets = [
            (attribute(element, "name") or "", parts[relation])
            for element in root.iter("{*}sheet")
            if (relation := attribute(element, "id") or "") in parts
        ]
        properties = next(root.iter("{*}workbookPr"), None)
        self.is_1904 = properties is not None and attribute(properties, "date1904") in ("1", "true", "on")
        self.texts = [
            _rich(one) for part in related if part.kind == "sharedStrings" for one in package.elements(part.target, "si")
        ]
        self.kinds: list[Kind] = []
        self.persons: dict[str, str] = {}
        for one in related:
            if one.kind == "styles" and (styles := package.xml(one.target)) is not None:
                self.kinds = list(_kinds(styles))
            elif one.kind == "person" and (persons := package.xml(one.target)) is not None:
                self.persons = {attribute(one, "id") or "": attribute(one, "displayName") or "" for one in persons}


@dataclass(slots=True)
class _Sheet:
    book: _Book
    part: str
    margins: list[str] = field(default_factory=list)

    def rows(self) -> Iterator[Row]:
        number = 0
        for element in self.book.package.elements(self.part, "row", *_MARGINS):
            if local(element) == "row":
                place = element.get("r", "")
                number = int(place) if place.isdecimal() and len(place) < 10 else number + 1
                yield number, dict(self._cells(element))
            elif text := " ".join(MARGIN_CODE.sub(" ", element.text or "").split()):
                self.margins.append(text)

    def after(self) -> Iterator[str]:
        package = self.book.package
        for one in package.relationships(self.part):
            match one.kind:
                case "drawing":
                    yield from _drawing(package, one.target)
                case "vmlDrawing":
                    yield from _old_shapes(package, one.target)
                case "comments":
                    yield from self._comments(one.target)
                case "threadedComment":
                    yield from self._threads(one.target)
        yield from dict.fromkeys(self.margins)

    def _cells(self, row: Element) -> Iterator[tuple[int, str]]:
        column = -1
        for cell in row:  # millions of times: tags are compared as they stand
            if not cell.tag.endswith("}c"):
                continue
            place = cell.get("r")
            column = _column(place) if place else column + 1
            if 0 <= column < COLUMNS and (text := self._text(cell).strip()):
                yield column, text

    def _text(self, cell: Element) -> str:
        kind = cell.get("t", "n")
        text = ""
        for part in cell:
            if part.tag.endswith("}v"):
                text = part.text or ""
            elif kind == "inlineStr" and part.tag.endswith("}is"):
                return _rich(part)
        if not text:
            return ""
        match kind:
            case "n":
                return self._number(text, cell.get("s"))
            case "s":
                place = int(text)
                return self.book.texts[place] if 0 <= place < len(self.book.texts) else ""
            case "b":
                return "TRUE" if text.strip() in ("1", "true") else "FALSE"
            case "d":
                return text.replace("T", " ").removesuffix("Z").removesuffix(".000")
        return _unescaped(text)  # what a formula gave, or an error

    def _number(self, text: str, style: str | None) -> str:
        number = int(style) if style and style.isdecimal() else 0
        kind = self.book.kinds[number] if number < len(self.book.kinds) else Kind.NUMBER
        if kind is Kind.NUMBER and len(text) <= _SHORT and text.isdecimal():
            return text
        try:
            return shown(float(text), kind, is_1904=self.book.is_1904)
        except ValueError:
            return text

    def _comments(self, name: str) -> Iterator[str]:
        for comment in self.book.package.elements(name, "comment"):
            text = _rich(child(comment, "text")).strip() if child(comment, "text") is not None else ""
            if text and not text.startswith("[Threaded comment]"):  # what older versions show instead of the thread
                yield f"[comment on {attribute(comment, 'ref')}]: {text}"

    def _threads(self, name: str) -> Iterator[str]:
        for comment in self.book.package.elements(name, "threadedComment"):
            body = child(comment, "text")
            if body is not None and (text := (body.text or "").strip()):
                author = self.book.persons.get(attribute(comment, "personId") or "", "")
                yield f"[comment on {attribute(comment, 'ref')}{f' by {author}' if author else ''}]: {text}"


def _kinds(styles: Element) -> Iterator[Kind]:
    """What a number looks like, for each style that cells name by its place."""
    codes = {attribute(one, "numFmtId"): attribute(one, "formatCode") for one in styles.iter("{*}numFmt")}
    formats = child(styles, "cellXfs")
    for one in formats if formats is not None else ():
        number = attribute(one, "numFmtId") or "0"
        yield kind_of(int(number) if number.isdecimal() else 0, codes.get(number))


def _drawing(package: Package, name: str) -> Iterator[str]:
    root = package.xml(name)
    parts = {one.id: one.target for one in package.relationships(name)}
    if root is not None:
        yield from _shapes(package, root, parts)


def _shapes(package: Package, parent: Element, parts: dict[str, str]) -> Iterator[str]:
    for element in parent:
        match local(element):
            case "txBody":
                yield "\n".join(paragraphs(element))
            case "chart" | "relIds":
                yield graphic(package, element, parts)
            case "AlternateContent":
                yield from _shapes(package, chosen(element), parts)
            case _:
                yield from _shapes(package, element, parts)


def _old_shapes(package: Package, name: str) -> Iterator[str]:
    """Texts of buttons and labels, in a form that need not be well-formed; comments are drawn in it too, and read elsewhere."""
    with suppress(CorruptSource):
        root = package.xml(name)
        for box in root.iter("{*}textbox") if root is not None else ():
            about = next(box.getparent().iter("{*}ClientData"), None)
            if about is None or attribute(about, "ObjectType") != "Note":
                yield " ".join(" ".join(box.itertext()).split())


def _rich(element: Element) -> str:
    """The text of a string, all runs together; the reading aid that Japanese texts carry is left out."""
    parts = []
    for one in element:
        match local(one):
            case "t":
                parts.append(one.text or "")
            case "r":
                parts += [text.text or "" for text in one if local(text) == "t"]
    return _unescaped("".join(parts))


def _unescaped(text: str) -> str:
    """`_x000D_` is how these files write characters that XML does not allow."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text) if "_x" in text else text


def _column(place: str) -> int:
    """0 for `A1`, 26 for `AA7`."""
    number = 0
    for character in place:
        if not "A" <= character <= "Z":
            break
        number = number * 26 + ord(character) - 64
    return number - 1
