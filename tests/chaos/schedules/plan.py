"""What a schedule does, drawn from its seed and number alone: operations of people, and blows.

Numbers in a step are picks: the play takes them modulo whatever there is to pick from when their turn comes.
"""

import random
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tests.faults.gates import Moment

LARGEST: Final = 999


class Phase(StrEnum):
    """What a process was doing when it, or what it needs, was struck."""

    READING = "reading"
    EMBEDDING = "embedding"
    COMMIT = "commit"
    PREPARE = "prepare"
    DELETE = "delete"
    REINDEX = "reindex"
    ELSE = "anything else"


class Blow(StrEnum):
    CHILD = "kill -9 of a pool process"
    WORKER = "kill -9 of a worker with its processes"
    CONTROL = "kill -9 of the control worker"
    COMMANDS = "kill -9 of the worker for commands"
    BEAT = "kill -9 of beat"
    BROKER = "kill -9 of the broker, which comes back on its append-only file"
    WIPED = "kill -9 of the broker, which comes back without its data"
    ALL = "kill -9 of everything"
    LOST = "every waiting message lost"
    DOUBLED = "messages doubled"
    FULL = "the bases' disk full"
    SHUT = "a folder of a base not writable"
    EMBEDDER = "the embedder fails"


@dataclass(frozen=True)
class Do:
    """One operation."""

    what: str
    picks: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.what} {' '.join(map(str, self.picks))}".rstrip()


@dataclass(frozen=True)
class Strike:
    """One blow, whatever the fleet is doing."""

    blow: Blow
    pick: int

    def __str__(self) -> str:
        return f"STRIKE: {self.blow} {self.pick}"


@dataclass(frozen=True)
class Ambush:
    """A process is held at a moment of its work; others go on; then the blow falls."""

    phase: Phase
    moment: Moment
    skip: int  #: how many pass by before one is held
    trigger: Do
    meanwhile: tuple[Do, ...]
    blow: Blow
    pick: int

    def __str__(self) -> str:
        while_held = f", meanwhile {'; '.join(map(str, self.meanwhile))}" if self.meanwhile else ""
        return f"AMBUSH in {self.phase} at {self.moment}+{self.skip} by {self.trigger}{while_held}: {self.blow} {self.pick}"


Step = Do | Strike | Ambush

PHASES: Final = (Phase.READING, Phase.EMBEDDING, Phase.COMMIT, Phase.PREPARE, Phase.DELETE)  #: that must all be struck

_MOMENTS: Final = {
    Phase.READING: (Moment.READING, Moment.READ),
    Phase.EMBEDDING: (Moment.EMBEDDING,),
    Phase.COMMIT: (Moment.BEFORE_COMMIT, Moment.INSIDE_COMMIT, Moment.BETWEEN_COMMITS),
    Phase.PREPARE: (Moment.COPYING, Moment.PLACING, Moment.PLACED),
    Phase.DELETE: (Moment.REMOVING_MATERIAL, Moment.REMOVING_FILES, Moment.REMOVING_ROWS),
}
_WITHOUT_LOCK: Final = frozenset({Moment.READING, Moment.READ, Moment.EMBEDDING, Moment.COPYING})
_LOOKS: Final = ("search", "list", "why", "search")

#: operation → weight, and how many picks it takes at least and at most
_OPERATIONS: Final = {
    "add notes": (6, 3, 5),
    "add files": (4, 3, 5),
    "add directory": (4, 3, 3),
    "add with a key": (3, 4, 4),
    "write source": (3, 3, 3),
    "remove source": (1, 1, 1),
    "delete items": (4, 3, 5),
    "reindex": (4, 3, 4),
    "reindex interrupted": (3, 1, 1),
    "cancel job": (2, 1, 1),
    "requeue job": (2, 1, 1),
    "create base": (1, 1, 1),
    "patch base": (2, 2, 2),
    "delete base": (1, 1, 1),
    "restore base": (2, 2, 2),
    "enable embedder": (2, 1, 1),
    "group": (2, 2, 2),
    "search": (3, 2, 2),
    "list": (2, 2, 2),
    "why": (1, 2, 2),
}
_AT_ONCE: Final = (Blow.CHILD, Blow.CHILD, Blow.CHILD, Blow.WORKER, Blow.DOUBLED, Blow.LOST, Blow.FULL, Blow.SHUT)
_HEAVY: Final = (Blow.ALL, Blow.BROKER, Blow.WIPED, Blow.WORKER)  #: processes need seconds to come back
_ANYWHERE: Final = (
    Blow.CHILD, Blow.CHILD, Blow.WORKER, Blow.CONTROL, Blow.COMMANDS, Blow.BEAT, Blow.LOST, Blow.DOUBLED, Blow.FULL,
    Blow.SHUT, Blow.EMBEDDER, Blow.EMBEDDER,
)  # fmt: skip


def draw(seed: int, number: int) -> list[Step]:
    """The steps of one schedule."""
    dice = random.Random(f"{seed}:{number}")
    steps: list[Step] = [_operation(dice) for _ in range(dice.randint(5, 9))]
    first = Do("add notes", (0, 0, *_picks(dice, 2)))  # there is something to reindex and to delete
    for _ in range(dice.randint(0, 2)):
        steps.insert(dice.randint(0, len(steps)), Strike(dice.choice(_ANYWHERE), _pick(dice)))
    ambush = _ambush(dice, PHASES[number % len(PHASES)], _AT_ONCE)
    steps.insert(dice.randint(0, len(steps) // 2), ambush)
    if dice.random() < 0.6:
        heavy = dice.random() < 0.5
        last = _ambush(dice, dice.choice(PHASES), _HEAVY if heavy else _AT_ONCE)
        steps.insert(len(steps) - dice.randint(0, 2), last)
    return [first, *steps]


def _ambush(dice: random.Random, phase: Phase, blows: tuple[Blow, ...]) -> Ambush:
    moment = dice.choice(_MOMENTS[phase])
    skip = dice.choice((0, 0, 0, 1)) if phase in (Phase.EMBEDDING, Phase.PREPARE) else 0
    if phase is Phase.DELETE:
        trigger = Do("delete items", _picks(dice, 3))
    elif phase is Phase.PREPARE:
        trigger = Do("add directory", (0, *_picks(dice, 2)))
    else:
        trigger = Do("add notes", (0, 0, *_picks(dice, dice.randint(1, 2))))
    free = moment in _WITHOUT_LOCK
    meanwhile = tuple(
        _operation(dice) if free else Do(dice.choice(_LOOKS), _picks(dice, 2)) for _ in range(dice.choice((0, 0, 1, 2)))
    )
    if phase is Phase.EMBEDDING:
        blows = (*blows, Blow.EMBEDDER)
    return Ambush(phase, moment, skip, trigger, meanwhile, dice.choice(blows), _pick(dice))


def _operation(dice: random.Random) -> Do:
    (what,) = dice.choices(list(_OPERATIONS), [weight for weight, _, _ in _OPERATIONS.values()])
    _, least, most = _OPERATIONS[what]
    return Do(what, _picks(dice, dice.randint(least, most)))


def _picks(dice: random.Random, count: int) -> tuple[int, ...]:
    return tuple(_pick(dice) for _ in range(count))


def _pick(dice: random.Random) -> int:
    return dice.randint(0, LARGEST)
