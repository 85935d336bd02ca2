"""How waiting is shown: a live bar on a terminal, a plain line now and then elsewhere, nothing with `--json`."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from knowledge.interfaces.cli.output import Output, console
from knowledge.interfaces.cli.printable import printable
from knowledge.interfaces.cli.wait import Reporter
from knowledge.model.results import StatusCounts
from knowledge.model.status import TERMINAL, ItemStatus

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

LINE_SECONDS: Final = 5.0  #: between two plain lines


def describe(counts: StatusCounts) -> str:
    """`8 completed, 2 failed, 1 reading`: what is done first, then what is going on.

    Directories count only while they expand, and where nothing but they themselves failed.
    """
    numbers = dict(counts.leaves)
    if not numbers.get(ItemStatus.FAILED) and counts.containers.get(ItemStatus.FAILED):
        numbers[ItemStatus.FAILED] = counts.containers[ItemStatus.FAILED]  # it failed by itself, not for a file in it
    for status in (ItemStatus.PREPARING, ItemStatus.DELETING):
        if counts.containers.get(status):
            numbers[status] = numbers.get(status, 0) + counts.containers[status]
    order = [*sorted(TERMINAL), *(status for status in ItemStatus if status not in TERMINAL)]
    return ", ".join(f"{numbers[status]} {status.value}" for status in order if numbers.get(status))


@contextmanager
def shown(output: Output) -> Iterator[Reporter]:
    """The reporter that fits the place where this command runs."""
    if output.as_json:
        yield Silence()
    elif sys.stderr.isatty():
        with Bar() as bar:
            yield bar
    else:
        yield Lines()


class Silence:
    def update(self, counts: StatusCounts, share: float) -> None:
        pass

    def say(self, text: str) -> None:
        pass


class Lines:
    """One line when something changed, at most one every few seconds."""

    def __init__(self) -> None:
        self.last = ""
        self.printed_at = -LINE_SECONDS

    def update(self, counts: StatusCounts, share: float) -> None:
        line = f"{share:4.0%}  {describe(counts)}"
        now = time.monotonic()
        if line != self.last and (now - self.printed_at >= LINE_SECONDS or counts.is_settled) and counts.total:
            self.say(line)
            self.last, self.printed_at = line, now

    def say(self, text: str) -> None:
        print(printable(text), file=sys.stderr, flush=True)


class Bar:
    def __init__(self) -> None:
        self.progress: Progress | None = None
        self.task: TaskID | None = None

    def __enter__(self) -> "Bar":
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

        self.progress = Progress(
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),
            console=console(sys.stderr),
            transient=True,
        )
        self.task = self.progress.add_task("accepted", total=1.0)
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.progress:
            self.progress.stop()

    def update(self, counts: StatusCounts, share: float) -> None:
        if self.progress and self.task is not None:
            self.progress.update(self.task, completed=share, description=describe(counts))

    def say(self, text: str) -> None:
        if self.progress:
            self.progress.console.print(printable(text))
