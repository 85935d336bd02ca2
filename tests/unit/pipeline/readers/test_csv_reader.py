"""Tables as text files."""

from typing import ClassVar

import pytest

from knowledge.pipeline.readers.csv import CsvReader, delimiter_of
from knowledge.pipeline.readers.registry import ReaderRegistry
from tests.contracts.reader_contract import ReaderContract

TITLED = "Report final\nas of May\n\n| name | age |\n| --- | --- |\n| Ann | 3 |"


class TestCsvReader(ReaderContract):
    reader = CsvReader
    samples: ClassVar = {
        "comma.csv": (b'name,city\r\n"Smith, J.",Rome\r\n', ("| name | city |\n| --- | --- |\n| Smith, J. | Rome |",)),
        "semicolon.csv": ("Name;Größe\nÖl;1,5\n".encode(), ("| Name | Größe |", "| Öl | 1,5 |")),
        "declared.csv": (b"sep=|\r\na|b\r\n1|2\r\n", ("| a | b |", "| 1 | 2 |")),
        "marked.csv": ("Spalte,b\n1,2\n".encode("utf-8-sig"), ("| Spalte | b |", "| 1 | 2 |")),
        "wide.tsv": ("eins\tzwei\n3\t4\n".encode("utf-16"), ("| eins | zwei |", "| 3 | 4 |")),
        "ragged.csv": (b"a,b,c\n1\n1,2,3,4\n", ("| a | b | c |  |", "| 1 |  |  |  |", "| 1 | 2 | 3 | 4 |")),
        "lines.csv": (b'a,"two\nlines"\nb,c\n', ("two lines",)),
        "list.csv": (b"plums\npears\n", ("plums\npears",)),
        "titles.csv": (b"Report final\nas of May\n\nname,age\nAnn,3\n", (TITLED,)),
        "filled.csv": (
            b"Report final,,\nas of May,,\nname,age,x\nAnn,3,y\n",
            ("Report final\nas of May\n\n| name | age | x |",),
        ),
        "titles;.csv": (b"Report final\nas of May\nname;age\nAnn;3\n", (TITLED,)),
        "gap.csv": (b"Item,\nApple,3\n", ("| Item |  |\n| --- | --- |\n| Apple | 3 |",)),
        "years.csv": (b",2020,2021\nRome,1,2\n", ("|  | 2020 | 2021 |",)),
        "late.csv": (("x" * 4096 + ",café\n").encode(), ("café",)),
    }


def test_first_column_has_no_mark(tmp_path):
    """The byte order mark is not part of the first name."""
    (tmp_path / "a.csv").write_bytes("id,x\n1,2\n".encode("utf-8-sig"))

    assert ReaderRegistry([CsvReader()]).read(tmp_path / "a.csv", "a.csv", lambda: None).documents[0].text.startswith("| id |")


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("a,b\nc,d\n", ","),
        ("a;b;c\nd;e;f\n", ";"),
        ("a\tb\nc\td\n", "\t"),
        ("a|b\nc|d\n", "|"),
        ("a;b,c\nd;e,f\n", ","),
        ("a;b\td;e\n1;2\t3;4\n", ";"),
        ('"x,y";1\n"z,w";2\n', ";"),
        ("one word\n", ","),
        ("a;b\nc\nd\ne\n", ","),
        ("", ","),
        ("a;b\n" * 20_000 + "cut;off;here", ";"),
    ],
)
def test_delimiter_is_found(text, delimiter):
    """Comma wins where it fits, then the widest; quotes count."""
    assert delimiter == delimiter_of(text)


def test_huge_cell_is_read(tmp_path):
    """A cell over the module's own limit is a cell."""
    (tmp_path / "a.csv").write_text("a," + "x" * 300_000 + "\n")

    assert 300_003 == len(ReaderRegistry([CsvReader()]).read(tmp_path / "a.csv", "a.csv", lambda: None).documents[0].text)


def test_every_block_of_a_long_table_has_its_head(tmp_path):
    """A passage from the middle says what its columns are, and where it stands."""
    (tmp_path / "a.csv").write_text("id,name\n" + "".join(f"{number},name {number}\n" for number in range(2, 1_002)))

    documents = ReaderRegistry([CsvReader()]).read(tmp_path / "a.csv", "a.csv", lambda: None).documents
    records = [line for document in documents for line in document.text.split("\n")[2:]]

    assert len(documents) > 2
    assert {"| id | name |"} == {document.text.split("\n")[0] for document in documents}
    assert [f"| {number} | name {number} |" for number in range(2, 1_002)] == records
    assert all(document.locator == f"rows {_numbers(document)[0]}-{_numbers(document)[-1]}" for document in documents)


def _numbers(document):
    return [line.split(" | ")[0][2:] for line in document.text.split("\n")[2:]]


@pytest.fixture
def read(tmp_path):
    def read(text):
        (tmp_path / "a.csv").write_text(text)
        return ReaderRegistry([CsvReader()]).read(tmp_path / "a.csv", "a.csv", lambda: None).documents

    return read


def test_list_with_a_comma_here_and_there_has_no_title(read):
    """Nor has one that is longer than titles are."""
    (few,) = read("plums\npears\n")
    (many,) = read("plum\n" * 30 + "a,b\nc,d\n")

    assert "plums\npears" == few.text
    assert many.text.startswith("| plum |")


def test_titles_count_among_the_rows(read):
    """A block is found again in the file by its numbers."""
    documents = read("Report\nof May\nname,text\n" + "".join(f"n{row},{'x' * 100}\n" for row in range(60)))

    assert documents[0].text.startswith("Report\nof May\n\n| name | text |")
    assert ["| name | text |"] * (len(documents) - 1) == [one.text.split("\n")[0] for one in documents[1:]]
    assert ("rows 4-", "63") == (documents[0].locator[:7], documents[-1].locator.split("-")[1])


def test_quote_that_nothing_closes_does_not_swallow_what_follows(read):
    """Its line is taken as it stands; those before and after it are rows."""
    (document,) = read('a,b\n"x, y","two\nlines"\n"unclosed,2\n3,4\n5,6\n')

    rows = ["| a | b |", "| --- | --- |", "| x, y | two lines |", '| "unclosed | 2 |', "| 3 | 4 |", "| 5 | 6 |"]
    assert rows == document.text.split("\n")


def test_many_quotes_that_nothing_closes_lose_no_word(read):
    """All words are there, in whatever cells."""
    text = "a,b\n" + "".join(f'"{row},2\n' for row in range(3001))
    words = " ".join(one.text for one in read(text))

    assert all(f"{row}" in words for row in range(3001))


def test_closed_quote_at_the_end_is_no_fault(read):
    """With or without a last line end."""
    for end in ("", "\n"):
        assert ["| a | b |\n| --- | --- |\n| 1 | two lines |"] == [one.text for one in read(f'a,b\n1,"two\nlines"{end}')]
