"""The text layer of a PDF."""

from typing import ClassVar

import pytest

from knowledge.errors import CancelRequested, CorruptSource
from knowledge.model.status import Notice
from knowledge.pipeline.readers.pdf import PdfReader
from knowledge.pipeline.readers.registry import ReaderRegistry
from tests.contracts.reader_contract import ReaderContract
from tests.unit.pipeline.readers import made

DRAWING = b"0 0 m 100 100 l S"


class TestPdfReader(ReaderContract):
    reader = PdfReader
    samples: ClassVar = {
        "a.pdf": (made.pdf("First page", "Second page"), ("First page", "Second page")),
        "UPPER.PDF": (made.pdf("Loud name"), ("Loud name",)),
        "letter.docx": (made.pdf("Bytes decide"), ("Bytes decide",)),
        "junk.pdf": (b"\0\1junk\n" + made.pdf("After junk"), ("After junk",)),
    }


@pytest.fixture
def read(tmp_path):
    def read(data, checkpoint=lambda: None):
        (tmp_path / "a.pdf").write_bytes(data)
        return ReaderRegistry([PdfReader()]).read(tmp_path / "a.pdf", "a.pdf", checkpoint)

    return read


def test_pages_keep_their_numbers(read):
    """A citation names the page, also behind a blank one."""
    result = read(made.pdf("one", b"", "three"))

    assert [("one", 1), ("three", 3)] == [(document.text, document.page) for document in result.documents]
    assert set() == result.notices


def test_page_of_pictures_is_told_as_partial(read):
    """A scan between text pages is missing from the text, and that is said."""
    assert {Notice.PARTIAL_TEXT} == read(made.pdf("one", DRAWING)).notices


def test_pdf_of_drawings_has_no_text(read):
    """Outlines instead of letters give nothing, and that is said."""
    result = read(made.pdf(DRAWING))

    assert ([], {Notice.NO_TEXT_EXTRACTED}) == (list(result.documents), set(result.notices))


def test_damaged_page_does_not_cost_the_others(read):
    """Every page that can be read is read."""
    data = made.pdf("one", "two", "three").replace(b"6 0 obj\n<< /Type /Page ", b"6 0 obj\n<< /Type /Junk ")

    result = read(data)

    assert [("one", 1), ("three", 3)] == [(document.text, document.page) for document in result.documents]
    assert {Notice.PARTIAL_TEXT} == result.notices


@pytest.mark.parametrize("data", [b"%PDF-1.4\n", b"%PDF-1.4\n" + b"\0garbage" * 50, b"this is not a PDF"])
def test_what_is_no_pdf_is_corrupt(read, data):
    """A name or a head alone makes no PDF."""
    with pytest.raises(CorruptSource):
        read(data)


def test_checkpoint_is_called_for_each_page(read):
    """A cancelled job stops between pages, and its own error comes through."""
    calls = []

    def checkpoint():
        calls.append(None)
        if len(calls) == 3:
            raise CancelRequested

    with pytest.raises(CancelRequested):
        read(made.pdf(*"abcdef"), checkpoint)

    assert 3 == len(calls)
