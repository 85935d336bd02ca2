"""OpenDocument spreadsheets, sheet by sheet."""

from typing import ClassVar

import pytest

from knowledge.errors import CorruptSource, EncryptedSource, ReaderBudgetExceeded
from knowledge.model.budget import Budget
from knowledge.pipeline.readers.ods import OdsReader
from knowledge.pipeline.readers.registry import ReaderRegistry
from tests.contracts.reader_contract import ReaderContract
from tests.unit.pipeline.readers import made
from tests.unit.pipeline.readers.made_office import flat_odf, odf


def cell(text: str = "", attributes: str = "", inner: str = "") -> str:
    return f"<table:table-cell {attributes}>{inner}{f'<text:p>{text}</text:p>' if text else ''}</table:table-cell>"


def row(*cells: str, attributes: str = "") -> str:
    return f"<table:table-row {attributes}>{''.join(cells)}</table:table-row>"


def table(name: str, *rows: str) -> str:
    return f'<table:table table:name="{name}">{"".join(rows)}</table:table>'


SHAPES = "<table:shapes><draw:frame><draw:text-box><text:p>in the box</text:p></draw:text-box></draw:frame></table:shapes>"
COMMENT = "<office:annotation><dc:creator>Ann</dc:creator><text:p>really?</text:p></office:annotation>"
BOOK = table("One", row(cell("k"), cell("v")), row(cell("a|b"), cell("15%", 'office:value="0.15"'))) + table(
    "長", SHAPES, row(cell("x", inner=COMMENT), cell("y"))
)
PHRASES = ("# One", "| k | v |", "| a\\|b | 15% |", "# 長", "| x | y |", "in the box", "[comment by Ann]: really?")


class TestOdsReader(ReaderContract):
    reader = OdsReader
    samples: ClassVar = {
        "book.ods": (odf("spreadsheet", BOOK), PHRASES),
        "flat.fods": (flat_odf("spreadsheet", BOOK), PHRASES),
    }


@pytest.fixture
def read(tmp_path):
    def read(data, budget=None):
        (tmp_path / "a.ods").write_bytes(data)
        return ReaderRegistry([OdsReader()], budget).read(tmp_path / "a.ods", "a.ods", lambda: None)

    return read


def test_sheets_are_located_and_counted(read):
    """A hit says which sheet it is from; a sheet without cells is seen to have none."""
    result = read(
        odf("spreadsheet", table("One", row(cell("a"))) + table("Empty", row(cell())) + table("Three", row(cell("c"))))
    )

    assert ["sheet One", "sheet Three"] == [one.locator for one in result.documents]
    assert (3, 2) == (result.quality.pages, result.quality.pages_with_text)


def test_claimed_repetition_of_nothing_is_nothing(read):
    """Every sheet ends with a million empty rows of a thousand empty cells."""
    rest = row(cell(attributes='table:number-columns-repeated="16384"'), attributes='table:number-rows-repeated="1048576"')
    result = read(
        odf("spreadsheet", table("S", row(cell("a"), cell(attributes='table:number-columns-repeated="3"'), cell("b")), rest))
    )

    assert "# S\n\n| a | b |\n| --- | --- |" == result.documents[0].text


def test_repeated_rows_and_cells_are_written_out_within_reason(read):
    """Equal rows may be stored once; one that claims to stand a million times is no million rows."""
    few = row(cell("a", 'table:number-columns-repeated="2"'), attributes='table:number-rows-repeated="3"')
    many = row(cell("b"), cell("c"), attributes='table:number-rows-repeated="1048576"')
    text = "\n".join(one.text for one in read(odf("spreadsheet", table("S", few, many))).documents)

    assert "| a | a |\n| --- | --- |\n| a | a |\n| a | a |" in text
    assert 1_000 == text.count("| b | c |")
    assert "| a | a |" in text


def test_value_without_a_text_is_read(read):
    """Some programs leave the shown text out."""
    result = read(
        odf(
            "spreadsheet",
            table("S", row(cell(attributes='office:value="7"'), cell(attributes='office:date-value="2024-01-01"'))),
        )
    )

    assert "| 7 | 2024-01-01 |" in result.documents[0].text


def test_sheet_beyond_the_budget_is_refused_in_the_middle(read):
    """A small file cannot take all memory."""
    data = odf("spreadsheet", table("S", *[row(cell("aaaaaaaa"))] * 20_000))

    with pytest.raises(ReaderBudgetExceeded):
        read(data, Budget(inflated_bytes=500_000))


def test_encrypted_workbook_needs_a_password(read):
    """The list of parts says that they are encrypted."""
    with pytest.raises(EncryptedSource):
        read(odf("spreadsheet", BOOK, manifest='<manifest:encryption-data xmlns:manifest="m"/>'))


def test_file_without_content_is_corrupt(read):
    """A type alone makes no document."""
    with pytest.raises(CorruptSource):
        read(made.without(odf("spreadsheet", ""), "content.xml"))
