"""Archives as one text."""

import base64
import gzip
from typing import ClassVar

import pytest

from knowledge.errors import EncryptedSource, ReaderBudgetExceeded
from knowledge.model.budget import Budget
from knowledge.model.status import Notice
from knowledge.pipeline.readers.archive_text import ArchiveReader
from knowledge.pipeline.readers.registry import ReaderRegistry
from tests.contracts.reader_contract import ReaderContract
from tests.unit.pipeline.readers import made
from tests.unit.pipeline.readers.test_archive import tar

FILES = {"a.txt": b"Words of a", "folder/b.html": b"<h1>B</h1><p>more</p>", "c.pdf": made.pdf("First", "Second")}


class TestArchiveReader(ReaderContract):
    reader = ArchiveReader
    samples: ClassVar = {
        "a.zip": (
            made.archive(FILES),
            ("# a.txt\n\nWords of a", "# folder/b.html\n\n# B\n\nmore", "# c.pdf\n\nFirst", "Second"),
        ),
        "a.tar": (tar(FILES), ("Words of a", "more", "First")),
        "a.tgz": (tar(FILES, "w:gz"), ("Words of a", "more", "First")),
        "notes.txt.gz": (gzip.compress(b"Packed alone"), ("# notes.txt\n\nPacked alone",)),
        "zip.zip": (made.archive({"in.zip": made.archive({"deep.txt": b"Deep"})}), ("# in.zip", "# deep.txt\n\nDeep")),
    }


@pytest.fixture
def read(tmp_path):
    def read(data, budget=None):
        (tmp_path / "a.zip").write_bytes(data)
        return ReaderRegistry([ArchiveReader()], budget).read(tmp_path / "a.zip", "a.zip", lambda: None)

    return read


def test_places_name_the_member_and_its_page(read):
    """A citation leads to the file inside, and to the page in it."""
    assert ["a.txt", "folder/b.html", "c.pdf, page 1", "c.pdf, page 2"] == [
        one.locator for one in read(made.archive(FILES)).documents
    ]


def test_member_that_cannot_be_read_is_named(read):
    """It does not cost the others, and it is told and counted."""
    result = read(made.archive({"a.txt": b"words", "b.bin": bytes(range(256)) * 9, "c.txt": b"more"}))

    assert ["# a.txt\n\nwords", "# b.bin", "# c.txt\n\nmore"] == [document.text for document in result.documents]
    assert {Notice.PARTIAL_TEXT} == result.notices
    assert (3, 2) == (result.quality.pages, result.quality.pages_with_text)


def test_what_tools_and_systems_add_for_themselves_is_left_out(read):
    """Three files with the metadata of a Mac are three files; what an import leaves out is left out here."""
    clutter = {"__MACOSX/._a.txt": b"\0\5\x16\7", ".DS_Store": b"\0\0", "x/Thumbs.db": b"\0", "._b.txt": b"\0\5\x16\7"}
    clutter |= {"desktop.ini": b"words", "x/~$a.docx": b"\5me", "x/node_modules/p/readme.md": b"words"}
    result = read(made.archive({"a.txt": b"one", "b.txt": b"two", "c.txt": b"three"} | clutter))

    assert ["a.txt", "b.txt", "c.txt"] == [document.locator for document in result.documents]
    assert set() == result.notices


def test_archives_inside_archives_end(read):
    """Deeper than the budget they are named, not opened."""
    data = b"Deepest"
    for depth in range(9):
        data = made.archive({f"{depth}.{'zip' if depth else 'txt'}": data})

    result = read(data)

    assert "# 8.zip" in result.documents[0].text
    assert Notice.PARTIAL_TEXT in result.notices
    assert "Deepest" not in "".join(document.text for document in result.documents)


def test_members_share_the_budget_of_their_archive(read):
    """Each of these is small enough for itself."""
    inner = made.archive({"zeros.txt": b"0" * 600_000})

    with pytest.raises(ReaderBudgetExceeded):
        read(made.archive({f"{number}.zip": inner for number in range(4)}), Budget(inflated_bytes=2_000_000))


def test_archive_with_a_password_is_encrypted(read):
    """Made by zip -P; not one member can be read."""
    data = base64.b64decode(
        "UEsDBAoACQAAAAAAIQDEqzTBEQAAAAUAAAAFAAAAYS50eHQAAAAAAAAAAAAAAAAAAAAAUEsHCMSrNMERAAAABQAAAFBLAQIeAwoACQAAAAAAIQDEqzTB"
        "EQAAAAUAAAAFAAAAAAAAAAAAAACAAQAAAABhLnR4dFBLBQYAAAAAAQABADMAAABEAAAAAAA="
    )

    with pytest.raises(EncryptedSource):
        read(data)


def test_empty_member_is_no_loss(read):
    """A file of 0 bytes is named; nothing of it is missing."""
    result = read(made.archive({"a.txt": b"", "b.txt": b"words"}))

    assert ["# a.txt", "# b.txt\n\nwords"] == [document.text for document in result.documents]
    assert set() == result.notices
