"""The pages that a sitemap or feed names: sitemaps.org (packed, and indexes as well), RSS 0.9 to 2.0, Atom, plain lists.

A feed tells of its latest entries only, so what it does not name any more has not vanished. Nor has anything if one of several
sitemaps could not be read, or one breaks off.
"""

import gzip
import zlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from enum import StrEnum
from io import BytesIO
from typing import Any, Final
from urllib.parse import urljoin

from knowledge import clock
from knowledge.errors import CorruptSource, FetchBlocked, FetchFault, FetchSlowDown, FetchTooLarge, InvalidUrl
from knowledge.model.documents import Checkpoint
from knowledge.model.skip_reason import SkipReason
from knowledge.model.status import ItemType
from knowledge.model.urls import normal_url
from knowledge.pipeline.http.client import Answer
from knowledge.pipeline.sources.children import Child, Entry, Partial, Skipped
from knowledge.pipeline.sources.page import read_page
from knowledge.pipeline.sources.url import Web, is_html, lower, require_success
from knowledge.pipeline.sources.walls import is_wall

MAX_DEPTH: Final = 3  #: of indexes inside indexes; the standard allows one
MAX_FILES: Final = 500  #: sitemaps of one index
MAX_ADDRESSES: Final = 200_000  #: that are looked at, or four times as many as may be taken; each is remembered
MAX_SECONDS: Final = 900.0  #: for all files together: one drips, and there may be 500
MAX_ELEMENTS: Final = 100_000  #: inside one entry; all of it is in memory
ACCEPT: Final = "application/xml,text/xml,application/rss+xml,application/atom+xml,text/plain;q=0.8,*/*;q=0.5"
_SHOWN_CHARACTERS: Final = 200
_ENTRIES: Final = frozenset({"url", "sitemap", "item", "entry"})
_ROOTS: Final = frozenset({"urlset", "sitemapindex", "rss", "RDF", "feed"})
_SLASH: Final = "\u2215"  #: stands for a slash in what is shown of an address: all pages lie in one folder


class _Kind(StrEnum):
    PAGE = "page"
    SITEMAP = "sitemap"
    ENTRY = "entry"  #: of a feed


@dataclass(frozen=True, slots=True)
class _Named:
    kind: _Kind
    address: str
    changed: str | None = None  #: as the file says it


class SitemapChildren:
    """Args:
    url: of the sitemap or feed.
    """

    def __init__(self, url: str, web: Web) -> None:
        self._url = url
        self._web = web

    def scan(self, checkpoint: Checkpoint) -> Generator[Entry, None, None]:
        """Raises:
        FetchFault: one of its kinds: the file itself cannot be had. CorruptSource: it is neither sitemap nor feed.
        """
        until = clock.monotonic() + MAX_SECONDS
        most = max(MAX_ADDRESSES, 4 * self._web.sitemap_pages)
        seen: set[str] = set()
        taken = files = 0
        pending: list[tuple[str, int]] = [(self._url, 0)]
        while pending:
            url, depth = pending.pop(0)
            if len(seen) >= most or (depth and clock.monotonic() > until):
                yield from _unknown(url, SkipReason.OVER_LIMIT)
                continue
            files += 1
            try:
                named = self._named(url, checkpoint)
                for one in named:
                    checkpoint()
                    try:
                        address = normal_url(urljoin(url, one.address))
                    except (InvalidUrl, ValueError):
                        yield Skipped(_shown(one.address), SkipReason.INVALID)
                        continue
                    if address in seen:
                        continue
                    if len(seen) >= most:
                        yield from _unknown(url, SkipReason.OVER_LIMIT)  # whatever else this file names
                        break
                    seen.add(address)
                    if one.kind is _Kind.SITEMAP:
                        if depth < MAX_DEPTH and files + len(pending) < MAX_FILES:
                            pending.append((address, depth + 1))
                        else:
                            yield from _unknown(address, SkipReason.OVER_LIMIT)
                        continue
                    if one.kind is _Kind.ENTRY:
                        yield Partial("")
                    if taken >= self._web.sitemap_pages:
                        yield Skipped(_shown(address), SkipReason.OVER_LIMIT, source=address)
                        continue
                    taken += 1
                    yield Child(ItemType.URL, _shown(address), address, None, stamp=one.changed)
            except (FetchFault, CorruptSource) as error:
                if not depth or isinstance(error, FetchSlowDown):  # the whole job waits
                    raise
                yield from _unknown(url, SkipReason.UNREADABLE)

    def _named(self, url: str, checkpoint: Checkpoint) -> Iterator[_Named]:
        answer = self._web.client.get(url, headers={"accept": ACCEPT}, checkpoint=checkpoint)
        require_success(answer)
        if is_html(answer):
            page = read_page(answer.content, answer.url, header_charset=answer.charset)
            if is_wall(answer.status, lower(answer), page.title, page.text):
                raise FetchBlocked(status=answer.status)
            raise CorruptSource("This address gives a page, not a sitemap or feed.", url=url)
        return _read(_unpacked(answer, self._web.client.limits.max_bytes), url)


def _unknown(url: str, reason: SkipReason) -> Iterator[Entry]:
    """Pages that nobody could look at: they may be there all the same."""
    yield Partial("")
    yield Skipped(_shown(url), reason, source=url)


def _unpacked(answer: Answer, limit: int) -> bytes:
    """The file itself: sitemaps are often kept packed.

    Raises:
        FetchTooLarge. CorruptSource: it cannot be unpacked to its end.
    """
    if not answer.content.startswith(b"\x1f\x8b"):
        return answer.content
    try:
        with gzip.GzipFile(fileobj=BytesIO(answer.content)) as packed:
            content = packed.read(limit + 1)
    except (EOFError, OSError, zlib.error) as error:  # what a file that breaks off does not name has not vanished
        raise CorruptSource("This sitemap cannot be unpacked.", url=answer.url, reason=str(error)) from error
    if len(content) > limit:
        raise FetchTooLarge("This sitemap unpacks to more than may be fetched.", limit=limit)
    return content


def _read(content: bytes, url: str) -> Iterator[_Named]:
    if content.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"<":
        return _read_xml(content, url)
    lines = [line.strip() for line in content.decode("utf-8-sig", "replace").splitlines()]
    if any(line and not line.lower().startswith(("http://", "https://")) for line in lines):
        raise CorruptSource("This address gives neither a sitemap nor a feed.", url=url)
    return (_Named(_Kind.PAGE, line) for line in lines if line)


def _read_xml(content: bytes, url: str) -> Iterator[_Named]:
    """What an XML file names, read in one pass: entities are not resolved, nothing is loaded.

    Raises:
        CorruptSource: no sitemap or feed, or it breaks off; what was named before stands.
    """
    from lxml import etree

    reader = etree.iterparse(
        BytesIO(content), events=("start", "end"), recover=True, resolve_entities=False, no_network=True, load_dtd=False
    )
    depth = 0
    entry = inside = 0  #: depth of the entry that is being read, or 0, and how many elements it has
    is_known = False
    try:
        for event, element in reader:
            if not isinstance(element.tag, str):
                continue
            if event == "start":
                if depth == 0 and not (is_known := _local(element) in _ROOTS):
                    break
                depth += 1
                inside += 1
                if not entry and _local(element) in _ENTRIES:
                    entry, inside = depth, 0
                if entry and inside > MAX_ELEMENTS:
                    raise CorruptSource("One entry of this sitemap or feed never ends.", url=url)
                continue
            if depth == entry:
                entry = 0
                if (named := _named_by(element)) is not None:
                    yield named
            depth -= 1
            if not entry and depth:
                _forget(element)
    except etree.XMLSyntaxError as error:
        raise CorruptSource("This sitemap or feed is damaged.", url=url, reason=str(error)[:200]) from error
    if not is_known:
        raise CorruptSource("This address gives neither a sitemap nor a feed.", url=url)
    if any(entry.level_name == "FATAL" for entry in reader.error_log):
        raise CorruptSource("This sitemap or feed is damaged.", url=url)


def _named_by(element: Any) -> _Named | None:
    match _local(element):
        case "url" | "sitemap" as kind:
            address = _text(element, "loc")
            return _Named(_Kind(kind if kind == "sitemap" else "page"), address, _text(element, "lastmod")) if address else None
        case "item":
            permanent = _child(element, "guid")
            guid = (permanent.text or "").strip() if permanent is not None and permanent.get("isPermaLink") != "false" else ""
            address = _text(element, "link") or (guid if guid.lower().startswith("http") else "") or _about(element)
            return _Named(_Kind.ENTRY, address, _text(element, "pubDate") or _text(element, "date")) if address else None
        case "entry":
            links = [child for child in element if isinstance(child.tag, str) and _local(child) == "link" and child.get("href")]
            chosen = next((link for link in links if link.get("rel", "alternate") == "alternate"), None)
            identity = _text(element, "id")
            address = chosen.get("href") if chosen is not None else identity if identity.startswith("http") else ""
            return _Named(_Kind.ENTRY, address, _text(element, "updated")) if address else None
        case _:
            return None


def _about(element: Any) -> str:
    found = next((value for name, value in element.attrib.items() if name.endswith("}about")), "")
    return str(found)


def _child(element: Any, name: str) -> Any:
    return next((child for child in element if isinstance(child.tag, str) and _local(child) == name), None)


def _text(element: Any, name: str) -> str:
    """Of a child, without line breaks and doubled blanks; empty if there is none."""
    child = _child(element, name)
    return " ".join((child.text or "").split()) if child is not None else ""


def _local(element: Any) -> str:
    return str(element.tag).rpartition("}")[2]


def _forget(element: Any) -> None:
    """Free what has been read, so that memory does not grow with the file."""
    element.clear()
    parent = element.getparent()
    if parent is not None:
        while element.getprevious() is not None:
            del parent[0]


def _shown(address: str) -> str:
    return address.replace("/", _SLASH)[:_SHOWN_CHARACTERS]
