"""What a file is, by its bytes."""

import io
import zipfile

import pytest

from knowledge.errors import BinarySource, CorruptSource, EmptySource, SourceMissing, UnsupportedSource
from knowledge.pipeline.readers import media_type
from knowledge.pipeline.readers.media_type import detect
from tests.unit.pipeline.readers import made

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\6\0\0\0\x1f\x15\xc4\x89"
NOISE = b"\x93\x00\x07\xee" * 50
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 504
SHEET = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


@pytest.fixture
def kind(tmp_path):
    def kind(name, data):
        (tmp_path / "stored").write_bytes(data)
        return detect(tmp_path / "stored", name)

    return kind


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("a.txt", b"words", "text/plain"),
        ("a", b"words", "text/plain"),
        ("a.unknown", b"words", "text/plain"),
        ("a.MD", b"# words", "text/markdown"),
        ("a.json", b"{}", "application/json"),
        ("a.csv", b"a,b", "text/csv"),
        ("a.tsv", b"a\tb", "text/tab-separated-values"),
        ("a.py", b"<html>", "text/plain"),
        ("a.md", b"<html>", "text/markdown"),
        ("a.txt", b" \n<!-- c -->\n<!DOCTYPE HTML>", "text/html"),
        ("a.pdf", b"<html>saved error page</html>", "text/html"),
        ("a.xml", b"<?xml version='1.0'?><r/>", "application/xml"),
        ("a.doc", b"{\\rtf1 x}", "application/rtf"),
        ("a.txt", made.pdf("x"), "application/pdf"),
        ("a.md", b"The head of a PDF is %PDF-1.4", "text/markdown"),
        ("a.docx", made.docx(made.paragraph("x")), media_type.DOCX),
        ("a.docx", made.archive({"[Content_Types].xml": f"{SHEET}.main+xml"}), SHEET),
        ("a.zip", made.archive({"a": "b"}), "application/zip"),
        ("a.epub", made.archive({"mimetype": "application/epub+zip"}), "application/epub+zip"),
        ("a.doc", OLE + "WordDocument\0".encode("utf-16-le"), "application/msword"),
        ("a.bin", OLE, "application/x-ole-storage"),
        ("a.jpg", PNG, "image/png"),
        ("a.epub", made.archive({"META-INF/container.xml": "<c/>"}), "application/epub+zip"),
        ("a.msg", OLE + "__nameid_version1.0\0WordDocument\0".encode("utf-16-le"), "application/vnd.ms-outlook"),
        ("a.msg", b"From: a@b\r\nSubject: c\r\n\r\nwords", "message/rfc822"),
        ("saved", b"Received: from x\n by y\nDate: now\n\nwords", "message/rfc822"),
        ("a.eml", b"From: a@b\nTo: c@d\n\n" + bytes(range(256)), "message/rfc822"),
        ("a.txt", b"From: a@b\nSubject: c\n\nwords", "text/plain"),
        ("a.rss", b"<?xml version='1.0'?><rss/>", "application/xml"),
        ("a.php", b"<html>", "text/plain"),
        ("a.aspx", b"<!DOCTYPE html><html>", "text/html"),
        ("drawing", b"<svg xmlns='x'>", "image/svg+xml"),
        ("a.jsonl", b"{}", "application/jsonl"),
        ("a.rst", b"words", "text/x-rst"),
        ("a.xls", b"a\tb\n1\t2\n", "text/tab-separated-values"),
    ],
)
def test_bytes_decide(kind, name, data, expected):
    """The suffix matters among kinds of text only."""
    assert expected == kind(name, data)


@pytest.mark.parametrize(
    ("name", "data", "error"),
    [
        ("a.txt", b"", EmptySource),
        ("a.txt", PNG, BinarySource),
        ("a.json", b"\x1f\x8b\x08\0\0\0\0\0\0\3\0\0", BinarySource),
        ("a.py", bytes(range(256)), BinarySource),
        ("a.bin", NOISE, UnsupportedSource),
        ("a.run", b"#!/bin/sh\nexit\n" + NOISE, UnsupportedSource),
        ("a.docx", NOISE, CorruptSource),
        ("a.pdf", b"version https://example.org/pointer", CorruptSource),
        ("a.docx", made.docx("")[:-40], CorruptSource),
        ("a.zip", b"PK\3\4 and no more", CorruptSource),
        ("a.tar", b"<!-- the download failed -->", CorruptSource),
        ("a.txz", NOISE, CorruptSource),
        ("a.txt", made.archive({"a": "b"}), BinarySource),
        ("a.xls", b"one\ttwo and then words\nover lines", CorruptSource),
    ],
)
def test_what_cannot_be_is_refused_with_its_reason(kind, name, data, error):
    """Each kind of trouble has its own code."""
    with pytest.raises(error):
        kind(name, data)


def test_absent_file_is_missing(tmp_path):
    """A file that vanished between add and read."""
    with pytest.raises(SourceMissing):
        detect(tmp_path / "absent", "a.txt")


@pytest.mark.parametrize("name", ["a.doc", "a.xls", "a.ppt", "a.msg"])
def test_office_file_without_its_directory_is_damaged(kind, name):
    """The directory of such a file is mostly near its end, so a file cut off has the head of one and no streams."""
    with pytest.raises(CorruptSource):
        kind(name, OLE)


def test_archive_cut_off_is_not_taken_for_one_inside_it(kind):
    """Office files are stored in others as they are, with a list of entries of their own."""
    inner = made.docx(made.paragraph("inner"))
    outer = io.BytesIO()
    with zipfile.ZipFile(outer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("ppt/embeddings/inner.docx", inner)
    whole = outer.getvalue()

    with pytest.raises(CorruptSource):
        kind("a.pptx", whole[: whole.index(inner) + len(inner)])
