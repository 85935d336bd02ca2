"""Writing Markdown: what several readers turn their formats into."""

from collections.abc import Sequence


def table(rows: Sequence[Sequence[str]]) -> str:
    """A table whose first row is its head; short rows are filled up, line breaks become spaces, bars are escaped."""
    width = max(len(row) for row in rows)
    lines = [f"| {' | '.join(_cell(text) for text in (*row, *[''] * (width - len(row))))} |" for row in rows]
    lines.insert(1, f"|{' --- |' * width}")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
