"""Writing Markdown: what several readers turn their formats into."""

from collections.abc import Iterable, Sequence


def table(rows: Sequence[Sequence[str]]) -> str:
    """A table whose first row is its head; short rows are filled up, line breaks become spaces, bars are escaped."""
    width = max(len(row) for row in rows)
    lines = [f"| {' | '.join(_cell(text) for text in (*row, *[''] * (width - len(row))))} |" for row in rows]
    lines.insert(1, f"|{' --- |' * width}")
    return "\n".join(lines)


def joined(blocks: Iterable[str]) -> str:
    """Blank lines between blocks, none inside a list."""
    parts: list[str] = []
    was_item = False
    for block in blocks:
        is_item = block.lstrip().startswith("- ")
        if parts:
            parts.append("\n" if was_item and is_item else "\n\n")
        parts.append(block)
        was_item = is_item
    return "".join(parts)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
