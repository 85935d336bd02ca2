"""What a reader found, in a few words for people."""

from knowledge.model.quality import Quality


def pages(quality: Quality) -> str:
    """`14 pages`, `12/14 pages` where some gave no text, or nothing where the format has none."""
    if quality.pages is None:
        return ""
    noun = "page" if quality.pages == 1 else "pages"
    if quality.pages_with_text is None or quality.pages_with_text >= quality.pages:
        return f"{quality.pages} {noun}"
    return f"{quality.pages_with_text}/{quality.pages} {noun}"
