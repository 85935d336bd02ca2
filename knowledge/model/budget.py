"""What reading one file may take. A meter counts against it and refuses with the figure and the limit."""

import time
from dataclasses import dataclass
from typing import Final

from knowledge.errors import ReaderBudgetExceeded

MIB: Final = 1 << 20
MAX_RATIO: Final = 200  #: unpacked bytes for each byte of an archive; text reaches twenty, a bomb a thousand
SLACK_BYTES: Final = 64 * MIB  #: more than that, so that a small archive of blanks is no bomb yet


def most_inflated_bytes(packed_bytes: int) -> int:
    """What an archive of this size may unpack to, all its parts together, before it counts as a bomb."""
    return MAX_RATIO * packed_bytes + SLACK_BYTES


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits for one file, whatever is packed inside it."""

    inflated_bytes: int = 256 * MIB  #: over all parts of all archives inside it together
    entries: int = 20_000  #: parts of archives, nested ones included
    depth: int = 4  #: archives inside each other
    pages: int = 20_000  #: or slides, sheets, chapters
    pixels: int = 200_000_000  #: of one picture that would have to be unpacked; an A3 page at 600 dpi has 70 million
    characters: int = 100_000_000  #: of the text; a library of 100 long novels
    seconds: float = 120.0  #: from the first byte to the last document
    memory_bytes: int = 1024 * MIB  #: resident, of the process that reads and of those it starts


class Meter:
    """Counts what the reading of one file takes. Not shared between threads."""

    def __init__(self, budget: Budget | None = None) -> None:
        self.budget = budget or Budget()
        self.inflated_bytes = 0
        self.entries = 0
        self.pages = 0
        self._depth = 0
        self._began = time.monotonic()

    @property
    def inflated_bytes_left(self) -> int:
        return self.budget.inflated_bytes - self.inflated_bytes

    @property
    def seconds_left(self) -> float:
        return self.budget.seconds - (time.monotonic() - self._began)

    def inflate(self, size: int) -> None:
        """So many bytes were unpacked, or are about to be.

        Raises:
            ReaderBudgetExceeded
        """
        self.inflated_bytes += size
        _require("inflated_bytes", self.inflated_bytes, self.budget.inflated_bytes)

    def require_room(self, size: int) -> None:
        """Refuse what says that it unpacks to so many bytes, before it does. Nothing is counted yet.

        Raises:
            ReaderBudgetExceeded
        """
        _require("inflated_bytes", self.inflated_bytes + size, self.budget.inflated_bytes)

    def entry(self, count: int = 1) -> None:
        """So many parts of an archive are looked at.

        Raises:
            ReaderBudgetExceeded
        """
        self.entries += count
        _require("entries", self.entries, self.budget.entries)
        self.check_time()

    def page(self, count: int = 1) -> None:
        """So many pages, slides or sheets are read.

        Raises:
            ReaderBudgetExceeded
        """
        self.pages += count
        _require("pages", self.pages, self.budget.pages)
        self.check_time()

    def picture(self, width: int, height: int) -> None:
        """A picture or a page of this size, in pixels, is about to be unpacked or drawn.

        Raises:
            ReaderBudgetExceeded
        """
        _require("pixels", width * height, self.budget.pixels)

    def check_time(self) -> None:
        """For loops that count nothing else.

        Raises:
            ReaderBudgetExceeded
        """
        _require("seconds", round(time.monotonic() - self._began, 1), self.budget.seconds)

    def enter(self) -> None:
        """An archive inside this one is opened; `leave` when it is closed.

        Raises:
            ReaderBudgetExceeded
        """
        self._depth += 1
        _require("depth", self._depth, self.budget.depth)

    def leave(self) -> None:
        self._depth -= 1


_TAKES: Final = {
    "inflated_bytes": "This file unpacks to more bytes than reading it may take.",
    "entries": "This file holds more parts than reading it may take.",
    "depth": "This file holds archives inside archives, deeper than they are read.",
    "pages": "This file has more pages than reading it may take.",
    "pixels": "A picture in this file has more pixels than reading it may take.",
    "characters": "This file holds more text than reading it may give.",
    "seconds": "Reading this file took longer than it may.",
    "memory_bytes": "Reading this file took more memory than it may.",
}


def exceeded(figure: str, found: float, limit: float) -> ReaderBudgetExceeded:
    """The refusal for one figure of a budget.

    Args:
        figure: a field of `Budget`.
    """
    return ReaderBudgetExceeded(_TAKES[figure], figure=figure, found=found, limit=limit)


def _require(figure: str, found: float, limit: float) -> None:
    if found > limit:
        raise exceeded(figure, found, limit)
