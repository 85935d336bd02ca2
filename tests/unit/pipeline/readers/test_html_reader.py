"""Web pages as Markdown."""

from typing import ClassVar

import pytest

from knowledge.model.status import Notice
from knowledge.pipeline.readers.html import HtmlReader
from knowledge.pipeline.readers.registry import ReaderRegistry
from tests.contracts.reader_contract import ReaderContract

PAGE = """<!DOCTYPE html><html><head><title>The &amp; Page</title><style>p{color:red}</style><script>var x="<p>no</p>"</script>
</head><body><h1>Größe</h1><p>Some <b>bold</b> words &mdash; <a href="https://example.org/very/long?x=1">a link</a>.</p>
<ul><li>one<li>two</ul><table><tr><th>k</th><th>v</th></tr><tr><td>a</td><td>1|2</td></tr></table>
<pre><code>if a &lt; b:\n    go()</code></pre><img src="data:image/png;base64,AAAA" alt="a tower">
<!-- hidden comment --></body></html>"""


class TestHtmlReader(ReaderContract):
    reader = HtmlReader
    samples: ClassVar = {
        "page.html": (
            PAGE.encode(),
            ("# The & Page", "# Größe", "bold", "a link", "- one", "| k | v |", "if a < b:", "a tower"),
        ),
        "named.txt": (b"<html><body><p>bytes decide</p></body></html>", ("bytes decide",)),
        "saved.doc": (b"<html><body><p>saved as Word</p></body></html>", ("saved as Word",)),
        "japanese.html": (
            '<html><head><meta charset="shift_jis"></head><body>日本語の頁</body></html>'.encode("cp932"),
            ("日本語の頁",),
        ),
        "lying.html": ('<html><head><meta charset="iso-8859-1"></head><body>Größe</body></html>'.encode(), ("Größe",)),
        "wide.htm": ("<html><body>breit – 廣</body></html>".encode("utf-16"), ("breit – 廣",)),
    }


@pytest.fixture
def read(tmp_path):
    def read(page):
        (tmp_path / "a.html").write_bytes(page if isinstance(page, bytes) else page.encode())
        result = ReaderRegistry([HtmlReader()]).read(tmp_path / "a.html", "a.html", lambda: None)
        return "\n".join(one.text for one in result.documents), result.notices

    return read


@pytest.mark.parametrize(
    "unwanted", ["color:red", "var x", "https://example.org", "base64", "hidden comment", "<p>", "&amp;", "&lt;"]
)
def test_what_a_reader_does_not_see_is_gone(read, unwanted):
    """Scripts, styles, addresses, pictures, comments and entities are no text."""
    assert unwanted not in read(PAGE)[0]


def test_title_is_not_repeated(read):
    """A page that shows its title has it once."""
    assert "# Guide\n\ntext" == read("<title>Guide</title><h1>Guide</h1>text")[0]


@pytest.mark.parametrize("depth", [1_001, 50_000])
def test_page_nested_too_deep_keeps_all_its_words(read, depth):
    """Without its structure, and without what nobody sees."""
    page = (
        "<html><head><title>The Title</title><style>p {color: red}</style></head><body><header>top</header><!-- no > -->"
        + "<div class='a>b'>" * depth
        + "<p>deep &amp; <b>bo</b>ld<br>line</p><SCRIPT>if (a < b) x()</SCRIPT > a < b"
        + "</div>" * depth
        + "bottom"
    )

    assert ("# The Title\n\ntop\n\ndeep & bold\n\nline\n\na < b\n\nbottom", set()) == read(page)


@pytest.mark.parametrize(
    "piece", ["<a ", '<a href="', "<title>", "<!--", "<!x", "<script>", "<style ", "</script", "&#x110000;"]
)
def test_broken_markup_ends_in_a_deep_page_as_well(read, piece):
    """In bounded time."""
    read("<html><body>start " + "<div>" * 2_000 + piece * 20_000)


@pytest.mark.parametrize(
    "piece", ["<a ", '<a href="', "<img alt='", "<title>", "<!--", "<script>", "<table><tr><td>", "&#x110000;", "<a" * 3]
)
def test_broken_markup_ends(read, piece):
    """Markup that never closes, many times over, is read in bounded time."""
    read("<html><body>start " + piece * 20_000)


def test_page_without_words_has_no_document(read):
    """An empty page is told as such."""
    assert ("", {Notice.NO_TEXT_EXTRACTED}) == read("<html><head></head><body><script>x()</script></body></html>")


def test_titles_without_end_take_no_time(read):
    """Each is passed over once; looking for the end of each would take hours."""
    assert "words" in read(b"<p>words</p>" + b"<title" * 300_000)[0]
