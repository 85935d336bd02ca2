"""Which pages of a PDF a person sees something on that its text layer does not say: scans, photographs, letters as outlines.

The reader tells them as `partial_text`; conversion sends exactly these to OCR.
"""

import itertools
import re
import threading
from pathlib import Path
from typing import Any, Final

from knowledge.errors import CorruptSource, EncryptedSource

LIBRARY: Final = threading.Lock()  #: PDFium keeps global state and must not be entered by two threads
_CREDIBLE_PAGES: Final = 5_000  #: more than that must have a last one
_OBJECTS: Final = 2_000  #: pictures of a page that are looked at; some are cut into thousands of strips
_COVERED: Final = 0.4  #: share of the page that pictures take, from which it is a scan and few words on it are a stamp
_STAMP_CHARACTERS: Final = 40  #: visible ones: a page number, a file mark, the name of a scanning program
#: Glyphs that the file gives no meaning: the replacement character, private use, control codes.
_MEANINGLESS: Final = re.compile("[\ufffd\ue000-\uf8ff\x00-\x08\x0e-\x1f]")
_UNKNOWN: Final = 0.3  #: share of characters without a meaning, from which a text layer is worth nothing


def pages_without_text(path: Path) -> list[int]:
    """The pages whose text must be read from their picture, 1-based and ascending.

    A page counts when it shows something (a picture, or shapes, which may be letters) and its text layer is empty, meaningless,
    or only a stamp on a scan. Blank pages, and pages with a text layer beside pictures, do not count. An empty list means that
    the text layer is all there is to read. Opens with an empty password, looks at no pixel, and ends also for hostile files.

    Raises:
        CorruptSource: this is no PDF, or it is too damaged to be opened.
        EncryptedSource: it needs a password.
    """
    with LIBRARY:
        document = opened(path)
        try:
            return [number + 1 for number in range(page_count(document)) if _page_lacks_text(document, number)]
        finally:
            document.close()


def opened(path: Path) -> Any:
    """A pypdfium2 document; the caller holds `LIBRARY` as long as it uses it, and closes it.

    Raises:
        CorruptSource, EncryptedSource
    """
    from pypdfium2 import PdfDocument, PdfiumError, raw

    try:
        document = PdfDocument(path)  # an empty user password is tried: files with an owner password only do open
        if document.get_formtype() != raw.FORMTYPE_NONE:
            document.init_forms()
    except PdfiumError as error:
        if getattr(error, "err_code", None) == raw.FPDF_ERR_PASSWORD:
            raise EncryptedSource() from error
        raise CorruptSource(detail=str(error)) from error
    return document


def page_count(document: Any) -> int:
    """How many pages there are, whatever a damaged file claims: a count that leads to nothing is not counted to its end."""
    from pypdfium2 import PdfiumError

    claimed = len(document)
    if claimed <= _CREDIBLE_PAGES:
        return claimed
    try:
        document[claimed - 1].close()
        return claimed
    except PdfiumError:
        return _CREDIBLE_PAGES


def lacks_text(page: Any, text: str) -> bool:
    """Whether a page shows more than its text layer says. `page` is a pypdfium2 page, `text` what was read from it."""
    visible = len("".join(text.split()))
    unknown = len(_MEANINGLESS.findall(text))
    if unknown > visible * _UNKNOWN:
        return True
    if visible - unknown > _STAMP_CHARACTERS:
        return False
    if not visible:
        return next(iter(page.get_objects(max_depth=1)), None) is not None
    return _pictured_share(page) >= _COVERED


def _page_lacks_text(document: Any, number: int) -> bool:
    from pypdfium2 import PdfiumError

    try:
        page = document[number]
    except PdfiumError:
        return False  # neither can it be drawn
    try:
        textpage = page.get_textpage()
        try:
            text = textpage.get_text_bounded()
        finally:
            textpage.close()
        return lacks_text(page, text)
    except PdfiumError:
        return True
    finally:
        page.close()


def _pictured_share(page: Any) -> float:
    """Share of the page under pictures, as far as its first objects tell."""
    from pypdfium2 import raw

    left, bottom, right, top = page.get_bbox()
    area = max((right - left) * (top - bottom), 1.0)
    share = 0.0
    for found in itertools.islice(page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=3), _OBJECTS):
        x0, y0, x1, y1 = found.get_bounds()
        width, height = min(x1, right) - max(x0, left), min(y1, top) - max(y0, bottom)
        share += max(width, 0.0) * max(height, 0.0) / area
    return share
