"""A note: text that somebody typed, kept as a Markdown snapshot."""

from datetime import datetime
from typing import Final

from knowledge.model.names import safe_name
from knowledge.pipeline.snapshot import Frontmatter, serialise

STEM_CHARACTERS: Final = 80
FALLBACK: Final = "note"


def title(source: str) -> str:
    """The first line of a note's source that is not blank, trimmed; empty if there is none."""
    return next((line.strip() for line in source.splitlines() if line.strip()), "")


def stem(source: str) -> str:
    """What a note's snapshot is called, without extension: its title cut to 80 characters and made safe, else `note`."""
    return safe_name(title(source)[:STEM_CHARACTERS].strip(), fallback=FALLBACK)


def snapshot(source: str, content: str, written_at: datetime) -> str:
    """The Markdown file that keeps a note: frontmatter, then its content verbatim."""
    return serialise(Frontmatter(type="Note", title=title(source), timestamp=written_at.isoformat()), content)


def is_blank(content: str) -> bool:
    """Whether a note says nothing: no character that is more than white space or a zero-width mark."""
    return not content.strip().strip("\u200b\u200c\u200d\u2060\ufeff").strip()
