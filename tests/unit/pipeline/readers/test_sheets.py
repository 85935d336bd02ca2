"""Rows of a sheet as Markdown, a stretch at a time."""

from knowledge.pipeline.readers.sheets import ROWS, sheet


def test_empty_rows_and_columns_are_left_out():
    """What is far apart in a sheet stands together in the text."""
    documents = list(sheet("S", [{}, {3: "a", 9: "b"}, {}, {9: "c"}]))

    assert ["# S\n\n| a | b |\n| --- | --- |\n|  | c |"] == [one.text for one in documents]
    assert ["sheet S"] == [one.locator for one in documents]


def test_titles_stand_above_the_table():
    """Rows of one cell before the first real row are no rows of the table."""
    (document,) = sheet("S", [{0: "Sales"}, {0: "2024"}, {0: "k", 1: "v"}, {0: "x", 1: "1"}])

    assert "# S\n\nSales\n2024\n\n| k | v |\n| --- | --- |\n| x | 1 |" == document.text


def test_single_column_is_lines():
    """A list is no table."""
    (document,) = sheet("S", [{0: "a"}, {0: "b"}])

    assert "# S\n\na\nb" == document.text


def test_sheet_without_anything_is_no_document():
    """A name alone says nothing."""
    assert [] == list(sheet("Sheet1", [{}, {}], ["", " "]))


def test_what_follows_the_cells_stands_alone_where_there_are_none():
    """A sheet may hold nothing but a text box."""
    (document,) = sheet("S", [], ["in the box"])

    assert "# S\n\nin the box" == document.text


def test_long_sheet_comes_in_stretches_with_its_head():
    """Each stretch says what its columns mean; no row is lost or doubled."""
    rows = [{0: "key", 1: "value"}, *({0: f"k{number}", 1: str(number)} for number in range(ROWS * 2 + 1))]
    documents = list(sheet("S", iter(rows), ["after"]))
    lines = [line for one in documents for line in one.text.splitlines() if line.startswith("| k")]

    assert 3 == len(documents)
    assert all("| key | value |" in one.text for one in documents)
    assert [f"| k{number} | {number} |" for number in range(ROWS * 2 + 1)] == [line for line in lines if "key" not in line]
    assert ["after" in one.text for one in documents] == [False, False, True]


def test_rows_are_taken_as_they_are_needed():
    """A sheet of any length is never whole in memory."""
    taken = []

    def rows():
        for number in range(ROWS * 10):
            taken.append(number)
            yield {0: str(number), 1: "x"}

    next(sheet("S", rows()))

    assert len(taken) <= ROWS + 2


def test_cells_far_apart_do_not_span_a_giant_table():
    """A thousand cells on a diagonal would be a million fields of one table."""
    documents = list(sheet("S", ({place: "x", place + 1: "y"} for place in range(0, 2000, 2))))

    assert 1000 == sum(one.text.count("x") for one in documents[:1]) + sum(one.text.count("x") - 1 for one in documents[1:])
    assert all(one.text.count("|") < 500_000 for one in documents)
