"""Excel workbooks of before 2007, sheet by sheet."""

import struct
from typing import ClassVar

import pytest

from knowledge.errors import CorruptSource, EncryptedSource
from knowledge.pipeline.readers.registry import ReaderRegistry
from knowledge.pipeline.readers.xls import XlsReader
from tests.contracts.reader_contract import ReaderContract
from tests.unit.pipeline.readers.made_ole import ole
from tests.unit.pipeline.readers.samples import sample

BOF = struct.pack("<HHHHHHII", 0x0809, 16, 0x0600, 0x0005, 0x0DBB, 0x07CC, 0, 6)


class TestXlsReader(ReaderContract):
    reader = XlsReader
    samples: ClassVar = {
        "book.xls": (
            sample("book.xls"),
            (
                "# Oil",
                "| Lamp 灯台 | 12500 | 2024-01-01 | 15% | TRUE | 25000 | #DIV/0! |",
                "On each page",
                "in the box",
                "[comment on B1]: litres a year",
                "# Hidden one",
                "| not | shown |",
            ),
        ),
    }


def read(tmp_path, data):
    (tmp_path / "a.xls").write_bytes(data)
    return ReaderRegistry([XlsReader()]).read(tmp_path / "a.xls", "a.xls", lambda: None)


def test_sheets_are_located_and_counted(tmp_path):
    """A hit says which sheet it is from; a sheet without cells is seen to have none."""
    result = read(tmp_path, sample("book.xls"))

    assert ["sheet Oil", "sheet Hidden one"] == [one.locator for one in result.documents]
    assert (3, 2) == (result.quality.pages, result.quality.pages_with_text)


def test_comment_is_read_once(tmp_path):
    """A comment is drawn in a box as well."""
    text = read(tmp_path, sample("book.xls")).documents[0].text

    assert 1 == text.count("litres a year")


def test_encrypted_workbook_needs_a_password(tmp_path):
    """The stream says so in its second record."""
    with pytest.raises(EncryptedSource):
        read(tmp_path, ole({"Workbook": (BOF + struct.pack("<HH", 0x002F, 54) + bytes(54)).ljust(4096, b"\0")}))


def test_workbook_of_nothing_is_corrupt(tmp_path):
    """A stream of the right name is no workbook yet."""
    with pytest.raises(CorruptSource):
        read(tmp_path, ole({"Workbook": bytes(5000)}))


def test_container_that_the_library_refuses_is_read(tmp_path):
    """Some programs write containers with a stray entry in the list of sectors; what is in them is whole."""
    whole = bytearray(sample("book.xls"))
    whole[76 + 4 * 100 : 76 + 4 * 101] = (0xFFFFFFF0).to_bytes(4, "little")

    assert "Lamp 灯台" in read(tmp_path, bytes(whole)).documents[0].text
