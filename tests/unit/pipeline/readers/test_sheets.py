"""Rows of a sheet as Markdown, a block at a time."""

from knowledge.model.quality import Facts
from knowledge.pipeline.readers.csv import BLOCK_CHARACTERS
from knowledge.pipeline.readers.sheets import Sheets, documents


def numbered(*rows):
    return list(enumerate(rows, start=1))


def test_empty_rows_and_columns_are_left_out():
    """What is far apart in a sheet stands together in the text."""
    (document,) = documents("S", numbered({}, {3: "a", 9: "b"}, {}, {9: "c"}))

    assert "# S\n\n| a | b |\n| --- | --- |\n|  | c |" == document.text
    assert "sheet S" == document.locator


def test_titles_stand_above_the_table():
    """Rows of one cell before the first real row are no rows of the table."""
    (document,) = documents("S", numbered({0: "Sales"}, {0: "2024"}, {0: "k", 1: "v"}, {0: "x", 1: "1"}))

    assert "# S\n\nSales\n2024\n\n| k | v |\n| --- | --- |\n| x | 1 |" == document.text


def test_single_column_is_lines():
    """A list is no table."""
    (document,) = documents("S", numbered({0: "a"}, {0: "b"}))

    assert "# S\n\na\nb" == document.text


def test_head_alone_is_a_table():
    """A sheet may be a form that nobody has filled in."""
    (document,) = documents("S", numbered({0: "k", 1: "v"}))

    assert "# S\n\n| k | v |\n| --- | --- |" == document.text


def test_sheet_without_anything_is_no_document():
    """A name alone says nothing."""
    assert [] == list(documents("Sheet1", numbered({}, {}), ["", " "]))


def test_what_follows_the_cells_stands_alone_where_there_are_none():
    """A sheet may hold nothing but a text box."""
    (document,) = documents("S", [], ["in the box"])

    assert "# S\n\nin the box" == document.text


def test_long_sheet_comes_in_blocks_with_its_head():
    """Each block says what its columns mean and where it is; no row is lost or doubled."""
    count = 3 * BLOCK_CHARACTERS // 10
    rows = [{0: "Title"}, {0: "key", 1: "value"}, *({0: f"k{number:05}", 1: "abcd"} for number in range(count))]
    found = list(documents("S", iter(numbered(*rows)), ["after"]))
    keys = [line.split()[1] for one in found for line in one.text.splitlines() if line.startswith("| k0")]

    assert len(found) in (3, 4)
    assert all("| key | value |" in one.text for one in found)
    assert [f"k{number:05}" for number in range(count)] == keys
    assert found[0].locator.startswith("sheet S, rows 1-")
    assert found[-1].locator.endswith(f"-{count + 2}")
    assert found[-1].text.endswith("after")


def test_rows_are_taken_as_they_are_needed():
    """A sheet of any length is never whole in memory."""
    taken = []

    def rows():
        for number in range(1, BLOCK_CHARACTERS * 10):
            taken.append(number)
            yield number, {0: "x", 1: "y"}

    next(documents("S", rows()))

    assert len(taken) < BLOCK_CHARACTERS


def test_cells_far_apart_do_not_span_a_giant_table():
    """A thousand cells on a diagonal would be a million fields of one table."""
    found = list(documents("S", ((place + 1, {place: "x", place + 1: "y"}) for place in range(0, 2000, 2))))

    assert 1000 == found[0].text.count("x") + sum(one.text.count("x") - 1 for one in found[1:])
    assert all(one.text.count("|") < 50_000 for one in found)


def test_sheets_with_text_are_counted():
    """However many blocks a sheet has, it is one of the sheets."""
    sheets = Sheets()
    for name, rows in (("One", numbered(*[{0: "x" * 100, 1: "y"}] * 100)), ("Empty", []), ("Three", numbered({0: "a"}))):
        list(sheets.sheet(name, rows))

    assert Facts(pages=3, pages_with_text=2) == sheets.facts(3)
