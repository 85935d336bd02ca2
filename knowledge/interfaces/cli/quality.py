"""What a reader found, in a few words for people."""

from knowledge.interfaces.cli.output import counted
from knowledge.model.quality import Quality
from knowledge.model.results import Coverage


def pages(quality: Quality) -> str:
    """`14 pages`, `12/14 pages` where some gave no text, or nothing where the format has none."""
    if quality.pages is None:
        return ""
    noun = "page" if quality.pages == 1 else "pages"
    if quality.pages_with_text is None or quality.pages_with_text >= quality.pages:
        return f"{quality.pages} {noun}"
    return f"{quality.pages_with_text}/{quality.pages} {noun}"


def record(quality: Quality) -> dict[str, str | None]:
    """The lines of `item show`."""
    read_by = " with ".join(filter(None, (quality.reader, quality.converter)))
    return {
        "media type": quality.media_type,
        "read by": read_by or None,
        "charset": quality.charset,
        "language": quality.language,
        "pages": pages(quality) or None,
        "characters": f"{quality.characters:,}" if quality.reader else None,
        "unreadable": counted(quality.replaced_characters, "character") if quality.replaced_characters else None,
    }


def coverage(found: Coverage) -> str:
    """`423 of 501 items have text, 12 partial, 3 empty, 75 failed`."""
    if not found.items:
        return "no items"
    verb = "has" if found.with_text == 1 else "have"
    parts = [f"{found.with_text} of {counted(found.items, 'item')} {verb} text"]
    parts += [f"{number} {what}" for number, what in _lacking(found) if number]
    return ", ".join(parts)


def _lacking(found: Coverage) -> tuple[tuple[int, str], ...]:
    return (found.partial, "partial"), (found.without_text, "empty"), (found.failed, "failed")
