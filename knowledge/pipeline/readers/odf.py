"""OpenDocument files, packed or flat: what texts, presentations and spreadsheets have in common."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from knowledge.errors import CorruptSource, EncryptedSource
from knowledge.model.documents import SourceFile
from knowledge.pipeline.readers.budget import opened_zip
from knowledge.pipeline.readers.markdown import table
from knowledge.pipeline.readers.ooxml import Element, Package, attribute, child, local, parsed

_NOT_SHOWN: Final = frozenset(
    {
        "tracked-changes",  # what was deleted
        "annotation-end",
        "ruby-text",  # a reading aid, as in other formats
        "note-citation",
        "scripts",
        "event-listeners",
        "binary-data",
        "date-string",
        "creator-initials",
    }
)
_ABOUT: Final = ("http://purl.org/dc/elements/", "urn:oasis:names:tc:opendocument:xmlns:svg-compatible:")  #: not shown either
_HEADING: Final = re.compile(r"heading(?:_20_|\s)?([1-6])$", re.I)
_SPACES: Final = 64  #: a longer run of spaces means nothing
_REPEATED: Final = 1_000  #: equal cells or rows that are written out; a sheet may claim a million
_COLUMNS: Final = 64  #: of a table in a text


class OpenDocument:
    """The trees of one file."""

    def __init__(self, content: Element, styles: Element | None, package: Package | None) -> None:
        self.content, self.styles, self.package = content, styles, package

    def body(self, *kinds: str) -> Element:
        """
        Raises:
            CorruptSource: there is no such body.
        """
        body = child(self.content, "body")
        for kind in kinds:
            if body is not None and (found := child(body, kind)) is not None:
                return found
        raise CorruptSource("This OpenDocument file does not hold what its type says.", expected=list(kinds))


@contextmanager
def opened(source: SourceFile) -> Iterator[OpenDocument]:
    """
    Raises:
        CorruptSource, EncryptedSource, ReaderBudgetExceeded
    """
    if is_flat(source):
        data = source.path.read_bytes()
        source.budget.inflate(len(data))
        root = parsed(data, source.name)
        yield OpenDocument(root, root, None)
        return
    with packed(source) as package:
        content = package.xml("content.xml")
        if content is None:
            raise CorruptSource("This OpenDocument file has no content.", part="content.xml")
        yield OpenDocument(content, package.xml("styles.xml"), package)


@contextmanager
def packed(source: SourceFile) -> Iterator[Package]:
    """The parts of a packed file that needs no password.

    Raises:
        CorruptSource, EncryptedSource, ReaderBudgetExceeded
    """
    with opened_zip(source) as archive:
        package = Package(archive)
        if b"encryption-data" in (package.bytes("META-INF/manifest.xml") or b""):
            raise EncryptedSource
        yield package


def is_flat(source: SourceFile) -> bool:
    with source.path.open("rb") as file:
        return not file.read(2).startswith(b"PK")


class Flow:
    """Turns the elements of a text into Markdown blocks; notes and comments are kept until `notes` is asked."""

    def __init__(self, document: OpenDocument | None = None) -> None:
        self._levels = _heading_levels(document) if document is not None else {}
        self._package = document.package if document is not None else None
        self._notes: list[str] = []
        self._number = 0
        self._tables = 0  #: that are being read, one inside the other
        self._deletions: set[str] = set()  #: ids of tracked changes that took text away
        self._deleting: set[str] = set()  #: of those, the ones whose text stands in its place and is being passed

    def notes(self) -> list[str]:
        """Notes and comments met since the last call."""
        notes, self._notes = self._notes, []
        return notes

    def blocks(self, parent: Element, indent: int = -1) -> Iterator[str]:
        for element in parent:
            match local(element):
                case "h":
                    yield from self._paragraph(element, "#" * min(_number(element, "outline-level", 1), 6) + " ")
                case "p":
                    level = self._levels.get(attribute(element, "style-name") or "", 0)
                    yield from self._paragraph(element, "#" * level + " " if level else "")
                case "list":
                    yield from self._list(element, indent + 1)
                case "table":
                    yield from self._table(element)
                case "annotation":
                    self._comment(element)
                case "object":
                    yield from self._object(element)
                case "forms":
                    yield from _form_values(element)
                case "tracked-changes":
                    self._note_deletions(element)
                case "change-start" | "change-end":
                    self._pass_change(element)
                case _ if _is_shown(element):
                    yield from self.blocks(element, indent)

    def line(self, parent: Element) -> str:
        """All text of an element on one line, that of boxes in it as well."""
        return " ".join(" ".join(self.blocks(parent)).split())

    def _paragraph(self, element: Element, prefix: str) -> Iterator[str]:
        inner: list[str] = []
        text = "".join(self._inline(element, inner)).strip()
        if text:
            yield prefix + text
        yield from inner

    def _inline(self, parent: Element, inner: list[str]) -> Iterator[str]:
        """Text of a paragraph; boxes and tables in it go to `inner`, to follow it."""
        yield self._kept(parent.text)
        for element in parent:
            match local(element):
                case "s":
                    yield " " * min(_number(element, "c", 1), _SPACES)
                case "tab":
                    yield "\t"
                case "line-break":
                    yield "\n"
                case "change-start" | "change-end":
                    self._pass_change(element)
                case "page-number":
                    pass  # a mark for a number that only a printed page has
                case "note":
                    yield self._note(element)
                case "annotation":
                    self._comment(element)
                case (
                    "frame"
                    | "custom-shape"
                    | "g"
                    | "rect"
                    | "line"
                    | "polyline"
                    | "ellipse"
                    | "text-box"
                    | "table"
                    | "connector"
                ):
                    inner.extend(self.blocks([element] if local(element) == "table" else element))
                case _ if _is_shown(element):
                    yield from self._inline(element, inner)
            yield self._kept(element.tail)

    def _list(self, element: Element, indent: int) -> Iterator[str]:
        for item in element:
            first = True
            for block in self.blocks(item, indent):
                is_deeper = block.lstrip().startswith("- ") or block.startswith(("|", "#"))
                yield block if is_deeper else f"{'  ' * indent}- {block}" if first else f"{'  ' * indent}  {block}"
                first = False

    def _table(self, element: Element) -> Iterator[str]:
        self._tables += 1
        rows = [list(self._row(row)) for row in table_rows(element)]
        self._tables -= 1
        if any(text for row in rows for text in row):  # one inside a cell of another is words
            yield " ".join(text for row in rows for text in row if text) if self._tables else table(rows)

    def _row(self, row: Element) -> Iterator[str]:
        for cell in row:
            if local(cell) in ("table-cell", "covered-table-cell"):
                text = self.line(cell)
                yield from [text] * min(_number(cell, "number-columns-repeated", 1), _COLUMNS)

    def _kept(self, text: str | None) -> str:
        """White space of the file is only one space: real ones are elements."""
        return re.sub(r"[ \t\r\n]+", " ", text) if text and not self._deleting else ""

    def _note_deletions(self, element: Element) -> None:
        for region in element.iter("{*}changed-region"):
            if child(region, "deletion") is not None:
                self._deletions.add(attribute(region, "id") or "")

    def _pass_change(self, element: Element) -> None:
        change = attribute(element, "change-id") or ""
        if local(element) == "change-end":
            self._deleting.discard(change)
        elif change in self._deletions:
            self._deleting.add(change)

    def _note(self, element: Element) -> str:
        self._number += 1
        body = child(element, "note-body")
        if body is not None:
            self._notes.append(f"[^{self._number}]: {' '.join(self.blocks(body))}")
        return f"[^{self._number}]"

    def _comment(self, element: Element) -> None:
        author = child(element, "creator")
        by = f" by {author.text}" if author is not None and author.text else ""
        text = " ".join(self.blocks(element))
        if text.strip():
            self._notes.append(f"[comment{by}]: {text}")

    def _object(self, element: Element) -> Iterator[str]:
        """A chart or formula that lies in a folder of the package."""
        place = (attribute(element, "href") or "").removeprefix("./").strip("/")
        root = self._package.xml(f"{place}/content.xml") if place and self._package is not None else None
        body = child(root, "body") if root is not None else None
        yield from self.blocks(body if body is not None else element)


def _form_values(forms: Element) -> Iterator[str]:
    """`label: value` of the fields that somebody can fill in."""
    for field in forms.iter():
        parts = (attribute(field, "label"), attribute(field, "current-value") or attribute(field, "value"))
        if local(field) not in ("form", "properties", "property", "list-property") and any(parts):
            yield ": ".join(part for part in parts if part)


def _is_shown(element: Element) -> bool:
    name = local(element)
    return bool(name) and name not in _NOT_SHOWN and not element.tag[1:].startswith(_ABOUT)


def headers_and_footers(flow: Flow, styles: Element | None) -> Iterator[str]:
    """Each once, though every kind of page may have its own."""
    found: dict[str, None] = {}
    for name in ("header", "footer"):
        for element in styles.iter(f"{{*}}{name}", f"{{*}}{name}-left", f"{{*}}{name}-first") if styles is not None else ():
            text = "\n\n".join(flow.blocks(element))
            if text.strip():
                found.setdefault(text)
    yield from found


def table_rows(element: Element) -> Iterator[Element]:
    """The rows of a table, also those in groups and headers."""
    for one in element:
        match local(one):
            case "table-row":
                yield one
            case "table-header-rows" | "table-rows" | "table-row-group":
                yield from table_rows(one)


def repeated(element: Element, name: str) -> int:
    """How often a cell or row stands there, not more often than it is worth writing out."""
    return min(_number(element, name, 1), _REPEATED)


def count(element: Element, name: str) -> int:
    """How often a cell or row says that it stands there."""
    return _number(element, name, 1)


def _number(element: Element, name: str, default: int) -> int:
    value = attribute(element, name) or ""
    return int(value) if value.isascii() and value.isdecimal() and len(value) < 10 else default


def _heading_levels(document: OpenDocument) -> dict[str, int]:
    """Level of the styles that make a paragraph a title, though it is none by its element; inherited as well."""
    parents: dict[str, str] = {}
    for root in (document.styles, document.content):
        for style in root.iter("{*}style") if root is not None else ():
            parents[attribute(style, "name") or ""] = attribute(style, "parent-style-name") or ""
    levels: dict[str, int] = {}
    for name in parents:
        ancestor, seen = name, set[str]()
        while ancestor and ancestor not in seen:
            seen.add(ancestor)
            if found := _HEADING.match("Heading 1" if ancestor == "Title" else ancestor):
                levels[name] = int(found[1])
                break
            ancestor = parents.get(ancestor, "")
    return levels
