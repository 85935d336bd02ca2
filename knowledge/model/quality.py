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
