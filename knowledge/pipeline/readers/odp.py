"""OpenDocument presentations as Markdown, slide by slide, with notes and comments."""

from collections.abc import Iterator
from typing import ClassVar

from knowledge.model.documents import Document, SourceFile
from knowledge.model.quality import Facts
from knowledge.pipeline.readers.markdown import joined
from knowledge.pipeline.readers.media_type import ODP
from knowledge.pipeline.readers.odf import Flow, opened
from knowledge.pipeline.readers.ooxml import Element, attribute, local
from knowledge.pipeline.readers.port import Finding

_DRAWING = "application/vnd.oasis.opendocument.graphics"


class OdpReader:
    """One document for each slide, or page of a drawing; a slide without text is a blank one."""

    name: ClassVar[str] = "odp"
    suffixes: ClassVar[frozenset[str]] = frozenset({".odp", ".otp", ".fodp", ".odg"})

    def score(self, source: SourceFile) -> int | None:
        return 10 if source.media_type in (ODP, f"{ODP}-template", _DRAWING) else None

    def read(self, source: SourceFile) -> Iterator[Finding]:
        with opened(source) as document:
            body = document.body("presentation", "drawing")
            pages = [one for one in body if local(one) == "page"]
            margins = {(local(one), attribute(one, "name")): one.text or "" for one in body if local(one).endswith("-decl")}
            yield Facts(pages=len(pages))
            flow = Flow(document)
            for number, page in enumerate(pages, start=1):
                source.budget.page()
                blocks = [*_slide(flow, page), *_margins(page, margins)]
                yield Document(joined(blocks), locator=f"slide {number}")


def _slide(flow: Flow, page: Element) -> Iterator[str]:
    title = next((one for one in page if attribute(one, "class") == "title"), None)
    if title is not None and (text := flow.line(title)):
        yield f"# {text}"
    for element in page:
        if element is not title and local(element) != "notes":
            yield from flow.blocks([element])
    for element in page:
        if local(element) == "notes" and (notes := "\n".join(flow.blocks(element))):
            yield f"Notes: {notes}"
    yield from flow.notes()


def _margins(page: Element, margins: dict[tuple[str, str | None], str]) -> Iterator[str]:
    """Header and footer, which a slide names and the presentation holds."""
    for kind in ("header", "footer"):
        text = margins.get((f"{kind}-decl", attribute(page, f"use-{kind}-name")), "")
        if text.strip():
            yield text
