"""Sheets as Markdown, a block of rows at a time: a sheet of a million rows is never one table in memory.

Each block has the head of the table above it, so that a passage from the middle still says what its columns are.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from knowledge.model.documents import Document
from knowledge.model.quality import Facts
from knowledge.pipeline.readers.csv import BLOCK_CHARACTERS
from knowledge.pipeline.readers.markdown import table
from knowledge.pipeline.readers.port import Finding

COLUMNS: Final = 16_384  #: a sheet has no more in any program
_LINES_CHARACTERS: Final = 100_000  #: of a block of lines, which need no head
_CELLS: Final = 20_000  #: of the table of a block, empty ones included: a few cells far apart must not span a giant

#: Fonts, colours and page numbers in the header or footer of a sheet.
MARGIN_CODE: Final = re.compile(r'&(?:"[^"]*"|K[0-9A-Fa-f]{6}|K\d\d[+-]\d{3}|\d+|[A-Za-z])')

Cells = Mapping[int, str]  #: text by column, 0-based; empty cells are left out
Row = tuple[int, Cells]  #: number of the row as a person sees it


class Sheets:
    """The sheets of one workbook; those that have text are counted."""

    def __init__(self) -> None:
        self._with_text = 0

    def facts(self, pages: int) -> Facts:
        """To be told when all are read."""
        return Facts(pages=pages, pages_with_text=self._with_text)

    def sheet(self, name: str, rows: Iterable[Row], after: Iterable[str] = ()) -> Iterator[Finding]:
        """One sheet, its name as a heading; empty rows and columns are left out. See `documents`."""
        has_text = False
        for document in documents(name, rows, after):
            has_text = True
            yield document
        self._with_text += has_text


def documents(name: str, rows: Iterable[Row], after: Iterable[str] = ()) -> Iterator[Document]:
    """The blocks of a sheet, each located by the sheet, and by its rows where there are several blocks.

    Rows with one cell only stand above the table, as titles do; the first row with several is its head. A sheet without such a
    row is lines.

    Args:
        after: blocks that follow the last row: text boxes, comments; looked at when the rows are through.
    """
    block = _Block()
    head: Cells | None = None
    blocks = 0
    for number, cells in rows:
        if not cells:
            continue
        if head is None and len(cells) > 1:
            head = cells
            block.begin_table(number)
            continue
        if block.is_full(cells, is_table=head is not None):
            yield Document(_page(name, block, head), locator=f"sheet {name}, rows {block.first}-{block.last}")
            block = _Block()
            blocks += 1
        block.add(number, cells)
    parts = [_page(name, block, head)] if block.last else []
    parts += [text for text in after if text.strip()]
    if parts:
        heading = [] if block.last else [f"# {name}"]
        place = f", rows {block.first}-{block.last}" if blocks and block.last else ""
        yield Document("\n\n".join([*heading, *parts]), locator=f"sheet {name}{place}")


class _Block:
    """Rows on their way into one document."""

    def __init__(self) -> None:
        self.titles: list[str] = []
        self.rows: list[Cells] = []
        self.first = self.last = 0  #: numbers of rows; 0 without any
        self._characters = 0
        self._columns: set[int] = set()

    def begin_table(self, number: int) -> None:
        """What came before its head are titles, and stay with it."""
        self.titles = [" ".join(cells.values()) for cells in self.rows]
        self.rows, self._columns, self._characters = [], set(), 0
        self.first, self.last = self.first or number, number

    def add(self, number: int, cells: Cells) -> None:
        self.rows.append(cells)
        self.first, self.last = self.first or number, number
        self._columns.update(cells)
        self._characters += sum(map(len, cells.values()))

    def is_full(self, following: Cells, *, is_table: bool) -> bool:
        limit = BLOCK_CHARACTERS if is_table else _LINES_CHARACTERS
        return bool(self.rows) and (
            self._characters + sum(map(len, following.values())) > limit
            or len(self._columns.union(following)) * (len(self.rows) + 1) > _CELLS
        )


def _page(name: str, block: _Block, head: Cells | None) -> str:
    parts = [f"# {name}"]
    if head is None:
        parts.append("\n".join(text for cells in block.rows for text in cells.values()))
    else:
        if block.titles:
            parts.append("\n".join(block.titles))
        rows = [head, *block.rows]
        columns = sorted({column for cells in rows for column in cells})
        parts.append(table([[cells.get(column, "") for column in columns] for cells in rows]))
    return "\n\n".join(parts)
