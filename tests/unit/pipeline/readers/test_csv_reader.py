"""Tables as text files."""

from typing import ClassVar

import pytest

from knowledge.pipeline.readers.csv import CsvReader, delimiter_of
from tests.contracts.reader_contract import ReaderContract


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
        "late.csv": (("x" * 4096 + ",café\n").encode(), ("café",)),
    }


def test_first_column_has_no_mark(tmp_path):
    """The byte order mark is not part of the first name."""
    from knowledge.pipeline.readers.registry import ReaderRegistry

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
    from knowledge.pipeline.readers.registry import ReaderRegistry

    (tmp_path / "a.csv").write_text("a," + "x" * 300_000 + "\n")

    assert 300_003 == len(ReaderRegistry([CsvReader()]).read(tmp_path / "a.csv", "a.csv", lambda: None).documents[0].text)


def test_every_block_of_a_long_table_has_its_head(tmp_path):
    """A passage from the middle says what its columns are, and where it stands."""
    from knowledge.pipeline.readers.registry import ReaderRegistry

    (tmp_path / "a.csv").write_text("id,name\n" + "".join(f"{number},name {number}\n" for number in range(2, 1_002)))

    documents = ReaderRegistry([CsvReader()]).read(tmp_path / "a.csv", "a.csv", lambda: None).documents
    records = [line for document in documents for line in document.text.split("\n")[2:]]

    assert len(documents) > 2
    assert {"| id | name |"} == {document.text.split("\n")[0] for document in documents}
    assert [f"| {number} | name {number} |" for number in range(2, 1_002)] == records
    assert all(document.locator == f"rows {_numbers(document)[0]}-{_numbers(document)[-1]}" for document in documents)


def _numbers(document):
    return [line.split(" | ")[0][2:] for line in document.text.split("\n")[2:]]
