"""PowerPoint files as Markdown, slide by slide: title, text of all shapes, tables, charts, diagrams, notes and comments."""

from collections.abc import Iterator
from typing import ClassVar, Final

from knowledge.errors import CorruptSource
from knowledge.model.documents import Document, SourceFile
from knowledge.model.quality import Facts
from knowledge.pipeline.readers.drawing import graphic, paragraphs, shape_table
from knowledge.pipeline.readers.media_type import PPTX
from knowledge.pipeline.readers.ooxml import Element, Package, attribute, child, chosen, local, opened
from knowledge.pipeline.readers.port import Finding

_TITLES: Final = ("title", "ctrTitle")


class PptxReader:
    """One document for each slide, hidden ones as well; a slide without text is a blank one."""

    name: ClassVar[str] = "pptx"
    suffixes: ClassVar[frozenset[str]] = frozenset({".pptx", ".pptm", ".ppsx", ".ppsm", ".potx"})

    def score(self, source: SourceFile) -> int | None:
        return 10 if source.media_type == PPTX else None

    def read(self, source: SourceFile) -> Iterator[Finding]:
        with opened(source) as package:
            yield from slides(package, source)


def slides(package: Package, source: SourceFile) -> Iterator[Finding]:
    """
    Raises:
        CorruptSource, EncryptedSource, ReaderBudgetExceeded
    """
    main = package.main_part("ppt/presentation.xml")
    root = package.xml(main)
    if root is None:
        raise CorruptSource("This PowerPoint file has no presentation part.", part=main)
    parts = {one.id: one.target for one in package.relationships(main)}
    authors = _authors(package, main)
    names = [parts.get(_relation(one), "") for one in root.iter("{*}sldId")]
    names = [name for name in names if name in package]
    yield Facts(pages=len(names))
    for number, name in enumerate(names, start=1):
        source.budget.page()
        yield Document(_slide(package, name, authors), locator=f"slide {number}")


def _slide(package: Package, name: str, authors: dict[str, str]) -> str:
    related = package.relationships(name)
    parts = {one.id: one.target for one in related}
    title: list[str] = []
    blocks: list[str] = []
    root = package.xml(name)
    for kind, text in _shapes(package, root, parts) if root is not None else ():
        (title if kind in _TITLES and not title else blocks).append(text)
    blocks[:0] = [f"# {' '.join(title[0].split())}"] if title else []
    for one in related:
        part = package.xml(one.target) if one.kind in ("notesSlide", "comments") else None
        if part is not None and one.kind == "notesSlide":
            notes = "\n".join(text for _, text in _shapes(package, part, {}))
            blocks += [f"Notes: {notes}"] if notes else []
        elif part is not None:
            blocks += _comments(part, authors)
    return "\n\n".join(blocks)


def _shapes(package: Package, parent: Element, parts: dict[str, str]) -> Iterator[tuple[str, str]]:
    """(kind of placeholder or nothing, text) of each shape that has text, groups opened, from back to front."""
    for element in parent:
        match local(element):
            case "sp" | "cxnSp":
                kind = _placeholder(element)
                body = child(element, "txBody")
                text = "\n".join(paragraphs(body)) if body is not None and kind not in ("sldNum", "sldImg") else ""
                if text:
                    yield kind, text
            case "tbl":
                if text := shape_table(element):
                    yield "", text
            case "chart" | "relIds":
                if text := graphic(package, element, parts):
                    yield "", text
            case "AlternateContent":
                yield from _shapes(package, chosen(element), parts)
            case "cSld" | "spTree" | "grpSp" | "graphicFrame" | "graphic" | "graphicData" | "Choice" | "Fallback":
                yield from _shapes(package, element, parts)


def _placeholder(shape: Element) -> str:
    place = next(shape.iter("{*}ph"), None)
    return (attribute(place, "type") or "body") if place is not None else ""


def _relation(element: Element) -> str:
    """The id of the relationship that an element names; it also has a plain `id` of its own."""
    return next((str(value) for key, value in element.items() if key.endswith("}id")), "")


def _authors(package: Package, main: str) -> dict[str, str]:
    """Names of those who commented, by their ids."""
    found: dict[str, str] = {}
    for one in package.relationships(main):
        root = package.xml(one.target) if one.kind in ("commentAuthors", "authors") else None
        for author in root if root is not None else ():
            found[attribute(author, "id") or ""] = attribute(author, "name") or ""
    return found


def _comments(part: Element, authors: dict[str, str]) -> Iterator[str]:
    """Comments of both forms, answers after what they answer."""
    for comment in part.iter("{*}cm", "{*}reply"):
        body = child(comment, "txBody")
        plain = child(comment, "text")
        text = "\n".join(paragraphs(body)) if body is not None else (plain.text or "") if plain is not None else ""
        author = authors.get(attribute(comment, "authorId") or "", "")
        if text.strip():
            yield f"[comment{f' by {author}' if author else ''}]: {text.strip()}"
