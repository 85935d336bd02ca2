"""OpenDocument spreadsheets as Markdown tables, sheet by sheet and row by row; each value as the program last showed it."""

from collections.abc import Iterator
from itertools import groupby
from typing import ClassVar, Final

from knowledge.errors import CorruptSource
from knowledge.model.documents import SourceFile
from knowledge.pipeline.readers.media_type import ODS
from knowledge.pipeline.readers.odf import Flow, OpenDocument, count, is_flat, packed, repeated
from knowledge.pipeline.readers.ooxml import Element, Package, attribute, local, parsed
from knowledge.pipeline.readers.port import Finding
from knowledge.pipeline.readers.sheets import COLUMNS, Row, Sheets

_VALUES: Final = ("string-value", "date-value", "time-value", "boolean-value", "value")  #: where a cell shows no text


_Part = tuple[int, str, Element]  #: number and name of a sheet, and a row or the shapes of it


class OdsReader:
    """Blocks of some 3,000 characters of each sheet, hidden ones as well; text boxes, charts and comments follow the cells."""

    name: ClassVar[str] = "ods"
    suffixes: ClassVar[frozenset[str]] = frozenset({".ods", ".ots", ".fods"})

    def score(self, source: SourceFile) -> int | None:
        return 10 if source.media_type in (ODS, f"{ODS}-template") else None

    def read(self, source: SourceFile) -> Iterator[Finding]:
        if is_flat(source):
            data = source.path.read_bytes()
            source.budget.inflate(len(data))
            root = parsed(data, source.name)
            yield from _sheets(_standing(root), Flow(OpenDocument(root, root, None)), source)
            return
        with packed(source) as package:
            if "content.xml" not in package:
                raise CorruptSource("This OpenDocument file has no content.", part="content.xml")
            empty = parsed(b"<x/>", "")
            yield from _sheets(_streamed(package), Flow(OpenDocument(empty, None, package)), source)


def _sheets(parts: Iterator[_Part], flow: Flow, source: SourceFile) -> Iterator[Finding]:
    pages = 0
    sheets = Sheets()
    for sheet_key, group in groupby(parts, key=lambda part: part[:2]):
        pages, name = sheet_key
        source.budget.page()
        reading = _Sheet(flow)
        yield from sheets.sheet(name, reading.rows(element for _, _, element in group), reading.after())
    yield sheets.facts(pages)


def _streamed(package: Package) -> Iterator[_Part]:
    number, name = 0, ""
    for event, element in package.events("content.xml", "table", "table-row", "shapes"):
        is_table = local(element) == "table"
        if event == "start" and is_table and local(element.getparent()) == "spreadsheet":
            number, name = number + 1, attribute(element, "name") or ""
        elif event == "end" and not is_table and number:
            yield number, name, element


def _standing(root: Element) -> Iterator[_Part]:
    tables = (one for one in root.iter("{*}table") if local(one.getparent()) == "spreadsheet")
    for number, element in enumerate(tables, start=1):
        for part in element.iter("{*}table-row", "{*}shapes"):
            yield number, attribute(element, "name") or "", part


class _Sheet:
    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._shapes: list[str] = []

    def rows(self, parts: Iterator[Element]) -> Iterator[Row]:
        number = 1
        for element in parts:
            if local(element) == "shapes":
                self._shapes += self._flow.blocks(element)
                continue
            if cells := dict(self._cells(element)):
                for place in range(repeated(element, "number-rows-repeated")):
                    yield number + place, cells
            number += count(element, "number-rows-repeated")

    def after(self) -> Iterator[str]:
        yield from self._shapes
        yield from self._flow.notes()

    def _cells(self, row: Element) -> Iterator[tuple[int, str]]:
        column = 0
        for cell in row:
            if local(cell) not in ("table-cell", "covered-table-cell"):
                continue
            text = self._flow.line(cell) or _value(cell)
            if text:
                for place in range(column, min(column + repeated(cell, "number-columns-repeated"), COLUMNS)):
                    yield place, text
            column += count(cell, "number-columns-repeated")
            if column >= COLUMNS:
                return


def _value(cell: Element) -> str:
    return next((value for name in _VALUES if (value := attribute(cell, name))), "")
