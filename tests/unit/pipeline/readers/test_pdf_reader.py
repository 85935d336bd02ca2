"""The text layer of a PDF."""

import io
from typing import ClassVar

import pypdfium2
import pytest

from knowledge.errors import CancelRequested, CorruptSource, EncryptedSource
from knowledge.model.status import Notice
from knowledge.pipeline.readers.pdf import PdfReader
from knowledge.pipeline.readers.pdf_pages import pages_without_text
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


def test_pages_are_counted(read):
    """Of three pages two have text; the reader says so, also of a blank one."""
    quality = read(made.pdf("one", b"", "three")).quality

    assert (3, 2) == (quality.pages, quality.pages_with_text)


def test_nul_in_the_text_layer_does_not_cost_the_page(read):
    """A font may map a glyph to U+0000."""
    result = read(made.pdf_with_map("before", 0x41, "0000", "after"))

    assert "before" in result.documents[0].text
    assert "after" in result.documents[0].text
    assert "\0" not in result.documents[0].text


def test_owner_password_does_not_keep_readers_out(read):
    """Who may open a file without a password may read it; who may not is told so."""
    assert ["words"] == [one.text for one in read(made.pdf_encrypted("words", user="", owner="secret")).documents]
    with pytest.raises(EncryptedSource):
        read(made.pdf_encrypted("words", user="secret", owner="other"))


def test_absurd_page_is_read(read):
    """Its text takes no picture of it."""
    result = read(made.pdf("words").replace(b"[0 0 612 792]", b"[0 0 200000 200000]"))

    assert ["words"] == [document.text for document in result.documents]


def test_count_that_lies_ends(read):
    """A page tree may claim more pages than there are."""
    result = read(made.pdf("one").replace(b"/Count 1", b"/Count 2000000000"))

    assert "one" == result.documents[0].text


def test_filled_form_shows_what_a_person_sees(read):
    """Values by the name of their field, choices by their label; empty boxes say nothing."""
    fields = (
        b"<< /Type /Annot /Subtype /Widget /FT /Tx /T (name) /V (Mira) /Rect [0 0 9 9] >>",
        b"<< /Type /Annot /Subtype /Widget /FT /Ch /T (fruit) /V (p) /Opt [[(a) (Apples)] [(p) (Pears)]] /Rect [0 0 9 9] >>",
        b"<< /Type /Annot /Subtype /Widget /FT /Btn /T (box) /V /Off /AS /Off /Rect [0 0 9 9] >>",
        b"<< /Type /Annot /Subtype /Text /Contents (A remark) /Rect [0 0 9 9] >>",
    )

    assert ["Form\nname: Mira\nfruit: Pears\nA remark"] == [
        one.text for one in read(made.pdf_with_annotations("Form", *fields)).documents
    ]


def test_attached_files_are_read(read):
    """By the reader that knows them; one that none knows is named and told."""
    document = pypdfium2.PdfDocument(made.pdf("Cover"))
    document.new_attachment("list.txt").set_data(b"Forty baskets")
    document.new_attachment("data.bin").set_data(bytes(range(256)) * 9)
    data = io.BytesIO()
    document.save(data)

    result = read(data.getvalue())

    assert {
        (None, "Cover"),
        ("attachment list.txt", "# list.txt\n\nForty baskets"),
        ("attachment data.bin", "# data.bin"),
    } == {(one.locator, one.text) for one in result.documents}
    assert {Notice.PARTIAL_TEXT} == result.notices


class TestPagesWithoutText:
    """What conversion sends to OCR."""

    @pytest.fixture
    def lacking(self, tmp_path):
        def lacking(data):
            (tmp_path / "a.pdf").write_bytes(data)
            return pages_without_text(tmp_path / "a.pdf")

        return lacking

    def test_drawn_pages_lack_text_and_blank_ones_do_not(self, lacking):
        """Outlines may be letters; nothing is nothing."""
        assert [2, 4] == lacking(made.pdf("words", DRAWING, b"", b"0 0 9 9 re f"))

    def test_page_of_glyphs_without_meaning_lacks_text(self, lacking):
        """A text layer in a private code is worth nothing."""
        assert [1] == lacking(made.pdf_with_map("AAAA", 0x41, "E001", "AAAA"))

    def test_stamp_on_a_scan_does_not_hide_it(self, lacking):
        """A page number on a picture that fills the page is not its text; beside a small picture it is."""
        assert [1] == lacking(made.pdf_with_picture("17", 600, 780))
        assert [] == lacking(made.pdf_with_picture("17", 60, 60))
        assert [] == lacking(made.pdf_with_picture("A searchable scan with its words in a text layer over it", 600, 780))
