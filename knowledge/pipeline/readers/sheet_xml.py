"""Excel workbooks as one XML text, the form of Excel 2003 that many other programs write, often under `.xls`."""

from collections.abc import Iterator
from typing import ClassVar, Final

from knowledge.model.documents import SourceFile
from knowledge.pipeline.readers.media_type import SHEET_XML
from knowledge.pipeline.readers.number_formats import shown
from knowledge.pipeline.readers.ooxml import Element, attribute, child, local, parsed
from knowledge.pipeline.readers.port import Finding
from knowledge.pipeline.readers.sheets import COLUMNS, Row, Sheets

_MIDNIGHT: Final = "T00:00:00.000"


class SheetXmlReader:
    """Blocks of some 3,000 characters of each sheet, hidden ones as well; comments follow the cells."""

    name: ClassVar[str] = "sheet-xml"
    suffixes: ClassVar[frozenset[str]] = frozenset()  #: mostly `.xls` or `.xml`, which other readers claim

    def score(self, source: SourceFile) -> int | None:
        return 10 if source.media_type == SHEET_XML else None

    def read(self, source: SourceFile) -> Iterator[Finding]:
        data = source.path.read_bytes()
        source.budget.inflate(len(data))
        worksheets = [one for one in parsed(data, source.name) if local(one) == "Worksheet"]
        sheets = Sheets()
        for one in worksheets:
            source.budget.page()
            comments: list[str] = []
            yield from sheets.sheet(attribute(one, "Name") or "", _rows(one, comments), comments)
        yield sheets.facts(len(worksheets))


def _rows(worksheet: Element, comments: list[str]) -> Iterator[Row]:
    cells = child(worksheet, "Table")
    number = 0
    for row in cells if cells is not None else ():
        if local(row) == "Row":
            place = attribute(row, "Index") or ""
            number = int(place) if place.isdecimal() and len(place) < 10 else number + 1
            yield number, dict(_cells(row, comments))


def _cells(row: Element, comments: list[str]) -> Iterator[tuple[int, str]]:
    column = -1
    for cell in row:
        if local(cell) != "Cell":
            continue
        place = attribute(cell, "Index") or ""
        column = int(place) - 1 if place.isdecimal() and len(place) < 8 else column + 1
        data = child(cell, "Data")
        text = _text(data).strip() if data is not None else ""
        if text and 0 <= column < COLUMNS:
            yield column, text
        comment = child(cell, "Comment")
        words = " ".join("".join(comment.itertext()).split()) if comment is not None else ""
        if comment is not None and words:
            author = attribute(comment, "Author")
            comments.append(f"[comment{f' by {author}' if author else ''}]: {words}")
        across = attribute(cell, "MergeAcross") or ""
        column += int(across) if across.isdecimal() and len(across) < 8 else 0


def _text(data: Element) -> str:
    text = "".join(data.itertext())
    match attribute(data, "Type"):
        case "Number":
            try:
                return shown(float(text))
            except ValueError:
                return text
        case "Boolean":
            return "TRUE" if text.strip() == "1" else "FALSE"
        case "DateTime":
            return text.removesuffix(_MIDNIGHT).replace("T", " ").removesuffix(".000")
    return text
