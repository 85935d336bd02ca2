"""Books (EPUB 2 and 3): title and authors, then the chapters in reading order, each as Markdown.

A book is a zip of web pages: META-INF/container.xml names the package file, whose manifest lists the pages and whose spine
orders them. Books are found with any of these missing or wrong, so each has a substitute.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final
from urllib.parse import unquote

from knowledge.errors import CorruptSource, EncryptedSource, SourceFault
from knowledge.model.documents import Document, SourceFile
from knowledge.model.quality import Facts
from knowledge.model.status import Notice
from knowledge.pipeline.readers.budget import Zip, opened_zip
from knowledge.pipeline.readers.decoding import clean, decode
from knowledge.pipeline.readers.html import as_seen, declared_charset, to_markdown
from knowledge.pipeline.readers.inside import ends_outer
from knowledge.pipeline.readers.media_type import EPUB
from knowledge.pipeline.readers.port import Finding

_PAGES: Final = frozenset({".xhtml", ".html", ".htm", ".xml"})
_PAGE_TYPES: Final = frozenset({"application/xhtml+xml", "text/html", "text/x-oeb1-document", "application/x-dtbook+xml"})
#: Algorithms that only hide fonts from copying; every other one hides text.
_FONTS_ONLY: Final = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
_HEADING: Final = re.compile(r"^#{1,6} +(.+)$", re.M)
_LONGEST_TITLE: Final = 80  #: characters of a locator

_Element = Any  #: lxml has no types of its own


@dataclass(frozen=True, slots=True)
class _Book:
    head: str  #: title and authors as Markdown
    language: str | None
    pages: tuple[str, ...]  #: names of the entries, in reading order
    titles: Mapping[str, str]  #: of pages, by the table of contents


class EpubReader:
    """One document for each page of the book that has text, located by its chapter."""

    name: ClassVar[str] = "epub"
    suffixes: ClassVar[frozenset[str]] = frozenset({".epub"})

    def score(self, source: SourceFile) -> int | None:
        return 10 if source.media_type == EPUB else None

    def read(self, source: SourceFile) -> Iterator[Finding]:
        with opened_zip(source) as archive:
            hidden = _hidden(archive)
            book = _book(archive)
            if not book.pages:
                raise CorruptSource("This book has no page.")
            if len(hidden.intersection(book.pages)) * 2 > len(book.pages):  # the cover is often left open
                raise EncryptedSource("This book is protected against copying.")
            yield Document(book.head)
            with_text = 0
            for number, page in enumerate(book.pages, start=1):
                source.budget.page()
                try:
                    text, notices = _read(archive, page) if page not in hidden else ("", {Notice.PARTIAL_TEXT})
                except (SourceFault, KeyError) as error:
                    if isinstance(error, EncryptedSource) or (isinstance(error, SourceFault) and ends_outer(error)):
                        raise
                    text, notices = "", {Notice.PARTIAL_TEXT}
                yield from sorted(notices)
                with_text += bool(text.strip())
                yield Document(text, locator=f"chapter {_title(book, page, text) or number}")
            yield Facts(pages=len(book.pages), pages_with_text=with_text, language=book.language)


def _read(archive: Zip, name: str) -> tuple[str, set[Notice]]:
    data = archive.read(name)
    decoded = decode(data, declared=declared_charset(data))
    text, is_whole = to_markdown(clean(decoded.text))
    return as_seen(text), set(decoded.notices) | (set() if is_whole else {Notice.PARTIAL_TEXT})


def _title(book: _Book, page: str, text: str) -> str:
    found = _HEADING.search(text)
    title = " ".join((book.titles.get(page) or (found.group(1) if found else "")).split())
    return title if len(title) <= _LONGEST_TITLE else title[: _LONGEST_TITLE - 1].rstrip() + "…"


def _book(archive: Zip) -> _Book:
    name = _package_name(archive)
    package = _xml(archive, name) if name else None
    if package is None:  # what is left of the book, in the order of the archive
        pages = tuple(entry for entry in archive.entries if posixpath.splitext(entry)[1].lower() in _PAGES - {".xml"})
        return _Book("", None, pages, {})
    items = {
        item.get("id", ""): (_entry(archive, name, item.get("href", "")), item)
        for item in _all(package, "item")
        if item.get("href")
    }
    spine = [items[idref] for reference in _all(package, "itemref") if (idref := reference.get("idref", "")) in items]
    chosen = spine or list(items.values())
    pages = tuple(dict.fromkeys(entry for entry, item in chosen if _is_page(entry, item)))
    languages = [text for text in _texts(package, "language") if text]
    return _Book(_head(package), languages[0] if languages else None, pages, _contents(archive, items))


def _package_name(archive: Zip) -> str:
    container = _xml(archive, "META-INF/container.xml")
    if container is not None:
        for root in _all(container, "rootfile"):
            path = unquote(root.get("full-path", "")).lstrip("/")
            if path in archive.entries:
                return path
    return next((entry for entry in archive.entries if entry.lower().endswith(".opf")), "")


def _head(package: _Element) -> str:
    titles, authors = _texts(package, "title"), _texts(package, "creator")
    lines = [f"# {titles[0]}"] if titles else []
    if authors:
        lines.append(", ".join(dict.fromkeys(authors)))
    lines += _texts(package, "description")
    return "\n\n".join(lines)


def _contents(archive: Zip, items: Mapping[str, tuple[str, _Element]]) -> dict[str, str]:
    """Titles of pages by the table of contents of either version; the first entry that leads to a page names it."""
    titles: dict[str, str] = {}
    for name, item in items.values():
        if item.get("media-type") == "application/x-dtbncx+xml":
            for point in _all(_xml(archive, name), "navPoint"):
                target = next((content.get("src", "") for content in _all(point, "content")), "")
                titles.setdefault(_entry(archive, name, target), next(iter(_texts(point, "text")), ""))
        elif "nav" in item.get("properties", "").split():
            for link in _all(_xml(archive, name), "a"):
                titles.setdefault(_entry(archive, name, link.get("href", "")), " ".join("".join(link.itertext()).split()))
    return titles


def _hidden(archive: Zip) -> set[str]:
    """Entries that are encrypted, fonts that are only obfuscated left aside."""
    return {
        unquote(reference.get("URI", "")).lstrip("/")
        for data in _all(_xml(archive, "META-INF/encryption.xml"), "EncryptedData")
        if not any(method.get("Algorithm", "").startswith(_FONTS_ONLY) for method in _all(data, "EncryptionMethod"))
        for reference in _all(data, "CipherReference")
    }


def _entry(archive: Zip, base: str, target: str) -> str:
    """The entry that a link inside `base` leads to; looked up without regard to case where it is written otherwise."""
    path = posixpath.normpath(posixpath.join("/", posixpath.dirname(base), unquote(target.partition("#")[0]))).lstrip("/")
    if path in archive.entries:
        return path
    return next((entry for entry in archive.entries if entry.lower() == path.lower()), path)


def _is_page(entry: str, item: _Element) -> bool:
    return item.get("media-type", "").lower() in _PAGE_TYPES or posixpath.splitext(entry)[1].lower() in _PAGES


def _xml(archive: Zip, name: str) -> _Element | None:
    """The root of an entry, mended where it is not well formed; None if there is nothing to mend. No entity is resolved."""
    from lxml import etree

    if name not in archive.entries:
        return None
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, recover=True)
    try:
        return etree.fromstring(archive.read(name), parser)
    except (etree.XMLSyntaxError, ValueError, CorruptSource):
        return None


def _all(root: _Element | None, name: str) -> Iterator[_Element]:
    """Elements of a name, whatever their namespace: books mix the versions."""
    if root is not None:
        yield from root.iter(f"{{*}}{name}")


def _texts(root: _Element, name: str) -> list[str]:
    return [text for element in _all(root, name) if (text := " ".join("".join(element.itertext()).split()))]
