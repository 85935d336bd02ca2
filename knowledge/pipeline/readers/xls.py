"""Excel workbooks of before 2007 as Markdown tables, sheet by sheet. Of a formula its value as it was last worked out."""

import io
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Final

from knowledge.errors import EncryptedSource
from knowledge.model.documents import SourceFile
from knowledge.model.quality import Facts
from knowledge.pipeline.readers.media_type import XLS
from knowledge.pipeline.readers.number_formats import Kind, kind_of, shown
from knowledge.pipeline.readers.port import Finding
from knowledge.pipeline.readers.sheets import MARGIN_CODE, Row, Sheets

if TYPE_CHECKING:
    from xlrd.book import Book
    from xlrd.sheet import Sheet

# Records of the stream, and streams of the file: [MS-XLS] 2.3 and 2.1.
_BOF: Final = (0x0809, 0x0009, 0x0209, 0x0409)
_BOUNDSHEET: Final = 0x0085
_CONTINUE: Final = 0x003C
_MARGINS: Final = (0x0014, 0x0015)  #: header and footer
_TEXT_BOX: Final = 0x01B6
_STREAMS: Final = ("Workbook", "Book")


class XlsReader:
    """Blocks of some 3,000 characters of each sheet, hidden ones as well; text boxes and comments follow the cells."""

    name: ClassVar[str] = "xls"
    suffixes: ClassVar[frozenset[str]] = frozenset({".xls", ".xlt"})

    def score(self, source: SourceFile) -> int | None:
        return 10 if source.media_type == XLS else None

    def read(self, source: SourceFile) -> Iterator[Finding]:
        book = _opened(source)
        yield Facts(charset=book.encoding if book.biff_version < 80 else None)
        sheets = Sheets()
        beside = _beside_cells(source)
        for number in range(book.nsheets):
            source.budget.page()
            one = book.sheet_by_index(number)
            yield from sheets.sheet(one.name, _rows(book, one), _after(one, beside.get(number, [])))
            book.unload_sheet(number)
        yield sheets.facts(book.nsheets)


def _opened(source: SourceFile) -> "Book":
    import xlrd
    from xlrd.biffh import XLRDError
    from xlrd.compdoc import CompDocError

    contents: bytes | None = None
    for is_styled in (True, True, False):  # damaged styles cost the dates, not the cells
        try:
            return xlrd.open_workbook(
                str(source.path),
                file_contents=contents,
                logfile=io.StringIO(),
                on_demand=True,
                formatting_info=is_styled,
                ragged_rows=True,
            )
        except CompDocError:  # it is stricter about containers than those who write them
            if contents is not None or not (contents := _stream(source)):
                raise
        except XLRDError as error:
            if "encrypted" in str(error):
                raise EncryptedSource from error
            raise
        except Exception:  # the library raises anything on damaged styles; the last attempt, without them, tells
            if not is_styled:
                raise
    raise AssertionError


def _rows(book: "Book", one: "Sheet") -> Iterator[Row]:
    for number in range(one.nrows):
        types, values = one.row_types(number), one.row_values(number)
        row = {}
        for column, (kind, value) in enumerate(zip(types, values, strict=True)):
            if text := _text(book, one, number, column, kind, value).strip():
                row[column] = text
        yield number + 1, row


def _text(book: "Book", one: "Sheet", row: int, column: int, kind: int, value: str | float) -> str:
    import xlrd

    if isinstance(value, str):
        return value
    match kind:
        case xlrd.XL_CELL_BOOLEAN:
            return "TRUE" if value else "FALSE"
        case xlrd.XL_CELL_ERROR:
            return xlrd.error_text_from_code.get(int(value), "#VALUE!")
        case xlrd.XL_CELL_NUMBER | xlrd.XL_CELL_DATE:
            return shown(value, _kind(book, one, row, column, kind), is_1904=book.datemode == 1)
    return ""


def _kind(book: "Book", one: "Sheet", row: int, column: int, kind: int) -> Kind:
    import xlrd

    if book.formatting_info:
        place = one.cell_xf_index(row, column)
        style = book.xf_list[place] if 0 <= place < len(book.xf_list) else None
        if style is not None and style.format_key in book.format_map:
            return kind_of(style.format_key, book.format_map[style.format_key].format_str)
    return Kind.DAY if kind == xlrd.XL_CELL_DATE else Kind.NUMBER


def _after(one: "Sheet", beside: list[str]) -> Iterator[str]:
    comments = {}
    for (row, column), note in one.cell_note_map.items():
        by = f" by {note.author.strip()}" if note.author.strip() else ""
        comments[note.text.strip()] = f"[comment on {_place(row, column)}{by}]: {note.text.strip()}"
    yield from (text for text in dict.fromkeys(beside) if text not in comments)  # a comment is drawn in a box as well
    yield from comments.values()


def _place(row: int, column: int) -> str:
    import xlrd

    return str(xlrd.cellname(row, column))


def _beside_cells(source: SourceFile) -> dict[int, list[str]]:
    """Texts of boxes, headers and footers, by the number of their sheet; the library reads cells and comments only."""
    found: dict[int, list[str]] = defaultdict(list)
    data = _stream(source)
    starts: dict[int, int] = {}
    current: int | None = None
    for place, record, body, following in _records(data):
        if record in _BOF:
            current = starts.get(place, current)
        elif record == _BOUNDSHEET:
            starts[int.from_bytes(body[:4], "little")] = len(starts)
        elif current is not None and record in _MARGINS:
            text = " ".join(MARGIN_CODE.sub(" ", _string(body)).split())
            found[current] += [text] if text else []
        elif current is not None and record == _TEXT_BOX and len(body) >= 12:
            text = _characters(following, int.from_bytes(body[10:12], "little")).strip()
            found[current] += [text] if text else []
    return found


def _stream(source: SourceFile) -> bytes:
    """The stream with all records; nothing where the file is no container, as before Excel 5."""
    import olefile

    if not olefile.isOleFile(str(source.path)):
        return b""
    with olefile.OleFileIO(str(source.path)) as archive:
        name = next((name for name in _STREAMS if archive.exists(name)), None)
        return archive.openstream(name).read() if name else b""


def _records(data: bytes) -> Iterator[tuple[int, int, bytes, bytes]]:
    """(offset, kind, body, what follows) of each record."""
    place = 0
    while place + 4 <= len(data):
        record, size = int.from_bytes(data[place : place + 2], "little"), int.from_bytes(data[place + 2 : place + 4], "little")
        end = place + 4 + size
        following = data[end : end + 0x2100] if record == _TEXT_BOX else b""
        yield place, record, data[place + 4 : end], following
        place = end


def _characters(following: bytes, count: int) -> str:
    """The text of a box, which stands in the record after it: one byte that tells the width, then the characters."""
    if int.from_bytes(following[:2], "little") != _CONTINUE:
        return ""
    body = following[4 : 4 + int.from_bytes(following[2:4], "little")]
    if body[:1] == b"\x01":
        return body[1 : 1 + 2 * count].decode("utf-16-le", "replace")
    return body[1 : 1 + count].decode("latin-1")


def _string(body: bytes) -> str:
    """A header or footer: number of characters in two bytes, width, characters.

    Before Excel 97 their number took one byte, and there was no width.
    """
    if len(body) < 3:
        return ""
    count = int.from_bytes(body[:2], "little")
    if body[2] == 1 and len(body) >= 3 + 2 * count:
        return body[3 : 3 + 2 * count].decode("utf-16-le", "replace")
    if body[2] == 0 and len(body) >= 3 + count:
        return body[3 : 3 + count].decode("latin-1")
    return re.sub(r"[^\x20-\x7e]", "", body[1:].decode("latin-1"))
