"""What a file processor is. Ours and other people's come through the entry point group `knowledge.processors`.

An entry point names what makes the processor: a class or function that takes this processor's options as keywords (those of
`KNOWLEDGE_` settings for ours, none for others) and opens nothing yet.

A conversion outlives every process that looks at it. `start` begins it and returns a ticket; `poll` may be called by any
process that sees the same files, as often as it likes; both come back within seconds. Nothing is begun twice by itself: a
conversion that is lost is shown to a person.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

from knowledge.model.documents import SourceFile

CALL_SECONDS: Final = 8.0  #: a control job makes room for others after 10 seconds

Ticket = Mapping[str, Any]  #: what finds a conversion again; fit for JSON, without secrets


@dataclass(frozen=True, slots=True)
class Order:
    """A file to convert."""

    source: SourceFile  #: its path stays readable until `cancel`
    work: Path  #: a folder of this conversion alone; removed after `cancel`
    seconds: float  #: after this nobody waits for the result any more


@dataclass(frozen=True, slots=True)
class Waiting:
    """It is not done yet."""

    stage: str  #: one word or two, for people: `queued`, `page`
    done: int | None = None
    of: int | None = None


@dataclass(frozen=True, slots=True)
class Converted:
    """It is done."""

    artefact: Path  #: in the work folder; see `artefact.py`


class NoRoom(Exception):
    """`start`: as many conversions as this host may run are running; ask again later. Nothing has begun."""


class Lost(Exception):
    """`poll`: the process that did it is gone without a result."""


class FileProcessor(Protocol):
    """Makes Markdown of a file, somewhere else than in the process that asks."""

    name: ClassVar[str]
    only_without_text: ClassVar[bool]  #: it does nothing better than a reader where the text is there

    def claims(self, media_type: str) -> bool:
        """Whether it takes files of this type."""
        ...

    def missing(self) -> str | None:
        """What a person must do before it can work, as one sentence with the command; None if it is ready."""
        ...

    def start(self, order: Order) -> Ticket:
        """Begin. Returns within seconds.

        Raises:
            NoRoom. ConversionFault: nothing has begun; `transient` ones may be tried again. After anything else it may have
                begun, so it is not asked again.
        """
        ...

    def poll(self, ticket: Ticket, work: Path) -> Waiting | Converted:
        """How it stands.

        Raises:
            Lost. ConversionFault, SourceFault: it has ended without a result; `transient` ones say that it could not be asked.
        """
        ...

    def cancel(self, ticket: Ticket, work: Path) -> None:
        """Nobody waits for it (any more): stop it, as far as that is possible. Never raises for one that has ended.

        Args:
            ticket: empty if the process that began it died before it could keep the ticket.
        """
        ...
