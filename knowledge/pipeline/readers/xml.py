"""XML of any kind: the text between the tags, one line for each innermost element or run of mixed text.

Articles (JATS) and manuals (DocBook) are known well enough that their titles become headings, their tables tables, and a name
or a reference one line.
"""

import html
import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from knowledge.model.documents import Document, SourceFile
from knowledge.model.status import Notice
from knowledge.pipeline.readers.decoding import decode
from knowledge.pipeline.readers.html import declared_charset, words
from knowledge.pipeline.readers.markdown import table
from knowledge.pipeline.readers.media_type import XML
from knowledge.pipeline.readers.packed import without_packed
from knowledge.pipeline.readers.port import Finding

_DIVISIONS: Final = (
    "abstract ack app appendix article book boxed-text chapter part preface ref-list sec sect1 sect2 sect3 sect4 sect5 section"
)
_SECTIONS: Final = frozenset(_DIVISIONS.split())
_TABLES: Final = frozenset({"table", "informaltable", "tgroup"})
_ROWS: Final = frozenset({"tr", "row"})
_CELLS: Final = frozenset({"td", "th", "entry"})
_ITEMS: Final = frozenset({"li", "list-item", "listitem"})
_ONE_LINE: Final = frozenset({"element-citation", "mixed-citation", "nlm-citation", "pub-date", "string-name"})
_MENDED_SHARE: Final = 0.5  #: of the words, which a parser that mends must keep, or they are taken without it

_ROOT: Final = re.compile(r"<([^\s<>/!?][^\s<>/]*)")
_AFTER: Final = re.compile(r"\s*>\s*(?:(?:<!--(?:[^-]|-(?!->))*-->|<\?(?:[^?]|\?(?!>))*\?>)\s*)*")
#: One that begins none of XML's own names: without its escape libxml2 drops it, and words beside it.
_LONE_AMPERSAND: Final = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#[0-9]+|#x[0-9A-Fa-f]+);)")
_DECLARATION: Final = re.compile(r"^\s*<\?xml\b[^>]*>")  #: whose charset may not be that of the bytes

_Element = Any  #: lxml has no types of its own


class XmlReader:
    """One document. An element without text shows its attributes instead; what is not well formed is mended as far as it goes.

    No entity is resolved but the five of XML itself: others can name files of this machine, or grow without end.
    """

    name: ClassVar[str] = "xml"
    suffixes: ClassVar[frozenset[str]] = frozenset({".xml"})

    def score(self, source: SourceFile) -> int | None:
        return 10 if source.media_type == XML else None

    def read(self, source: SourceFile) -> Iterator[Finding]:
        from lxml import etree

        data = source.path.read_bytes()
        try:
            root = parsed(data)
        except (etree.XMLSyntaxError, ValueError):
            decoded = decode(data, declared=declared_charset(data))
            yield from decoded.findings()
            if _breaks_off(decoded.text):
                yield Notice.PARTIAL_TEXT
            yield Document(_mended(_LONE_AMPERSAND.sub("&amp;", _DECLARATION.sub("", decoded.text)), words(decoded.text)))
        else:
            yield Document("\n".join(_lines(root)))


def parsed(data: bytes, *, mends: bool = False) -> _Element:
    """The root element; no file, address or entity is followed, comments and instructions are gone.

    Args:
        mends: take what can be made of a document that is not well formed; None if that is nothing.

    Raises:
        lxml.etree.XMLSyntaxError: it is not well formed.
    """
    from lxml import etree

    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True, remove_pis=True, recover=mends
    )
    return etree.fromstring(data, parser)


def _breaks_off(text: str) -> bool:
    """Whether the end of the root element is not where it should be: at the end."""
    root = _ROOT.search(text)
    end = text.rfind(f"</{root[1]}") if root else -1
    return root is not None and (end < 0 or _AFTER.fullmatch(text, end + len(root[1]) + 2) is None)


def _mended(markup: str, plain: str) -> str:
    root = parsed(markup.encode(errors="replace"), mends=True)
    text = html.unescape("\n".join(_lines(root))) if root is not None else ""  # names that only HTML knows stay as they are
    return text if len(text.split()) >= len(plain.split()) * _MENDED_SHARE else plain


def _lines(root: _Element) -> Iterator[str]:
    """Depth first without recursion; with each element goes how many sections it is in."""
    pending = [(root, 0)]
    while pending:
        element, depth = pending.pop()
        if not isinstance(element.tag, str):  # an entity that was not resolved
            continue
        name = _local(element)
        if name in _TABLES and (rows := _rows(element)):
            yield f"\n{table(rows)}\n"
        elif name in _ONE_LINE or (name == "name" and any(_local(child) == "surname" for child in element)):
            if text := " ".join(" ".join(_named(element)).split()):
                yield text
        elif len(element) and not _is_mixed(element):
            inner = depth + (name in _SECTIONS)
            pending.extend((child, inner) for child in reversed(element))
        elif text := " ".join(without_packed("".join(element.itertext())).split()):
            yield _prefix(element, name, depth) + text
        elif element.attrib and name != "xref":
            yield ", ".join(f"{key.rpartition('}')[2]}: {value}" for key, value in element.attrib.items())


def _prefix(element: _Element, name: str, depth: int) -> str:
    parent = element.getparent()
    above = "" if parent is None else _local(parent)
    if name == "title" and above in _SECTIONS:
        return f"\n{'#' * min(depth, 6)} "
    if name == "article-title" and above == "title-group":
        return "\n# "
    first = parent is not None and parent[0] is element
    return "- " if name in _ITEMS or (above in _ITEMS and first) else ""


def _named(element: _Element) -> Iterator[str]:
    """The words of a name or a reference; given names stand before the surname, which is how people search for them."""
    if _local(element) != "name":
        yield element.text or ""
        for child in element:
            yield from _named(child)
            yield child.tail or ""
    else:
        parts = sorted(element, key=lambda part: _local(part) not in ("prefix", "given-names"))
        yield from (text for part in parts for text in part.itertext())


def _rows(element: _Element) -> list[list[str]]:
    return [
        [" ".join("".join(cell.itertext()).split()) for cell in row if _local(cell) in _CELLS]
        for row in element.iter()
        if _local(row) in _ROWS
    ]


def _local(element: _Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _is_mixed(element: _Element) -> bool:
    return bool((element.text or "").strip()) or any((child.tail or "").strip() for child in element)
