"""Web pages as Markdown: headings, lists, tables and code stay; scripts, styles, addresses and pictures go.

A page whose elements lie deeper inside each other than the converter goes would lose that text. It is read without its
structure instead: its words in their order, a line for each block.
"""

import html
import re
from collections.abc import Iterator
from typing import ClassVar, Final

from knowledge.model.documents import Document, SourceFile
from knowledge.model.status import Notice
from knowledge.pipeline.readers.decoding import decode
from knowledge.pipeline.readers.media_type import HTML
from knowledge.pipeline.readers.port import Finding

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
_CAPTION: Final = re.compile(rf"<(/?)(?:figcaption|summary)\b(?:\s{_ATTRIBUTES})?>", re.I)
#: Their marks would stand in the middle of sentences, where a phrase is then not found.
_STRESS: Final = ("b", "strong", "em", "i", "u", "s", "strike", "del", "ins", "mark", "code")
#: What the converter escapes so that no list begins there, though a list would look the same.
_NUMBER: Final = re.compile(r"^(\s*(?:[-*+] )?\d{1,9})\\([.)])(?=\s)|^(\s*)\\([-+])(?=\s)")
_FENCE: Final = re.compile(r"\s*(```+|~~~+)")
_MARKUP: Final = re.compile(rf"<!--|<[!?][^>]{{0,2000}}>|<(/?)([a-z][a-z0-9:-]{{0,40}})(?:\s{_ATTRIBUTES}|/)?>", re.I)
#: What nobody sees, by the name that opens it, with what ends it.
_UNSEEN: Final = {"!--": re.compile("-->")} | {
    name: re.compile(rf"</{name}\b[^>]{{0,2000}}>", re.I) for name in ("head", "script", "style", "template")
}
_WITHIN_LINES: Final = (
    "a abbr acronym b bdi bdo big cite code data dfn del em font i ins kbd label mark q s samp small span strike strong "
    "sub sup time tt u var wbr"
)
_INLINE: Final = frozenset(_WITHIN_LINES.split())
_TITLE: Final = re.compile(r"<title\b[^<>]{0,1000}>(.{0,2000}?)</title", re.I | re.S)
_BODY: Final = re.compile(r"<body\b", re.I)


class HtmlReader:
    """One document. The title comes first, as a heading, unless the page says it itself."""

    name: ClassVar[str] = "html"
    suffixes: ClassVar[frozenset[str]] = frozenset({".html", ".htm", ".xhtml"})

    def score(self, source: SourceFile) -> int | None:
        return 10 if source.media_type == HTML else None

    def read(self, source: SourceFile) -> Iterator[Finding]:
        data = source.path.read_bytes()
        decoded = decode(data, declared=declared_charset(data))
        yield from decoded.findings()
        text, is_whole = to_markdown(decoded.text)
        if not is_whole:
            yield Notice.PARTIAL_TEXT
        yield Document(as_seen(text))


def to_markdown(page: str, *, title_known_as: str = "") -> tuple[str, bool]:
    """(Markdown of a page, whether all of it could be converted).

    Args:
        title_known_as: what stands above the text already, so that the title need not say it again.
    """
    from html_to_markdown import ConversionOptions, PreprocessingOptions, WarningKind, convert

    options = ConversionOptions(
        extract_metadata=False,
        autolinks=False,
        compact_tables=True,
        skip_images=True,
        hidden_content="reachable",
        expand_abbreviations=False,
        include_blockquote_citations=False,
        strip_tags=list(_STRESS),
        max_depth=MAX_DEPTH,
        preprocessing=PreprocessingOptions(enabled=False),
    )
    plainer = _CAPTION.sub(r"<\1p>", _IMAGE.sub(_alternative, _LINK.sub("<a>", page)))
    result = convert(plainer, options)
    is_too_deep = any(warning.kind == WarningKind.DEPTH_LIMIT_EXCEEDED for warning in result.warnings)
    body = words(plainer) if is_too_deep else result.content or ""
    title = _title(page)
    if title and title.casefold() not in (title_known_as + body[:2000]).casefold():
        body = f"# {title}\n\n{body}"
    return body, is_too_deep or not result.warnings


def as_seen(markdown: str) -> str:
    """Markdown without the backslashes before dots and dashes at the beginnings of lines, so that `1. May` is found."""
    lines = markdown.split("\n")
    is_code = False
    for place, line in enumerate(lines):
        if _FENCE.match(line):
            is_code = not is_code
        elif not is_code and "\\" in line:
            lines[place] = _NUMBER.sub(r"\1\2\3\4", line)
    return "\n".join(lines)


def words(page: str) -> str:
    """All text between the tags; blocks on lines of their own. Each tag is looked at once, so depth costs nothing."""
    parts: list[str] = []
    endless: set[str] = set()  #: what never ends is no more than its opening tag, so that no words are lost
    start = 0
    while (found := _MARKUP.search(page, start)) is not None:
        parts.append(html.unescape(page[start : found.start()]))
        start = found.end()
        name = "!--" if found.group() == "<!--" else (found.group(2) or "").lower()
        if name in _UNSEEN and not found.group(1) and name not in endless:
            end = _UNSEEN[name].search(page, start)
            start = end.end() if end else start
            endless.update(() if end else (name,))
        if name not in _INLINE:
            parts.append("\n")
    parts.append(html.unescape(page[start:]))
    lines = (" ".join(line.split()) for line in "".join(parts).splitlines())
    return "\n\n".join(filter(None, lines))


def declared_charset(data: bytes) -> str | None:
    """The charset that a page, or a file of XML, names in its first lines."""
    found = _CHARSET.search(data[:PROLOGUE_BYTES])
    return (found.group(1) or found.group(2)).decode("ascii") if found else None


def _alternative(image: re.Match[str]) -> str:
    found = _ALT.search(image.group(1))
    return f" {found.group(1) or found.group(2) or found.group(3) or ''} " if found else ""


def _title(page: str) -> str:
    body = _BODY.search(page)  # pictures in the body have titles as well
    found = _TITLE.search(page, 0, body.start() if body else len(page))
    return " ".join(html.unescape(found.group(1)).split()) if found else ""
