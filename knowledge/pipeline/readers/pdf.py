"""The text layer of a PDF, page by page, with the values of its form fields. Scanned pages come out empty."""

import re
import threading
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from knowledge.errors import CorruptSource, EncryptedSource
from knowledge.model.documents import Document, SourceFile
from knowledge.model.status import Notice
from knowledge.pipeline.readers.media_type import PDF

_LIBRARY: Final = threading.Lock()  #: PDFium keeps global state and must not be entered by two threads
_HYPHENS: Final = re.compile("[\x02\ufffe]")  #: PDFium's mark for a hyphen that only broke a line
_IDEOGRAPHS: Final = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_PAIR: Final = re.compile(f"(?<=[{_IDEOGRAPHS}]) ?(?=[{_IDEOGRAPHS}])")
_SPACED_PAIR: Final = re.compile(f"(?<=[{_IDEOGRAPHS}]) (?=[{_IDEOGRAPHS}])")


class PdfReader:
    """One document for each page that has text; a page that cannot be read does not cost the others."""

    name: ClassVar[str] = "pdf"
    suffixes: ClassVar[frozenset[str]] = frozenset({".pdf"})

    def score(self, source: SourceFile) -> int | None:
        return 10 if source.media_type == PDF else None

    def read(self, source: SourceFile) -> Iterator[Document | Notice]:
        with _LIBRARY:
            document = _opened(source)
        try:
            read = failed = 0
            for number in range(len(document)):
                with _LIBRARY:
                    text, is_whole = _page(document, number)
                if text is None:
                    failed += 1
                else:
                    read += 1
                    yield Document(text, page=number + 1)
                if not is_whole:
                    yield Notice.PARTIAL_TEXT
            if failed and not read:
                raise CorruptSource("No page of this PDF can be read.", pages=failed)
        finally:
            with _LIBRARY:
                document.close()


def _opened(source: SourceFile) -> Any:
    from pypdfium2 import PdfDocument, PdfiumError, raw

    try:
        document = PdfDocument(source.path)  # an empty user password is tried: files with an owner password only do open
        if document.get_formtype() != raw.FORMTYPE_NONE:
            document.init_forms()
    except PdfiumError as error:
        if getattr(error, "err_code", None) == raw.FPDF_ERR_PASSWORD:
            raise EncryptedSource() from error
        raise CorruptSource(detail=str(error)) from error
    return document


def _page(document: Any, number: int) -> tuple[str | None, bool]:
    """(text of a page or None if it is damaged, whether its text is all there is to see)."""
    from pypdfium2 import PdfiumError

    try:
        page = document[number]
        try:
            textpage = page.get_textpage()
            text = _tidy(textpage.get_text_bounded())
            textpage.close()
            values = "\n".join(_form_values(page))
            is_whole = bool(text.strip()) or next(iter(page.get_objects(max_depth=1)), None) is None
        finally:
            page.close()
    except PdfiumError:
        return None, False
    return "\n".join(part for part in (text, values) if part.strip()), is_whole


def _form_values(page: Any) -> Iterator[str]:
    """What somebody filled in: `name: value`, where PDFium does not show it as text of the page."""
    from pypdfium2 import raw

    if page.formenv is None:
        return
    for place in range(raw.FPDFPage_GetAnnotCount(page)):
        field = raw.FPDFPage_GetAnnot(page, place)
        if not field:
            continue
        try:
            if raw.FPDFAnnot_GetSubtype(field) == raw.FPDF_ANNOT_WIDGET:
                value = _string(raw.FPDFAnnot_GetFormFieldValue, page.formenv, field)
                if value.strip():
                    yield f"{_string(raw.FPDFAnnot_GetFormFieldName, page.formenv, field)}: {value}"
        finally:
            raw.FPDFPage_CloseAnnot(field)


def _string(getter: Any, formenv: Any, field: Any) -> str:
    """PDFium's way with strings: ask for the size in bytes, then for UTF-16 with a closing zero."""
    from ctypes import c_ushort

    size = getter(formenv, field, None, 0)
    buffer = (c_ushort * (size // 2))()
    getter(formenv, field, buffer, size)
    return bytes(buffer).decode("utf-16-le", errors="replace").rstrip("\0")


def _tidy(text: str) -> str:
    """Words broken at a line end joined again, and letter-spaced Chinese or Japanese closed up, so that it can be found."""
    text = _HYPHENS.sub("", text)
    spaced = len(_SPACED_PAIR.findall(text))
    return _SPACED_PAIR.sub("", text) if spaced and spaced * 2 > len(_PAIR.findall(text)) else text
