"""Word files of before 2007, read by the LibreOffice that the set-up of tests installs."""

import io
from typing import ClassVar

import olefile
import pytest

from knowledge.errors import EncryptedSource
from knowledge.pipeline.readers.doc import DocReader
from knowledge.pipeline.readers.registry import ReaderRegistry
from tests.contracts.reader_contract import ReaderContract
from tests.unit.pipeline.readers.made import docx, paragraph
from tests.unit.pipeline.readers.made_ole import ole
from tests.unit.pipeline.readers.samples import sample

REPORT = (
    "# The lamp",
    "It burns all night, in Łódź as in Ελλάδα and 灯台[^2].",
    "| Oil | Litres |\n| --- | --- |\n| whale | 17 |",
    "After the table.",
    "[^2]: Measured in May.",
    "[comment by Ann]: Is that so?",
    "Lighthouse report, first draft",
    "For the keepers only",
)
WORD_XML = (
    b'<?xml version="1.0"?><?mso-application progid="Word.Document"?><w:wordDocument xmlns:w="w">'
    b"<w:body><w:p><w:r><w:t>the words</w:t></w:r></w:p></w:body></w:wordDocument>"
)


class TestDocReader(ReaderContract):
    reader = DocReader
    samples: ClassVar = {"report.doc": (sample("report.doc"), REPORT)}


def read(tmp_path, data, registry):
    (tmp_path / "a.doc").write_bytes(data)
    return registry.read(tmp_path / "a.doc", "a.doc", lambda: None)


def test_quality_names_the_converter(tmp_path):
    """Whoever wonders about a text sees what made it."""
    assert "LibreOffice" == read(tmp_path, sample("report.doc"), ReaderRegistry([DocReader()])).quality.converter


def test_encrypted_file_needs_a_password(tmp_path):
    """Its first bytes say so; no converter is asked."""
    streams = {name: bytearray(data) for name, data in _streams(sample("report.doc")).items()}
    streams["WordDocument"][11] |= 0x01

    with pytest.raises(EncryptedSource):
        read(tmp_path, ole({name: bytes(data) for name, data in streams.items()}), ReaderRegistry([DocReader()]))


@pytest.mark.parametrize(
    ("data", "reader"),
    [
        (rb"{\rtf1 the words\par}", "rtf"),
        (b"<html><body><p>the words</p></body></html>", "html"),
        (docx(paragraph("the words")), "docx"),
        (WORD_XML, "word-xml"),
    ],
    ids=["rtf", "html", "docx", "word-xml"],
)
def test_content_decides_what_is_behind_the_name(tmp_path, data, reader):
    """Much that is called .doc is something else."""
    result = read(tmp_path, data, ReaderRegistry.installed())

    assert (reader, "the words") == (result.reader, result.documents[0].text)


def _streams(data: bytes) -> dict[str, bytes]:
    with olefile.OleFileIO(io.BytesIO(data)) as archive:
        return {path[0]: archive.openstream(path).read() for path in archive.listdir()}
