"""What became of a file on its way to text, so that a person sees what is missing."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quality:
    """What a reader found out about a file; None where the format does not have it or nobody looked."""

    media_type: str | None = None  #: by the bytes
    reader: str | None = None
    charset: str | None = None
    language: str | None = None  #: ISO 639-1, if it is clear
    converter: str | None = None  #: what made the text, if not the reader alone: `tesseract 5.3`, `docling` …
    pages: int | None = None  #: or slides, sheets, chapters: what the format is divided into
    pages_with_text: int | None = None
    characters: int = 0  #: code points of the text
    replaced_characters: int = 0  #: U+FFFD put in for what could not be decoded


@dataclass(frozen=True, slots=True)
class Facts:
    """What only a reader can know about its file. It yields one or more between its documents; what is set later wins.

    Everything else of `Quality` is counted from the documents: characters, replaced characters, and pages where documents have
    page numbers (blank documents count as pages without text).
    """

    charset: str | None = None  #: as Python names it
    language: str | None = None  #: as the file declares it: ISO 639-1, a region is cut off
    converter: str | None = None
    pages: int | None = None  #: slides, sheets or chapters, or where some pages have no document
    pages_with_text: int | None = None  #: where it is not the number of pages or locators that gave text
