"""What a base and an item can be, and which of these mean the same to whom."""

from enum import StrEnum
from typing import Final


class BaseStatus(StrEnum):
    COMPLETED = "completed"
    FAILED = "failed"  #: rows can be listed and deleted; everything else is refused until restored


class ItemType(StrEnum):
    FILE = "file"
    URL = "url"
    NOTE = "note"
    DIRECTORY = "directory"
    ARCHIVE = "archive"  #: a zip or tar file; each member is a child
    SITEMAP = "sitemap"  #: a sitemap or feed; each page is a child


CONTAINERS: Final = frozenset({ItemType.DIRECTORY, ItemType.ARCHIVE, ItemType.SITEMAP})


class ItemStatus(StrEnum):
    IDLE = "idle"  #: created, nothing scheduled
    PREPARING = "preparing"  #: a directory is being expanded
    PROCESSING = "processing"  #: leaf accepted, or container with active children
    READING = "reading"
    EMBEDDING = "embedding"
    COMPLETED = "completed"
    FAILED = "failed"
    DELETING = "deleting"  #: hidden everywhere; rows and bytes still to be removed


ACTIVE: Final = frozenset({ItemStatus.PREPARING, ItemStatus.PROCESSING, ItemStatus.READING, ItemStatus.EMBEDDING})
TERMINAL: Final = frozenset({ItemStatus.COMPLETED, ItemStatus.FAILED})


class Notice(StrEnum):
    """A non-fatal finding about an item, shown wherever the item is shown."""

    NO_TEXT_EXTRACTED = "no_text_extracted"
    PARTIAL_TEXT = "partial_text"  #: some pages or parts gave no text
    ENCODING_REPLACED = "encoding_replaced"  #: bytes that are not valid in the charset became U+FFFD
    ENCODING_GUESSED = "encoding_guessed"  #: not UTF-8; the charset was detected
    OCR_MISSING = "ocr_missing"  #: pages without text were not read, because no tesseract is installed
    FILES_SKIPPED = "files_skipped"  #: a directory left some of its files out


INDEXING_INTERRUPTED: Final = "indexing_interrupted"  #: item error code: its job's process was lost or cancelled
INDEX_LOST: Final = "index_lost"  #: item error code: its text is not in the index any more, because that was damaged or gone
CHILD_FAILED: Final = "child_failed"  #: item error code of a container
