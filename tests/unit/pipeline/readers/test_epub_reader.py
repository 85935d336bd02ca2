"""Books."""

from typing import ClassVar

import pytest

from knowledge.errors import EncryptedSource, ReaderBudgetExceeded
from knowledge.model.budget import Budget
from knowledge.model.status import Notice
from knowledge.pipeline.readers.epub import EpubReader
from knowledge.pipeline.readers.registry import ReaderRegistry
from tests.contracts.reader_contract import ReaderContract
from tests.unit.pipeline.readers import made

CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OPS/book%20file.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
)
PACKAGE = """<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" version="3.0">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>The Orchard</dc:title><dc:creator>Mira Holt</dc:creator>
<dc:language>en-GB</dc:language></metadata>
<manifest><item id="two" href="text/2.xhtml" media-type="application/xhtml+xml"/>
<item id="one" href="text/1.xhtml" media-type="application/xhtml+xml"/>
<item id="nav" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/>
<item id="css" href="a.css" media-type="text/css"/></manifest>
<spine><itemref idref="one"/><itemref idref="two"/><itemref idref="lost"/></spine></package>"""
NAV = (
    '<html xmlns="http://www.w3.org/1999/xhtml"><body><nav><a href="text/1.xhtml">Spring</a>'
    '<a href="text/2.xhtml#x">Autumn</a></nav></body></html>'
)


def page(body):
    return f'<?xml version="1.0" encoding="utf-8"?><html xmlns="http://www.w3.org/1999/xhtml"><body>{body}</body></html>'


def book(**other):
    """The entries of a book; `other` replaces or, with None, removes some."""
    files = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": CONTAINER,
        "OPS/book file.opf": PACKAGE,
        "OPS/nav.xhtml": NAV,
        "OPS/text/1.xhtml": page("<h1>One</h1><p>Blossom &#233;</p>"),
        "OPS/text/2.xhtml": page("<p>Pears <i>are</i> ripe</p>"),
        "OPS/a.css": "p { color: red }",
    }
    return made.archive({name: text for name, text in (files | other).items() if text is not None})


class TestEpubReader(ReaderContract):
    reader = EpubReader
    samples: ClassVar = {
        "book.epub": (book(), ("# The Orchard\n\nMira Holt", "# One", "Blossom é", "Pears are ripe")),
        "no-mimetype.epub": (book(mimetype=None), ("Blossom", "Pears")),
        "no-container.epub": (book(**{"META-INF/container.xml": "<broken"}), ("The Orchard", "Blossom", "Pears")),
        "no-package.epub": (book(**{"OPS/book file.opf": None}), ("Blossom", "Pears")),
        "no-spine.epub": (book(**{"OPS/book file.opf": PACKAGE.partition("<spine>")[0] + "</package>"}), ("Pears", "Blossom")),
        "wide.epub": (
            book(**{"OPS/text/1.xhtml": page("<p>Größe</p>").replace("utf-8", "utf-16").encode("utf-16")}),
            ("Größe",),
        ),
    }


@pytest.fixture
def read(tmp_path):
    def read(data, budget=None):
        (tmp_path / "a.epub").write_bytes(data)
        return ReaderRegistry([EpubReader()], budget).read(tmp_path / "a.epub", "a.epub", lambda: None)

    return read


def test_chapters_are_named_by_the_table_of_contents(read):
    """A citation names the chapter."""
    result = read(book())

    assert [None, "chapter Spring", "chapter Autumn"] == [document.locator for document in result.documents]
    assert (2, 2, "en") == (result.quality.pages, result.quality.pages_with_text, result.quality.language)


def test_chapters_are_named_by_their_heading_or_number_else(read):
    """Old books without a table of contents have a place as well."""
    result = read(book(**{"OPS/nav.xhtml": None}))

    assert [None, "chapter One", "chapter 2"] == [document.locator for document in result.documents]


def test_missing_chapter_does_not_cost_the_book(read):
    """It is told."""
    result = read(book(**{"OPS/text/1.xhtml": None}))

    assert "Pears are ripe" in result.documents[-1].text
    assert Notice.PARTIAL_TEXT in result.notices


def hidden(*names, algorithm="http://www.w3.org/2001/04/xmlenc#aes128-cbc"):
    return '<encryption xmlns:e="http://www.w3.org/2001/04/xmlenc#">' + "".join(
        f'<e:EncryptedData><e:EncryptionMethod Algorithm="{algorithm}"/><e:CipherData><e:CipherReference URI="{name}"/>'
        "</e:CipherData></e:EncryptedData>"
        for name in names
    ) + "</encryption>"  # fmt: skip


def test_protected_book_is_encrypted(read):
    """What it holds are not words."""
    with pytest.raises(EncryptedSource):
        read(book(**{"META-INF/encryption.xml": hidden("OPS/text/1.xhtml", "OPS/text/2.xhtml")}))


def test_hidden_fonts_do_not_matter(read):
    """Many free books hide their fonts."""
    names = ("OPS/text/1.xhtml", "OPS/text/2.xhtml")
    fonts = hidden(*names, algorithm="http://www.idpf.org/2008/embedding")

    assert "Pears are ripe" in read(book(**{"META-INF/encryption.xml": fonts})).documents[-1].text


def test_book_shares_one_budget(read):
    """Chapters that are each small enough are too much together."""
    with pytest.raises(ReaderBudgetExceeded):
        read(
            book(**{f"OPS/text/{number}.xhtml": page("<p>" + "0" * 600_000 + "</p>") for number in (1, 2)}),
            Budget(inflated_bytes=1_000_000),
        )
