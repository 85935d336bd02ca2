"""Plain text, Markdown and code."""

from typing import ClassVar

import pytest

from knowledge.errors import BinarySource
from knowledge.model.status import Notice
from knowledge.pipeline.readers.registry import ReaderRegistry
from knowledge.pipeline.readers.text import TextReader
from tests.contracts.reader_contract import ReaderContract


class TestTextReader(ReaderContract):
    reader = TextReader
    samples: ClassVar = {
        "a.txt": ("First line\r\nÜber die 長い道\r\n".encode(), ("First line", "Über die 長い道")),
        "b.md": (b"---\ntitle: kept\n---\n# Head\n\n```py\nx = [1](2)\n```\n", ("title: kept", "# Head", "x = [1](2)")),
        "c.py": (b"def f():\n    return '<html>'\n", ("def f():\n    return '<html>'",)),
        "NOTES": (b"no suffix at all\n", ("no suffix at all",)),
        "d.txt": ("words in UTF-16\n".encode("utf-16"), ("words in UTF-16",)),
        "e.txt": ("naïve café\n".encode("latin-1"), ("naïve café",)),
    }


@pytest.fixture
def read(tmp_path):
    registry = ReaderRegistry([TextReader()])

    def read(name, data):
        (tmp_path / name).write_bytes(data)
        return registry.read(tmp_path / name, name, lambda: None)

    return read


def test_markdown_is_verbatim(read):
    """A citation can be found in the file as it stands: links, code and frontmatter included."""
    text = "---\na: b\n---\n\n# *T*\n\n[x](http://y) `z` | a | b |\n\t\ttabs"

    assert text == read("a.md", text.encode()).documents[0].text


def test_utf8_has_no_notice_and_guessed_charset_has_one(read):
    """People see where letters may be wrong."""
    assert set() == read("a.txt", "café".encode()).notices
    assert {Notice.ENCODING_GUESSED} == read("b.txt", "café in the old town".encode("latin-1")).notices


def test_utf8_with_one_bad_byte_stays_utf8(read):
    """One damaged place does not turn the rest into something else."""
    result = read("a.txt", "Привіт, світе\n".encode() * 20 + b"\xff\n")

    assert "Привіт, світе\n" * 20 + "\ufffd" == result.documents[0].text
    assert {Notice.ENCODING_REPLACED} == result.notices


def test_stray_nul_becomes_a_replacement_character(read):
    """Code that holds a NUL is still text, and stays storable; offsets are taken after the replacement."""
    assert 'parts.join("\ufffd")' == read("a.ts", b'parts.join("\x00")').documents[0].text


def test_binary_named_like_text_is_refused(read):
    """Noise is never indexed as words."""
    with pytest.raises(BinarySource):
        read("a.md", bytes(range(256)) * 4)


def test_blank_file_has_no_document(read):
    """White space is no text."""
    result = read("a.txt", b" \n\t\n")

    assert ([], {Notice.NO_TEXT_EXTRACTED}) == (list(result.documents), set(result.notices))
