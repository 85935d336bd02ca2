"""Where a command's answer goes: one JSON object, or short tables and lines for people.

The answer goes to stdout, everything said about it (hints, progress, errors) to stderr, so a pipe gets the answer alone.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import IO, TYPE_CHECKING, Final

from knowledge.interfaces.cli.printable import printable
from knowledge.interfaces.cli.shapes import JsonObject
from knowledge.interfaces.cli.table import laid_out

if TYPE_CHECKING:
    from rich.console import Console

UNBOUNDED: Final = 100_000  #: columns of what is not a terminal: a pipe or a file gets whole lines
NARROW: Final = 72  #: columns below which a table of ids cannot be read; records are printed instead


@dataclass(frozen=True)
class Output:
    """The answer of one command, in the form that was asked for."""

    as_json: bool = False

    def answer(self, wire: JsonObject, people: Callable[["Output"], None]) -> None:
        """Print `wire` as JSON, or let `people` print it for people."""
        if self.as_json:
            self._print(json.dumps(wire))  # ASCII only: no terminal and no locale can trip over a foreign character
        else:
            people(self)

    def object(self, wire: JsonObject) -> None:
        """One of many JSON objects, on a line of its own."""
        self._print(json.dumps(wire))

    def hint(self, text: str) -> None:
        """Say something beside the answer; silent with `--json`, whose stderr holds errors only."""
        if not self.as_json:
            print(printable(text), file=sys.stderr)

    def line(self, text: str = "") -> None:
        self._print(printable(text))

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]], *, whole: Sequence[str] = ("ID",)) -> None:
        """A table without rules. Columns named in `whole` are never cut, the others where the terminal is too narrow."""
        cells = [[printable(cell) for cell in row] for row in rows]
        used = [at for at in range(len(columns)) if any(row[at] for row in cells)]
        columns, cells = [columns[at] for at in used], [[row[at] for at in used] for row in cells]
        if not cells:
            return
        if self.console.width < NARROW:
            self._records(columns, cells)
        else:
            self._table(columns, cells, whole)

    def record(self, fields: Mapping[str, str | None]) -> None:
        """One thing, a line for each field that has a value."""
        shown = {name: value for name, value in fields.items() if value not in (None, "")}
        width = max((len(name) for name in shown), default=0)
        for name, value in shown.items():
            self.line(f"{name.ljust(width)}  {value}")

    def styled(self, text: str, style: str, *, words: Sequence[str] = (), indent: int = 0) -> None:
        """A line or paragraph, wrapped to the terminal, with `words` set off where the terminal can."""
        from rich.padding import Padding
        from rich.text import Text

        body = Text(printable(text), style=style)
        if words:
            body.highlight_words(list(words), "bold", case_sensitive=False)
        if self.console.width >= UNBOUNDED:
            self._print(" " * indent + body.plain)
        else:
            self.console.print(Padding(body, (0, 0, 0, indent), expand=False))

    @cached_property
    def console(self) -> "Console":
        return console(sys.stdout)

    def _table(self, columns: Sequence[str], cells: Sequence[Sequence[str]], whole: Sequence[str]) -> None:
        from rich.text import Text

        keep = {at for at, column in enumerate(columns) if column in whole}
        head, *lines = laid_out([columns, *cells], self.console.width, keep=keep)
        self.console.print(Text(head, style="bold"), soft_wrap=True)
        for line in lines:
            self._print(line)

    def _records(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        for row in rows:
            self.record(dict(zip(columns, row, strict=True)))
            self.line()

    def _print(self, text: str) -> None:
        print(text)


def console(stream: IO[str]) -> "Console":
    """A rich console that never reads markup into foreign text and never cuts what a pipe receives."""
    from rich.console import Console

    width = None if stream.isatty() else UNBOUNDED
    return Console(file=stream, width=width, markup=False, emoji=False, highlight=False)


def clock(when: datetime | None, *, seconds: bool = False) -> str:
    """Local time to the minute or second, for people."""
    return when.astimezone().strftime("%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M") if when else ""


def detail(of: Mapping[str, object]) -> str:
    """The human part of an error's detail: its message, else its fields."""
    message = of.get("message")
    if message:
        return str(message)
    return ", ".join(f"{name}={plain(value)}" for name, value in of.items() if value is not None)


def plain(value: object) -> str:
    """A value of an error's detail as people write it."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {plain(inner)}" for name, inner in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(plain(inner) for inner in value)
    return str(value)


def counted(number: int, noun: str, plural: str | None = None) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"
