"""Sheets as Markdown, a stretch of rows at a time: a sheet of a million rows is never one table in memory."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from knowledge.model.documents import Document
from knowledge.pipeline.readers.markdown import table

COLUMNS: Final = 16_384  #: a sheet has no more in any program
ROWS: Final = 500  #: of one document; each has the head of the table, so that a hit far down shows what its columns mean
_CHARACTERS: Final = 100_000  #: of one document, about
_CELLS: Final = 200_000  #: of one table, empty ones included: a few cells far apart must not span a giant

#: Fonts, colours and page numbers in the header or footer of a sheet.
MARGIN_CODE: Final = re.compile(r'&(?:"[^"]*"|K[0-9A-Fa-f]{6}|K\d\d[+-]\d{3}|\d+|[A-Za-z])')

Row = Mapping[int, str]  #: text by column, 0-based; empty cells are left out


def sheet(name: str, rows: Iterable[Row], after: Iterable[str] = ()) -> Iterator[Document]:
    """One sheet, its name as a heading; empty rows and columns are left out.

    Rows with one cell only stand above the table, as titles do; the first row with several is its head. A sheet without such a
    row is lines.

    Args:
        after: blocks that follow the last row: text boxes, comments; looked at when the rows are through.
    """
    locator = f"sheet {name}"
    block = _Block()
    head: Row | None = None
    is_blank = True
    for row in rows:
        if not row:
            continue
        is_blank = False
        if head is None and len(row) > 1:
            if block.rows:  # titles stay with the head of the table they belong to
                block.titles = [" ".join(one.values()) for one in block.rows]
                block.rows = []
            head = row
            continue
        if block.is_full(row):
            yield Document(_page(name, block, head), locator=locator)
            block = _Block()
        block.add(row)
    rest = [text for text in after if text.strip()]
    if is_blank and not rest:
        return
    blocks = [_page(name, block, head)] if block.rows or block.titles or not is_blank else [f"# {name}"]
    yield Document("\n\n".join([*blocks, *rest]), locator=locator)


class _Block:
    """Rows on their way into one document."""

    def __init__(self) -> None:
        self.titles: list[str] = []
        self.rows: list[Row] = []
        self._characters = 0
        self._columns: set[int] = set()

    def add(self, row: Row) -> None:
        self.rows.append(row)
        self._columns.update(row)
        self._characters += sum(map(len, row.values()))

    def is_full(self, following: Row) -> bool:
        return bool(self.rows) and (
            len(self.rows) >= ROWS
            or self._characters >= _CHARACTERS
            or len(self._columns.union(following)) * (len(self.rows) + 1) > _CELLS
        )


def _page(name: str, block: _Block, head: Row | None) -> str:
    parts = [f"# {name}"]
    if head is None:
        parts.append("\n".join(text for row in block.rows for text in row.values()))
    else:
        if block.titles:
            parts.append("\n".join(block.titles))
        rows = [head, *block.rows]
        columns = sorted({column for row in rows for column in row})
        parts.append(table([[row.get(column, "") for column in columns] for row in rows]))
    return "\n\n".join(parts)
