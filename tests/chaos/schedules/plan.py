"""What a schedule does, drawn from its seed and number alone: operations of people, and blows.

Numbers in a step are picks: the play takes them modulo whatever there is to pick from when their turn comes.
"""

import random
from dataclasses import dataclass, replace
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
    ADD = "add"
    ELSE = "anything else"


class Blow(StrEnum):
    CHILD = "kill -9 of a pool process"
    WORKER = "kill -9 of a worker with its processes"
    CONTROL = "kill -9 of the control worker"
    COMMANDS = "kill -9 of the worker for commands"
    BEAT = "kill -9 of beat"
    BROKER = "kill -9 of the broker, which comes back on its append-only file"
    WIPED = "kill -9 of the broker, which comes back without its data"
    AWAY = "kill -9 of the broker, which stays away for a while"
    ALL = "kill -9 of everything"
    FROZEN = "a pool process stands still until its lease is over"
    LOST = "every waiting message lost"
    DOUBLED = "messages doubled"
    FULL = "the bases' disk full"
    SHUT = "a folder of a base shut"
    EMBEDDER = "the embedder fails"


@dataclass(frozen=True)
class Do:
    """One operation."""

    what: str
    picks: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.what} {' '.join(map(str, self.picks))}".rstrip()


@dataclass(frozen=True)
class Together:
    """Operations that are asked for at the same moment."""

    steps: tuple[Do, ...]

    def __str__(self) -> str:
        return f"AT ONCE: {'; '.join(map(str, self.steps))}"


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


Step = Do | Together | Strike | Ambush

PHASES: Final = (Phase.READING, Phase.EMBEDDING, Phase.COMMIT, Phase.PREPARE, Phase.DELETE)  #: that must all be struck

_MOMENTS: Final = {
    Phase.READING: (Moment.READING, Moment.READ),
    Phase.EMBEDDING: (Moment.EMBEDDING,),
    Phase.COMMIT: (Moment.BEFORE_COMMIT, Moment.INSIDE_COMMIT, Moment.BETWEEN_COMMITS),
    Phase.PREPARE: (Moment.COPYING, Moment.PLACING, Moment.PLACED),
    Phase.DELETE: (Moment.REMOVING_MATERIAL, Moment.REMOVING_FILES, Moment.REMOVING_ROWS),
    Phase.ADD: (Moment.COPYING, Moment.PLACING, Moment.PLACED),
}
_WITHOUT_LOCK: Final = frozenset({Moment.READING, Moment.READ, Moment.EMBEDDING, Moment.COPYING})
_ALONE: Final = frozenset({Moment.PLACING, Moment.PLACED})  #: the catalogue is being written: others could only wait
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
    "import base": (1, 1, 1),
    "enable embedder": (2, 1, 1),
    "group": (2, 2, 2),
    "search": (3, 2, 2),
    "list": (2, 2, 2),
    "why": (1, 2, 2),
}
_AT_ONCE: Final = (Blow.CHILD, Blow.CHILD, Blow.CHILD, Blow.WORKER, Blow.DOUBLED, Blow.LOST, Blow.FULL, Blow.SHUT)
#: processes need seconds to come back
_HEAVY: Final = (Blow.ALL, Blow.ALL, Blow.BROKER, Blow.WIPED, Blow.AWAY, Blow.WORKER)
_SECONDS_FOR_BLOWS: Final = 6.0
#: what a blow costs until all work again, where that is much
_SECONDS: Final = {
    Blow.WORKER: 1.5,
    Blow.CONTROL: 2.0,
    Blow.COMMANDS: 3.5,
    Blow.BROKER: 3.0,
    Blow.WIPED: 3.0,
    Blow.AWAY: 4.0,
    Blow.ALL: 6.0,
    Blow.FROZEN: 4.0,
}
_ANYWHERE: Final = (
    Blow.CHILD, Blow.CHILD, Blow.WORKER, Blow.CONTROL, Blow.COMMANDS, Blow.BEAT, Blow.LOST, Blow.DOUBLED, Blow.FULL,
    Blow.SHUT, Blow.EMBEDDER, Blow.EMBEDDER,
)  # fmt: skip


def draw(seed: int, number: int) -> list[Step]:
    """The steps of one schedule."""
    dice = random.Random(f"{seed}:{number}")
    steps: list[Step] = [_operations(dice) for _ in range(dice.randint(6, 11))]
    first = Do("add notes", (0, 0, *_picks(dice, 2)))  # there is something to reindex and to delete
    for _ in range(dice.randint(0, 2)):
        _put(dice, steps, Strike(dice.choice(_ANYWHERE), _pick(dice)))
    _put(dice, steps, _ambush(dice, PHASES[number % len(PHASES)], _AT_ONCE))
    if dice.random() < 0.5:
        _put(dice, steps, _ambush(dice, dice.choice(PHASES), _AT_ONCE))
    if dice.random() < 0.2:
        _put(dice, steps, _ambush(dice, Phase.ADD, (Blow.COMMANDS,)))
    if dice.random() < 0.4:
        steps.append(_ambush(dice, dice.choice(PHASES), _HEAVY))
        steps += [_operations(dice) for _ in range(dice.randint(0, 2))]
    return [first, *_affordable(steps)]


def _affordable(steps: list[Step]) -> list[Step]:
    """A schedule is to end within ten seconds: blows that it has no time for become the death of one pool process."""
    found, left = list(steps), _SECONDS_FOR_BLOWS
    struck = [(step, place) for place, step in enumerate(steps) if isinstance(step, Strike | Ambush)]
    costly = [(_SECONDS[step.blow], place) for step, place in struck if step.blow in _SECONDS]
    for seconds, place in sorted(costly, reverse=True):
        step = found[place]
        if seconds <= left:
            left -= seconds
        elif isinstance(step, Ambush) and step.phase is Phase.ADD:
            found[place] = step.trigger
        elif isinstance(step, Strike | Ambush):
            found[place] = replace(step, blow=Blow.CHILD)
    return found


def _put(dice: random.Random, steps: list[Step], step: Step) -> None:
    steps.insert(dice.randint(0, len(steps)), step)


def _ambush(dice: random.Random, phase: Phase, blows: tuple[Blow, ...]) -> Ambush:
    moment = dice.choice(_MOMENTS[phase])
    skip = dice.choice((0, 0, 0, 1)) if phase in (Phase.EMBEDDING, Phase.PREPARE) else 0
    if phase is Phase.DELETE:
        trigger = Do("delete items", (0, *_picks(dice, 2)))
    elif phase is Phase.PREPARE:
        trigger = Do("add directory", (0, *_picks(dice, 2)))
    elif phase is Phase.ADD:
        trigger = Do("add files", (0, *_picks(dice, 2)))
    else:
        trigger = Do("add notes", (0, 0, *_picks(dice, dice.randint(1, 2))))
    count = 0 if moment in _ALONE else dice.choice((0, 0, 1, 2))
    free = moment in _WITHOUT_LOCK
    meanwhile = tuple(_operation(dice) if free else Do(dice.choice(_LOOKS), _picks(dice, 2)) for _ in range(count))
    if phase is Phase.EMBEDDING:
        blows = (*blows, Blow.EMBEDDER)
    if free and phase is not Phase.ADD:
        blows = (*blows, Blow.FROZEN)
    return Ambush(phase, moment, skip, trigger, meanwhile, dice.choice(blows), _pick(dice))


def _operations(dice: random.Random) -> Do | Together:
    if dice.random() < 0.2:
        return Together(tuple(_operation(dice) for _ in range(dice.randint(2, 3))))
    return _operation(dice)


def _operation(dice: random.Random) -> Do:
    (what,) = dice.choices(list(_OPERATIONS), [weight for weight, _, _ in _OPERATIONS.values()])
    _, least, most = _OPERATIONS[what]
    return Do(what, _picks(dice, dice.randint(least, most)))


def _picks(dice: random.Random, count: int) -> tuple[int, ...]:
    return tuple(_pick(dice) for _ in range(count))


def _pick(dice: random.Random) -> int:
    return dice.randint(0, LARGEST)
