"""Web pages as Markdown: headings, lists, tables and code stay; scripts, styles, addresses and pictures go."""

import html
import re
from collections.abc import Iterator
from typing import ClassVar, Final

from knowledge.model.documents import Document, SourceFile
from knowledge.model.status import Notice
from knowledge.pipeline.readers.decoding import decode
from knowledge.pipeline.readers.media_type import HTML

PROLOGUE_BYTES: Final = 4096  #: where a page may declare its charset; the standard says 1024, pages do not obey
MAX_DEPTH: Final = 1_000  #: elements inside each other

_CHARSET: Final = re.compile(
    rb"""<meta[^>]{0,500}?charset\s*=\s*["']?\s*([A-Za-z0-9_:.-]{1,40})|encoding=["']([\w.-]{1,40})""", re.I
)
_ATTRIBUTES: Final = r"""(?>[^<>"']+|"[^"]{0,65536}"|'[^']{0,65536}'){0,64}"""
#: Addresses are long, say little and would fill the vectors of the text around them.
_LINK: Final = re.compile(rf"<a\s{_ATTRIBUTES}>", re.I)
_IMAGE: Final = re.compile(rf"<img\s({_ATTRIBUTES})>", re.I)
_ALT: Final = re.compile(r"""\balt\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]+))""", re.I)
_TITLE: Final = re.compile(r"<title\b[^>]*>(.{0,2000}?)</title", re.I | re.S)
_BODY: Final = re.compile(r"<body\b", re.I)


class HtmlReader:
    """One document. The title comes first, as a heading, unless the page says it itself."""

    name: ClassVar[str] = "html"
    suffixes: ClassVar[frozenset[str]] = frozenset({".html", ".htm", ".xhtml"})

    def score(self, source: SourceFile) -> int | None:
        return 10 if source.media_type == HTML else None

    def read(self, source: SourceFile) -> Iterator[Document | Notice]:
        data = source.path.read_bytes()
        decoded = decode(data, declared=_declared(data))
        yield from decoded.notices
        text, is_whole = to_markdown(decoded.text)
        if not is_whole:
            yield Notice.PARTIAL_TEXT
        yield Document(text)


def to_markdown(page: str) -> tuple[str, bool]:
    """(Markdown of a page, whether all of it could be converted)."""
    from html_to_markdown import ConversionOptions, PreprocessingOptions, convert

    options = ConversionOptions(
        extract_metadata=False,
        autolinks=False,
        compact_tables=True,
        skip_images=True,
        hidden_content="reachable",
        max_depth=MAX_DEPTH,
        preprocessing=PreprocessingOptions(enabled=False),
    )
    result = convert(_IMAGE.sub(_alternative, _LINK.sub("<a>", page)), options)
    body = result.content or ""
    title = _title(page)
    if title and title.casefold() not in body[:2000].casefold():
        body = f"# {title}\n\n{body}"
    return body, not result.warnings


def _declared(data: bytes) -> str | None:
    found = _CHARSET.search(data[:PROLOGUE_BYTES])
    return (found.group(1) or found.group(2)).decode("ascii") if found else None


def _alternative(image: re.Match[str]) -> str:
    found = _ALT.search(image.group(1))
    return f" {found.group(1) or found.group(2) or found.group(3) or ''} " if found else ""


def _title(page: str) -> str:
    body = _BODY.search(page)  # pictures in the body have titles as well
    found = _TITLE.search(page, 0, body.start() if body else len(page))
    return " ".join(html.unescape(found.group(1)).split()) if found else ""
