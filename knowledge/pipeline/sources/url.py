"""What is behind an address: a page as Markdown, or a file for its reader."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, Literal, Self
from urllib.parse import unquote, urlsplit

from knowledge.errors import FetchBlocked, FetchFault, FetchRefused, FetchSlowDown, FetchTooLarge, NoTextExtracted
from knowledge.model.documents import Checkpoint
from knowledge.model.names import numbered, safe_name, split_extension
from knowledge.model.rates import Limit
from knowledge.model.urls import host_of, place_of
from knowledge.pipeline.http.client import Answer, WebClient
from knowledge.pipeline.http.retry_after import retry_after_seconds
from knowledge.pipeline.readers import media_type as types
from knowledge.pipeline.readers.decoding import decode, looks_like_text
from knowledge.pipeline.sources.page import Page, read_page
from knowledge.pipeline.sources.reader_service import ReaderService
from knowledge.pipeline.sources.robots import Robots
from knowledge.pipeline.sources.walls import MOST_CHARACTERS, is_error_page, is_wall

STEM_CHARACTERS: Final = 80
MAX_REFRESHES: Final = 3  #: pages that only send on to another one
PAGE: Final = "text/markdown"  #: media type of a capture that is a snapshot
ACCEPT: Final = "text/html,application/xhtml+xml,application/pdf,text/*;q=0.9,*/*;q=0.8"
DEFAULT_WAIT_SECONDS: Final = 30.0  #: where a server says "slow down" but not for how long

_HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
_LOOKS_LIKE_HTML: Final = re.compile(
    rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.I | re.S
)
_HAS_TAGS: Final = re.compile(rb"<[a-z!/]", re.I)
_HEADING: Final = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.M)
_ENCODED_NAME: Final = re.compile(r"filename\*\s*=\s*([\w-]+)'[^']*'([^;]+)", re.I)
_PLAIN_NAME: Final = re.compile(r'filename\s*=\s*(?:"([^"]*)"|([^;\s]+))', re.I)
_SUFFIX_OF: Final = {
    types.CSV: ".csv",
    types.DOC: ".doc",
    types.DOCX: ".docx",
    types.EPUB: ".epub",
    types.IPYNB: ".ipynb",
    types.JSON: ".json",
    types.JSON_LINES: ".jsonl",
    types.MAIL: ".eml",
    types.MARKDOWN: ".md",
    types.ODP: ".odp",
    types.ODS: ".ods",
    types.ODT: ".odt",
    types.PDF: ".pdf",
    types.PPT: ".ppt",
    types.PPTX: ".pptx",
    types.RST: ".rst",
    types.RTF: ".rtf",
    types.SVG: ".svg",
    types.TSV: ".tsv",
    types.XLS: ".xls",
    types.XLSX: ".xlsx",
    types.XML: ".xml",
    "image/bmp": ".bmp",
    "image/gif": ".gif",
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "image/tiff": ".tif",
    "image/webp": ".webp",
    "text/rtf": ".rtf",
    "text/xml": ".xml",
    "application/x-ndjson": ".jsonl",
    "application/atom+xml": ".xml",
    "application/rss+xml": ".xml",
    "application/ld+json": ".json",
}


@dataclass(frozen=True, slots=True)
class Captured:
    """What was behind an address, ready to be stored. One of `text` and `content` is given."""

    url: str  #: after redirects
    title: str | None  #: as the page calls itself
    name: str  #: wanted file name
    media_type: str  #: `PAGE` for a snapshot, else as the server declares it
    text: str | None = None  #: Markdown of a page, never blank
    content: bytes | None = None  #: a file
    canonical: str | None = None
    language: str | None = None  #: ISO 639-1
    charset: str | None = None
    converter: str | None = None
    replaced_characters: int = 0


@dataclass(frozen=True, slots=True)
class Web:
    """How pages are fetched in this installation. Holds no connection; what it remembers of robots is each process's own."""

    client: WebClient
    robots: Robots
    service: ReaderService | None = None  #: fetches the pages in our place
    obey_robots: Literal["children", "always", "never"] = "children"  #: of single pages, a person has asked for each
    page_bytes: int = 5 << 20  #: of HTML; files may have as much as the client takes
    host_at_once: int = 3
    host_per_minute: int = 60
    service_at_once: int = 3
    service_per_minute: int = 10
    sitemap_pages: int = 1_000  #: most children of a sitemap or feed

    @classmethod
    def plain(cls) -> Self:
        """Direct fetches of public addresses."""
        client = WebClient()
        return cls(client, Robots(client))

    def limit(self, url: str) -> Limit:
        """Whose patience a fetch of this page uses up."""
        if self.service is not None:
            return Limit(f"reader:{self.service.host}", self.service_at_once, self.service_per_minute)
        return self.host_limit(url)

    def host_limit(self, url: str) -> Limit:
        return Limit(f"host:{place_of(url)}", self.host_at_once, self.host_per_minute)

    def capture(self, url: str, checkpoint: Checkpoint, *, is_child: bool = False) -> Captured:
        """Fetch one page.

        Args:
            is_child: it was found by us, in a sitemap or feed, not named by a person.

        Raises:
            FetchFault: one of its kinds. NoTextExtracted: a page without text. InvalidUrl.
        """
        obeys = self.obey_robots == "always" or (self.obey_robots == "children" and is_child)

        def permit(hop: str) -> None:
            if obeys:
                self.robots.require_allowed(hop, checkpoint)

        if self.service is not None:
            self.client.require_outside(url)
            permit(url)
            served = self.service.read(url, checkpoint)
            name = snapshot_name(served.title, served.text, url)
            _refuse_walls(200, {}, served.title, served.text)
            return Captured(url, served.title, name, PAGE, text=served.text, converter=f"reader {self.service.host}")
        for _ in range(MAX_REFRESHES + 1):
            answer = self.client.get(url, headers={"accept": ACCEPT}, checkpoint=checkpoint, permit=permit)
            require_success(answer)
            if not is_html(answer):
                return _file(answer)
            page = self._read(answer)
            _refuse_walls(answer.status, lower(answer), page.title, page.text)
            if page.leads_to in (None, answer.url) or len(page.text) > MOST_CHARACTERS:
                return _captured(answer, page)
            url = page.leads_to or url
        raise FetchRefused("This page leads from one address to the next without an end.", redirects=MAX_REFRESHES)

    def _read(self, answer: Answer) -> Page:
        if len(answer.content) > self.page_bytes:
            raise FetchTooLarge("This page is larger than a page may be.", bytes=len(answer.content), limit=self.page_bytes)
        language = answer.headers.get("content-language")
        return read_page(answer.content, answer.url, header_charset=answer.charset, header_language=language)


def _captured(answer: Answer, page: Page) -> Captured:
    if not page.text.strip():
        raise NoTextExtracted("This page holds no text; it may be made by a script only.", url=answer.url)
    return Captured(
        url=answer.url,
        title=page.title,
        name=snapshot_name(page.title, page.text, answer.url),
        media_type=PAGE,
        text=page.text,
        canonical=page.canonical,
        language=page.language,
        charset=page.charset,
        converter="readability" if page.is_main_part else None,
        replaced_characters=page.replaced_characters,
    )


def require_success(answer: Answer) -> None:
    """Raises:
    FetchSlowDown: 429, or 503 with a time. FetchBlocked: a wall, whatever its status. FetchFault: 5xx, 408, 425.
    FetchRefused: every other status that is no success, and an empty body.
    """
    wait = retry_after_seconds(answer.headers.get("retry-after"))
    status = answer.status
    if status == 503 and wait is not None:
        raise FetchSlowDown(retry_after_seconds=wait, status=status)
    if status >= 400:
        shown = read_page(answer.content, answer.url, header_charset=answer.charset) if answer.content.strip() else None
        if is_wall(status, lower(answer), shown.title if shown else None, shown.text if shown else ""):
            raise FetchBlocked(status=status)
    if status == 429:
        raise FetchSlowDown(retry_after_seconds=DEFAULT_WAIT_SECONDS if wait is None else wait, status=status)
    if status >= 500 or status in (408, 425):
        raise FetchFault(f"The web server answered with status {status}.", status=status)
    if not 200 <= status < 300:
        raise FetchRefused(f"The web server answered with status {status}.", status=status)
    if not answer.content.strip():
        raise FetchRefused("The web server gave an empty page.", status=status)


def is_html(answer: Answer) -> bool:
    """By the bytes; the header decides only what bytes cannot tell."""
    head = answer.content[: types.HEAD_BYTES]
    if b"%PDF-" in head[:1024] or not looks_like_text(head):
        return False
    if _LOOKS_LIKE_HTML.match(head.lstrip(b"\xef\xbb\xbf")):
        return answer.content_type not in ("text/plain", types.MARKDOWN)  # the source of a page, shown as such
    return answer.content_type in _HTML_TYPES and _HAS_TAGS.search(answer.content) is not None


def lower(answer: Answer) -> Mapping[str, str]:
    return {name.lower(): value for name, value in answer.headers.items()}


def shown_title(title: str | None, text: str) -> str:
    """How a page is called: as it calls itself, else by its first heading, else by its first line; may be empty."""
    if title and title.strip():
        return title.strip()
    heading = _HEADING.search(text)
    return heading.group(1) if heading else next((line.strip() for line in text.splitlines() if line.strip()), "")


def snapshot_name(title: str | None, text: str, url: str) -> str:
    """The file name of a snapshot: of what the page is called, else of its address."""
    stem = safe_name(shown_title(title, text)[:STEM_CHARACTERS].strip(), fallback="") or _stem_of(url)
    return numbered(f"{stem}.md", 0)


def _stem_of(url: str) -> str:
    last = PurePosixPath(unquote(urlsplit(url).path)).name
    return safe_name(f"{host_of(url)}-{last}"[:STEM_CHARACTERS].strip("-") if last else host_of(url), fallback="page")


def _refuse_walls(status: int, headers: Mapping[str, str], title: str | None, text: str) -> None:
    if is_wall(status, headers, title, text):
        raise FetchBlocked(status=status)
    if is_error_page(title, text):
        raise FetchRefused("The web server says that it has no such page, or that it failed.", status=status, title=title)


def _file(answer: Answer) -> Captured:
    """A document behind an address, under a name that fits what it is."""
    given = _given_name(answer)
    content, charset = answer.content, None
    if answer.charset and answer.content_type.startswith("text/") and looks_like_text(content[: types.HEAD_BYTES]):
        content, charset = _as_utf8(content, answer.charset)
    suffix = _suffix(answer, split_extension(given)[1].lower())
    stem = split_extension(given)[0] if split_extension(given)[1] else given
    name = numbered(f"{safe_name(stem[:STEM_CHARACTERS], fallback='') or _stem_of(answer.url)}{suffix}", 0)
    return Captured(answer.url, given or None, name, answer.content_type, content=content, charset=charset)


def _as_utf8(content: bytes, declared: str) -> tuple[bytes, str | None]:
    """Text in the charset that only the header knows is kept as UTF-8, because the header is not kept."""
    decoded = decode(content, declared=declared)
    if decoded.notices or decoded.encoding.replace("_", "-").lower().startswith("utf"):
        return content, None
    return decoded.text.encode("utf-8", "replace"), decoded.encoding


def _given_name(answer: Answer) -> str:
    """As the server names the download (RFC 6266: the encoded form first), else the last part of the address."""
    header = str(answer.headers.get("content-disposition", ""))
    if encoded := _ENCODED_NAME.search(header):
        charset, text = encoded.groups()
        named = unquote(
            text.strip(), encoding=charset if charset.lower() in ("utf-8", "iso-8859-1") else "utf-8", errors="replace"
        )
    else:
        plain = _PLAIN_NAME.search(header)
        named = (plain.group(1) or plain.group(2) or "") if plain else ""
    last = PurePosixPath(unquote(urlsplit(answer.url).path, errors="replace")).name
    return safe_name(PurePosixPath(named.replace("\\", "/")).name or last, fallback="")


def _suffix(answer: Answer, given: str) -> str:
    head = answer.content[: types.HEAD_BYTES]
    declared = _SUFFIX_OF.get(answer.content_type, "")
    if b"%PDF-" in head[:1024]:
        return ".pdf"
    if looks_like_text(head):
        is_page_name = given in (".html", ".htm", ".xhtml") and answer.content_type != "text/plain"
        fits = given in types.TEXT_SUFFIXES and not is_page_name
        return declared if declared in types.TEXT_SUFFIXES else given if fits else ".txt"
    return declared if declared not in types.TEXT_SUFFIXES and declared else given if given not in types.TEXT_SUFFIXES else ""
