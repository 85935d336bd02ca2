"""Choosing a reader, and the boundary around it."""

import gzip

import pytest

from knowledge.errors import (
    ConfigurationError,
    CorruptSource,
    LeaseLost,
    ReaderBudgetExceeded,
    SourceFault,
    SourceMissing,
    StorageFailed,
    UnsupportedSource,
)
from knowledge.model.documents import Document
from knowledge.model.skip_reason import SkipReason
from knowledge.model.status import Notice
from knowledge.pipeline.readers import registry as registry_module
from knowledge.pipeline.readers.media_type import LEFT_OUT_SUFFIXES
from knowledge.pipeline.readers.registry import ReaderRegistry


class FakeReader:
    """Claims plain text and does what it is told."""

    name = "fake"
    suffixes = frozenset({".fake"})

    def __init__(self, *findings, score=5, name="fake"):
        self.findings, self._score, self.name = findings, score, name

    def score(self, source):
        return self._score if source.media_type == "text/plain" else None

    def read(self, source):
        for finding in self.findings:
            if isinstance(finding, BaseException):
                raise finding
            yield finding


@pytest.fixture
def file(tmp_path):
    place = tmp_path / "a.txt"
    place.write_text("words")
    return place


def read(file, *readers, checkpoint=lambda: None):
    return ReaderRegistry(readers).read(file, "a.txt", checkpoint)


def test_highest_score_reads(file):
    """Another distribution's reader can win over ours."""
    result = read(file, FakeReader(Document("low"), name="low"), FakeReader(Document("high"), score=20, name="high"))

    assert ("high", ["high"]) == (result.reader, [document.text for document in result.documents])


def test_type_without_reader_is_unsupported(file):
    """The error says what it was."""
    with pytest.raises(UnsupportedSource) as caught:
        read(file)

    assert {"name": "a.txt", "media_type": "text/plain"} == caught.value.details


def test_every_text_is_cleaned_and_blank_ones_are_dropped(file):
    """One boundary, whatever a reader yields; page numbers stay."""
    result = read(file, FakeReader(Document("\ufeffu\u0308\r\n\x00"), Document(" \n"), Document("b", page=3)))

    assert [("\u00fc\n\ufffd", None), ("b", 3)] == [(document.text, document.page) for document in result.documents]


def test_notices_are_collected(file):
    """Findings of all documents belong to the file."""
    result = read(file, FakeReader(Notice.ENCODING_GUESSED, Document("a"), Notice.PARTIAL_TEXT, Notice.PARTIAL_TEXT))

    assert {Notice.ENCODING_GUESSED, Notice.PARTIAL_TEXT} == result.notices


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (KeyError("x"), CorruptSource),
        (RecursionError(), CorruptSource),
        (UnicodeDecodeError("utf-8", b"", 0, 1, "x"), CorruptSource),
        (FileNotFoundError(2, "x"), SourceMissing),
        (OSError(5, "I/O error"), StorageFailed),  # what the system says of our own copy is no fault of the source
        (OSError("a library's own"), SourceFault),
        (OSError(22, "Invalid argument"), CorruptSource),
        (gzip.BadGzipFile("Not a gzipped file"), CorruptSource),
        (MemoryError(), ReaderBudgetExceeded),
    ],
)
def test_library_errors_become_ours(file, raised, error):
    """Whoever reads the item sees a code, the reader and the kind of error; never a traceback."""
    with pytest.raises(error) as caught:
        read(file, FakeReader(Document("a"), raised))

    assert "fake" == caught.value.details["reader"]


def test_interruption_passes_through(file):
    """A lost lease is no fault of the file."""

    def checkpoint():
        raise LeaseLost

    with pytest.raises(LeaseLost):
        read(file, FakeReader(Document("a")), checkpoint=checkpoint)


def test_own_readers_are_installed():
    """Ours come through the same entry points as everybody's."""
    assert {
        ".txt",
        ".md",
        ".py",
        ".html",
        ".csv",
        ".json",
        ".pdf",
        ".docx",
        ".xml",
        ".tsv",
    } <= ReaderRegistry.installed().suffixes


def test_reader_that_cannot_be_loaded_is_named(monkeypatch):
    """A broken plug-in is a mistake of the installation, told at start."""

    class Broken:
        name, value = "broken", "no.such:Reader"

        def load(self):
            raise ModuleNotFoundError("no")

    monkeypatch.setattr(registry_module, "entry_points", lambda group: [Broken()])

    with pytest.raises(ConfigurationError, match=r"no\.such:Reader"):
        ReaderRegistry.installed()


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.txt", b"words", None),
        ("A.TXT", b"words", None),
        ("a.b.c.pdf", b"%PDF-", None),
        ("a.ts", b'x.join("\x00") // long enough to be code', None),
        ("a.txt", "words".encode("utf-16"), None),
        ("a.txt", bytes(range(256)), SkipReason.BINARY),
        ("a.exe", b"MZ", SkipReason.UNSUPPORTED),
        ("a.odt", b"PK", None),
        ("a.lock", b"words", SkipReason.UNSUPPORTED),
        ("README", b"words", None),
        ("Makefile", b"all:\n\techo", None),
        ("a.conf", "wörter".encode("cp1252"), None),
        ("notes.md.bak", b"words", None),
        ("page", b"<html><body>words", None),
        ("a.css", b"p { color: red }", None),
        ("program", b"\x7fELF\x02\x01\x01" + bytes(9), SkipReason.UNSUPPORTED),
        ("a.unknown", bytes(range(256)), SkipReason.UNSUPPORTED),
        ("report", b"%PDF-1.7 words", SkipReason.UNSUPPORTED),
        ("rich", b"{\\rtf1 words}", None),
        ("id_rsa", b"-----BEGIN OPENSSH PRIVATE KEY-----\nwords", SkipReason.UNSUPPORTED),
        ("server.key", b"words", SkipReason.UNSUPPORTED),
        ("picture.svg", b"<svg>", None),
        ("app.js.map", b"{}", SkipReason.UNSUPPORTED),
    ],
)
def test_directory_import_takes_what_a_reader_claims(tmp_path, name, data, reason):
    """Cheap: by name, and by the first bytes of what is named like text or like nothing known."""
    (tmp_path / "x").write_bytes(data)

    assert reason == ReaderRegistry.installed().accepts(name, tmp_path / "x")


def test_what_is_left_out_by_name_has_no_reader():
    """A suffix that is in both lists would be taken, and the list that says otherwise would mislead."""
    assert frozenset() == LEFT_OUT_SUFFIXES & ReaderRegistry.installed().suffixes


def test_files_of_unwanted_names_are_not_opened(tmp_path):
    """A folder of a million pictures is listed, not read."""
    assert SkipReason.UNSUPPORTED is ReaderRegistry.installed().accepts("a.png", tmp_path / "absent")
