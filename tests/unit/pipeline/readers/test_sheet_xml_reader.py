"""Excel workbooks as one XML text."""

from typing import ClassVar

from knowledge.pipeline.readers.registry import ReaderRegistry
from knowledge.pipeline.readers.sheet_xml import SheetXmlReader
from tests.contracts.reader_contract import ReaderContract

SS = 'xmlns="urn:schemas-microsoft-com:office:spreadsheet" xmlns:ss="urn:schemas-microsoft-com:office:spreadsheet"'


def book(*sheets: tuple[str, str]) -> bytes:
    inner = "".join(f'<Worksheet ss:Name="{name}"><Table>{rows}</Table></Worksheet>' for name, rows in sheets)
    head = '<?xml version="1.0"?>\n<?mso-application progid="Excel.Sheet"?>\n'
    return f"{head}<Workbook {SS}><Styles/>{inner}</Workbook>".encode()


def cell(text: str, kind: str = "String", attributes: str = "", inner: str = "") -> str:
    return f'<Cell {attributes}><Data ss:Type="{kind}">{text}</Data>{inner}</Cell>'


COMMENT = '<Comment ss:Author="Ann"><Data>really?</Data></Comment>'
FOURTH = 'ss:Index="4"'
ROWS = (
    f"<Row>{cell('k')}{cell('v', attributes=FOURTH)}</Row><Row/><Row>{cell('2024-01-01T00:00:00.000', 'DateTime')}"
    f"{cell('0.1', 'Number', inner=COMMENT)}{cell('1', 'Boolean')}{cell('長')}</Row>"
)


class TestSheetXmlReader(ReaderContract):
    reader = SheetXmlReader
    samples: ClassVar = {
        "book.xls": (
            book(("One", ROWS), ("Two", f"<Row>{cell('x')}</Row>")),
            ("# One", "| k |  |  | v |", "| 2024-01-01 | 0.1 | TRUE | 長 |", "[comment by Ann]: really?", "# Two", "x"),
        ),
    }


def test_sheets_are_located_and_counted(tmp_path):
    """A hit says which sheet it is from; a sheet without cells is seen to have none."""
    (tmp_path / "a.xls").write_bytes(book(("One", f"<Row>{cell('a')}</Row>"), ("Empty", "")))
    result = ReaderRegistry([SheetXmlReader()]).read(tmp_path / "a.xls", "a.xls", lambda: None)

    assert ["sheet One"] == [one.locator for one in result.documents]
    assert (2, 1) == (result.quality.pages, result.quality.pages_with_text)
