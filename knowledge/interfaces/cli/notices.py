"""What a person can do about a notice."""

from collections.abc import Iterable

from knowledge.model.status import Notice
from knowledge.model.tools import INSTALL_TESSERACT
from knowledge.model.views import Item


def advice(items: Iterable[Item]) -> str | None:
    """The next step for these items, if their notices have one."""
    if any(Notice.OCR_MISSING in item.notices for item in items):
        return f"scans were not read: tesseract is not there; {INSTALL_TESSERACT}; then: knowledge item reindex BASE ITEM"
    return None
