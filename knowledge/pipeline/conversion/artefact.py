"""The Markdown that a conversion leaves beside the file: a head of flat `key: value` lines, then the pages.

Pages are divided by form feeds, so the n-th one is page n even if those before it are empty. A body without page numbers says
so in its head. Values are JSON, so nothing in a name can end the head.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from knowledge.errors import CorruptSource
from knowledge.model.documents import Document, ReadResult
from knowledge.model.quality import Quality
from knowledge.model.status import Notice
from knowledge.pipeline.readers.decoding import clean

PAGE_BREAK: Final = "\f"
_FENCE: Final = "---\n"
_TYPE: Final = "Conversion"


@dataclass(frozen=True, slots=True)
class Artefact:
    """What a conversion found."""

    pages: Sequence[str]  #: their text in order; one entry if the converter does not know pages
    media_type: str  #: of the file that was converted
    converter: str  #: for people: `tesseract 5.3.0 (eng+deu)`
    has_pages: bool = True  #: whether `pages` are pages of the file, by their number
    unread: Sequence[int] = ()  #: pages, 1-based, that show something of which no text could be made
    is_partial: bool = False  #: the converter says that something is missing, not where
    extra: Mapping[str, str | int] = field(default_factory=dict)  #: whatever else a person may want to know


def write(path: Path, artefact: Artefact) -> None:
    """Raises `OSError`."""
    head: dict[str, Any] = {
        "type": _TYPE,
        "media_type": artefact.media_type,
        "converter": artefact.converter,
        "has_pages": artefact.has_pages,
        "unread": list(artefact.unread),
        "is_partial": artefact.is_partial,
        **artefact.extra,
    }
    lines = "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in head.items())
    body = f"\n{PAGE_BREAK}\n".join(page.replace(PAGE_BREAK, "\n").strip("\n") for page in artefact.pages)
    text = f"{_FENCE}{lines}{_FENCE}{body}\n"
    path.write_bytes(text.encode(errors="replace"))


def read(path: Path) -> ReadResult:
    """The pages as documents, without the empty ones.

    Raises:
        CorruptSource: this was not written by `write`. OSError.
    """
    head, body = _parted(path.read_bytes().decode(errors="replace"))
    has_pages = bool(head.get("has_pages"))
    pages = body.split(PAGE_BREAK) if has_pages else [body]
    texts = [clean(page).strip("\n") for page in pages]
    documents = [
        Document(text, page=number if has_pages else None) for number, text in enumerate(texts, start=1) if text.strip()
    ]
    notices = set()
    if head.get("unread") or head.get("is_partial"):
        notices.add(Notice.PARTIAL_TEXT if documents else Notice.NO_TEXT_EXTRACTED)
    quality = Quality(
        media_type=str(head.get("media_type")),
        reader="conversion",
        converter=str(head.get("converter")),
        pages=len(pages) if has_pages else None,
        pages_with_text=len(documents) if has_pages else None,
        characters=sum(len(document.text) for document in documents),
    )
    return ReadResult(documents, str(head.get("media_type")), "conversion", frozenset(notices), quality)


def _parted(text: str) -> tuple[dict[str, Any], str]:
    start, _, body = text.partition(f"\n{_FENCE}") if text.startswith(_FENCE) else ("", "", "")
    try:
        head = {key: json.loads(value) for key, _, value in (line.partition(": ") for line in start.splitlines()[1:])}
    except ValueError as error:
        raise CorruptSource("This is not what a conversion leaves.", reader="conversion") from error
    if head.get("type") != _TYPE:
        raise CorruptSource("This is not what a conversion leaves.", reader="conversion")
    return head, body
