"""The text layer of a PDF page by page, what was filled into its form or noted on its pages, and the files attached to it.

Scanned pages come out empty and are told as partial text: `pdf_pages` says which they are.
"""

import io
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, Final

from knowledge.errors import CorruptSource, SourceFault
from knowledge.model.documents import Document, SourceFile
from knowledge.model.quality import Facts
from knowledge.model.status import Notice
from knowledge.pipeline.readers.inside import ends_outer, placed, read_inside
from knowledge.pipeline.readers.media_type import PDF
from knowledge.pipeline.readers.pdf_pages import LIBRARY, lacks_text, opened, page_count
from knowledge.pipeline.readers.port import Finding

MAX_ATTACHMENTS: Final = 1_000
_WRITTEN: Final = frozenset({1, 3, 9, 10, 11, 12, 13, 14})  #: kinds of notes: text, free text, marks, stamps, carets
_HYPHENS: Final = re.compile("[\x02\ufffe]")  #: PDFium's mark for a hyphen that only broke a line
_IDEOGRAPHS: Final = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_PAIR: Final = re.compile(f"(?<=[{_IDEOGRAPHS}]) ?(?=[{_IDEOGRAPHS}])")
_SPACED_PAIR: Final = re.compile(f"(?<=[{_IDEOGRAPHS}]) (?=[{_IDEOGRAPHS}])")


class PdfReader:
    """One document for each page, so that each is counted; a page that cannot be read does not cost the others."""

    name: ClassVar[str] = "pdf"
    suffixes: ClassVar[frozenset[str]] = frozenset({".pdf"})

    def score(self, source: SourceFile) -> int | None:
        return 10 if source.media_type == PDF else None

    def read(self, source: SourceFile) -> Iterator[Finding]:
        with LIBRARY:
            document = opened(source.path)
        try:
            yield from _pages(document, source)
            yield from _attachments(document, source)
        finally:
            with LIBRARY:
                document.close()


def _pages(document: Any, source: SourceFile) -> Iterator[Finding]:
    read = with_text = 0
    with LIBRARY:
        pages = page_count(document)
    for number in range(pages):
        source.budget.page()
        with LIBRARY:
            text, is_whole = _page(document, number)
        if text is not None:
            read += 1
            with_text += bool(text.strip())
        yield Document(text or "", page=number + 1)
        if not is_whole:
            yield Notice.PARTIAL_TEXT
    if pages and not read:
        raise CorruptSource("No page of this PDF can be read.", pages=pages)
    yield Facts(pages=pages, pages_with_text=with_text)


def _page(document: Any, number: int) -> tuple[str | None, bool]:
    """(text of a page or None if it is damaged, whether its text is all there is to see)."""
    from pypdfium2 import PdfiumError

    try:
        page = document[number]
        try:
            textpage = page.get_textpage()
            text = _tidy(textpage.get_text_bounded())
            textpage.close()
            notes = "\n".join(_notes(page))
            is_whole = not lacks_text(page, text)
        finally:
            page.close()
    except PdfiumError:
        return None, False
    return "\n".join(part for part in (text, notes) if part.strip()), is_whole


def _notes(page: Any) -> Iterator[str]:
    """What somebody filled in, as `name: value`, or wrote on the page; PDFium does not show it as text of the page."""
    from pypdfium2 import raw

    for place in range(raw.FPDFPage_GetAnnotCount(page)):
        annotation = raw.FPDFPage_GetAnnot(page, place)
        if not annotation:
            continue
        try:
            kind = raw.FPDFAnnot_GetSubtype(annotation)
            if kind == raw.FPDF_ANNOT_WIDGET:
                yield from _form_value(page.formenv, annotation) if page.formenv is not None else ()
            elif kind in _WRITTEN and not raw.FPDFAnnot_GetFlags(annotation) & raw.FPDF_ANNOT_FLAG_HIDDEN:
                note = _string(raw.FPDFAnnot_GetStringValue, annotation, b"Contents").strip()
                yield from (note,) if note else ()
        finally:
            raw.FPDFPage_CloseAnnot(annotation)


def _form_value(formenv: Any, field: Any) -> Iterator[str]:
    """A choice is shown by the label that a person sees; a box without its mark says nothing."""
    from pypdfium2 import raw

    value = _string(raw.FPDFAnnot_GetFormFieldValue, formenv, field).strip()
    if not value or value == "Off":
        return
    options = max(raw.FPDFAnnot_GetOptionCount(formenv, field), 0)
    labels = [
        _string(raw.FPDFAnnot_GetOptionLabel, formenv, field, option)
        for option in range(options)
        if raw.FPDFAnnot_IsOptionSelected(formenv, field, option)
    ]
    shown = ", ".join(label for label in labels if label.strip()) or value
    yield f"{_string(raw.FPDFAnnot_GetFormFieldName, formenv, field)}: {shown}"


def _attachments(document: Any, source: SourceFile) -> Iterator[Finding]:
    with LIBRARY:
        count = min(document.count_attachments(), MAX_ATTACHMENTS)
    for number in range(count):
        source.budget.entry()
        with LIBRARY:
            name, data = _attachment(document, number)
        source.budget.inflate(len(data))
        try:
            result = read_inside(io.BytesIO(data), name, source) if data else None
        except SourceFault as error:
            if ends_outer(error):
                raise
            result = None
        place = f"attachment {name}"
        if result is None or not result.documents:
            yield Notice.PARTIAL_TEXT
            yield Document(f"# {name}", locator=place)
            continue
        first, *others = result.documents
        yield replace(placed(first, place), text=f"# {name}\n\n{first.text}", locator=place)
        yield from (placed(document, place) for document in others)


def _attachment(document: Any, number: int) -> tuple[str, bytes]:
    from pypdfium2 import PdfiumError

    try:
        attachment = document.get_attachment(number)
        return " ".join(attachment.get_name().split()) or "unnamed", bytes(attachment.get_data())
    except PdfiumError:
        return "unnamed", b""


def _string(getter: Any, *arguments: Any) -> str:
    """PDFium's way with strings: ask for the size in bytes, then for UTF-16 with a closing zero."""
    from ctypes import c_ushort

    size = getter(*arguments, None, 0)
    buffer = (c_ushort * (size // 2))()
    getter(*arguments, buffer, size)
    return bytes(buffer).decode("utf-16-le", errors="replace").rstrip("\0")


def _tidy(text: str) -> str:
    """Words broken at a line end joined again, and letter-spaced Chinese or Japanese closed up, so that it can be found."""
    text = _HYPHENS.sub("", text)
    if text.isascii():
        return text
    spaced = len(_SPACED_PAIR.findall(text))
    return _SPACED_PAIR.sub("", text) if spaced and spaced * 2 > len(_PAIR.findall(text)) else text
