"""PowerPoint files of before 2007, read by the LibreOffice that the set-up of tests installs."""

import io
from typing import ClassVar

import olefile
import pytest

from knowledge.errors import EncryptedSource
from knowledge.pipeline.readers.ppt import PptReader
from knowledge.pipeline.readers.registry import ReaderRegistry
from tests.contracts.reader_contract import ReaderContract
from tests.unit.pipeline.readers.made_ole import ole
from tests.unit.pipeline.readers.samples import sample


class TestPptReader(ReaderContract):
    reader = PptReader
    samples: ClassVar = {
        "slides.ppt": (
            sample("slides.ppt"),
            ("The tower", "Forty metres of granite, 灯台", "Notes: Tell of the storm of 1836", "The keeper"),
        ),
    }


def read(tmp_path, data):
    (tmp_path / "a.ppt").write_bytes(data)
    return ReaderRegistry([PptReader()]).read(tmp_path / "a.ppt", "a.ppt", lambda: None)


def test_slides_are_located_and_counted(tmp_path):
    """A hit says which slide it is from, and whoever wonders about a text sees what made it."""
    result = read(tmp_path, sample("slides.ppt"))

    assert ["slide 1", "slide 2"] == [one.locator for one in result.documents]
    assert ("LibreOffice", 2, 2) == (result.quality.converter, result.quality.pages, result.quality.pages_with_text)


def test_encrypted_file_needs_a_password(tmp_path):
    """A mark in one of its streams says so; no converter is asked."""
    with olefile.OleFileIO(io.BytesIO(sample("slides.ppt"))) as archive:
        streams = {name: bytearray(archive.openstream(name).read()) for name in ("Current User", "PowerPoint Document")}
    streams["Current User"][12:16] = (0xF3D1C4DF).to_bytes(4, "little")

    with pytest.raises(EncryptedSource):
        read(tmp_path, ole({name: bytes(data) for name, data in streams.items()}))
