"""Columns for people. Rich drops whole columns where one cell is long; here the longest one gives way, and ids stay whole."""

from collections.abc import Sequence, Set
from typing import Final

GAP: Final = "  "
LEAST: Final = 8  #: terminal columns that a cut column keeps
CUT: Final = "…"


def laid_out(rows: Sequence[Sequence[str]], width: int, *, keep: Set[int] = frozenset()) -> list[str]:
    """One line for each row, cells padded to columns.

    Args:
        rows: printable text, all of one length, the heading first.
        width: terminal columns to stay within, where the columns in `keep` leave room for that.
        keep: positions of columns that are never cut.
    """
    from rich.cells import cell_len

    widths = [max(cell_len(row[at]) for row in rows) for at in range(len(rows[0]))]
    _fit(widths, width - len(GAP) * (len(widths) - 1), keep)
    return [GAP.join(_cell(text, wide) for text, wide in zip(row, widths, strict=True) if wide).rstrip() for row in rows]


def _fit(widths: list[int], width: int, keep: Set[int]) -> None:
    while sum(widths) > width:
        widest = max((at for at in range(len(widths)) if at not in keep), key=lambda at: widths[at], default=None)
        if widest is None or widths[widest] <= LEAST:
            return
        widths[widest] = max(LEAST, widths[widest] - (sum(widths) - width))


def _cell(text: str, width: int) -> str:
    """The text in exactly `width` terminal columns, cut in its middle: how a path ends tells as much as how it begins.

    A wide character that would stick out is left out.
    """
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width:
        return set_cell_size(text, width)
    tail = _end(text, (width - 1) // 3)
    head = set_cell_size(text, width - 1 - cell_len(tail)).rstrip()
    return set_cell_size(head + CUT + tail, width)


def _end(text: str, width: int) -> str:
    """As much of the end as fits."""
    from rich.cells import cell_len

    tail = text[-width:]
    while cell_len(tail) > width:
        tail = tail[1:]
    return tail
