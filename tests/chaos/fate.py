"""Processes of the model: what one does, and at which of its steps it is killed, forked and killed, or held up.

A step is a call of a port (catalogue, files, lock, index, cache, broker, embedder) or a checkpoint. Three fates:

- *killed*: from the chosen step on every port refuses this process with `Killed`, so no clean-up of it has any effect, as after
  `kill -9`; locks and transactions that it holds are dropped, as the system does.
- *forked*: it runs in a real child process, which ends with `os._exit` at the chosen step; here renames, removals and creations
  of single files are steps as well.
- *held up*: it stops at the chosen step, outside any transaction, and goes on when told to, maybe much later.
"""

import os
import pickle
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from knowledge.errors import KnowledgeError

_FILE_EVENTS: Final = frozenset({"os.rename", "os.remove", "os.rmdir", "os.mkdir", "open"})
_PATIENCE_SECONDS: Final = 60.0  #: of real time; a thread that does not answer for so long hangs


AIMED: Final = "aimed at"  #: in place of a step's name: one of those in `DEATHS` of whatever the process does
#: Where a process must have died at least once in a big run: what it did, and at which step. Chance meets some of them seldom.
DEATHS: Final = (
    ("index-documents", "db.commit"),
    ("index-documents", "db.committed"),
    ("index-documents", "checkpoint"),
    ("index-documents", "embedder.ask"),
    ("index-documents", "embedder.answered"),
    ("index-documents", "cache.put:done"),
    ("index-documents", "index.rebuild_material"),
    ("index-documents", "index.rebuild_material:done"),
    ("index-documents", "locked"),
    ("prepare-root", "checkpoint"),
    ("prepare-root", "db.commit"),
    ("prepare-root", "files.stage_file:done"),
    ("prepare-root", "files.publish:done"),
    ("prepare-root", "file.rename"),
    ("reindex-subtree", "db.commit"),
    ("reindex-subtree", "files.publish:done"),
    ("delete-subtree", "index.delete_materials:done"),
    ("delete-subtree", "files.remove:done"),
    ("delete-subtree", "file.remove"),
    ("delete-subtree", "db.commit"),
    ("add with rename", "files.publish:done"),
    ("add with rename", "db.commit"),
    ("add with rename", "broker.send"),
    ("add with replace", "files.remove:done"),
    ("add with a key", "db.committed"),
    ("delete items", "db.committed"),
    ("delete base", "index.drop:done"),
    ("create base", "index.create"),
    ("restore base", "db.committed"),
    ("import base", "db.commit"),
    ("enable embedder", "db.commit"),
    ("sweep", "db.commit"),
    ("sweep", "locked"),
)


class Killed(BaseException):
    """This process is no more; nothing but the end of the program's stack is left to it."""


class Kind(StrEnum):
    FINE = "fine"
    KILLED = "killed"
    FORKED = "forked"
    HELD_UP = "held up"


@dataclass(frozen=True)
class Fate:
    kind: Kind = Kind.FINE
    step: int = 0  #: 1 is the first
    at: str | None = None  #: then only steps of this name count


FINE: Final = Fate()


def aimed(fate: Fate, name: str) -> Fate:
    """What `AIMED` means for a process that does this."""
    if fate.at != AIMED:
        return fate
    places = [place for who, place in DEATHS if who == name]
    if not places:
        return FINE
    place = places[fate.step % len(places)]
    return Fate(Kind.FORKED if place.startswith("file.") else fate.kind, 1, place)


class Process:
    """One process of the model, in a thread of its own if it is held up."""

    def __init__(self, name: str, fate: Fate) -> None:
        self.name = name
        self.fate = fate
        self.steps = 0
        self.is_dead = False
        self.died_at: str | None = None
        self.held_at: str | None = None
        self.transactions = 0
        self.locks = 0
        self.job: Any = None  #: the job that it runs, if any
        self.run: Any = None
        self.number = 0  #: tells it from the other processes of its world
        self.saw_paid: frozenset[str] = frozenset()  #: what the cache of paid vectors held when this process last asked it
        self.in_flight: frozenset[str] = frozenset()  #: texts that it has sent and whose answer is not stored yet
        self.outcome: Outcome | None = None
        self._go = threading.Event()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_held_up(self) -> bool:
        return self.held_at is not None and self.outcome is None

    def step(self, label: str, *, can_wait: bool) -> None:
        if self.is_dead:
            raise Killed
        if self.fate.at in (None, label):
            self.steps += 1
        is_due = 0 < self.fate.step <= self.steps
        if self.fate.kind in (Kind.KILLED, Kind.FORKED) and is_due:
            self.die(label)
        if self.fate.kind is Kind.HELD_UP and self.held_at is None and self.transactions == 0 and can_wait and is_due:
            self.held_at = label
            self._stopped.set()
            if not self._go.wait(_PATIENCE_SECONDS):
                raise AssertionError("nobody lets this process go on")
            if self.is_dead:
                raise Killed

    def die(self, label: str) -> None:
        self.is_dead, self.died_at = True, label
        if self.fate.kind is Kind.FORKED:
            _report({"died_at": label})
            os._exit(9)
        raise Killed

    def start_held(self, work: Callable[[], Any]) -> None:
        """Run in a thread until it is held up or done."""
        self._thread = threading.Thread(target=self._live, args=(work,), daemon=True)
        self._thread.start()
        self._wait()

    def resume(self, *, killed: bool = False) -> None:
        """Let it go on to its end; killed: its end is now."""
        if killed:
            self.is_dead, self.died_at = True, self.held_at
        self._stopped.clear()
        self._go.set()
        self._wait()
        assert self._thread is not None
        self._thread.join(_PATIENCE_SECONDS)

    def _wait(self) -> None:
        if not self._stopped.wait(_PATIENCE_SECONDS):
            raise AssertionError(f"{self.name} hangs")

    def _live(self, work: Callable[[], Any]) -> None:
        self.outcome = attempt(self, work)
        self._stopped.set()


@dataclass
class Outcome:
    """How a process ended: with a value, a typed refusal, a fault of ours, or killed."""

    value: Any = None
    refusal: KnowledgeError | None = None
    fault: BaseException | None = None
    killed: bool = False
    unknown: bool = False  #: it ran in a child, whose results stay there

    @property
    def is_refused(self) -> bool:
        return self.refusal is not None


_here = threading.local()


def current() -> Process | None:
    return getattr(_here, "process", None)


@contextmanager
def being(process: Process | None):
    before = current()
    _here.process = process
    try:
        yield
    finally:
        _here.process = before


def step(label: str, *, can_wait: bool = True) -> None:
    process = current()
    if process is not None:
        process.step(label, can_wait=can_wait)


def attempt(process: Process, work: Callable[[], Any]) -> Outcome:
    with being(process):
        try:
            return Outcome(value=work())
        except Killed:
            return Outcome(killed=True)
        except KnowledgeError as error:
            if process.is_dead:  # it was on its way when the end came
                return Outcome(killed=True)
            return Outcome(refusal=error)
        except BaseException as error:
            return Outcome(killed=True) if process.is_dead else Outcome(fault=error)


# forked processes ------------------------------------------------------------------------------------------------------------

_pipe: int | None = None


def _report(event: dict[str, Any]) -> None:
    """From a child to its parent; written at once, so it survives the child."""
    assert _pipe is not None
    data = pickle.dumps(event)
    os.write(_pipe, len(data).to_bytes(4, "big") + data)


def report(event: dict[str, Any]) -> bool:
    """The same if this is a forked process; False if it is not."""
    if _pipe is None:
        return False
    _report(event)
    return True


def is_child() -> bool:
    return _pipe is not None


def run_forked(process: Process, work: Callable[[], Any], inside: str) -> tuple[Outcome, list[dict[str, Any]]]:
    """Run it in a child; returns how it ended and what it reported. Files below `inside` are watched."""
    global _pipe
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            _pipe = writing
            _watch_files(process, inside)
            outcome = attempt(process, work)
            if outcome.fault is not None:
                _report({"fault": repr(outcome.fault)})
            elif outcome.refusal is not None:
                _report({"refusal": type(outcome.refusal).__name__})
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        data = stream.read()
    os.waitpid(pid, 0)
    events = []
    while data:
        size = int.from_bytes(data[:4], "big")
        events.append(pickle.loads(data[4 : 4 + size]))
        data = data[4 + size :]
    outcome = Outcome(unknown=True)
    for event in events:
        if "died_at" in event:
            process.is_dead, process.died_at = True, event["died_at"]
            outcome = Outcome(killed=True)
        elif "fault" in event:
            outcome = Outcome(fault=AssertionError(f"in a forked process: {event['fault']}"))
        elif "refusal" in event:
            outcome = Outcome(refusal=KnowledgeError(event["refusal"]))
    return outcome, events


def _watch_files(process: Process, inside: str) -> None:
    def hook(name: str, arguments: tuple[Any, ...]) -> None:
        if name not in _FILE_EVENTS or current() is not process:
            return
        if name == "open" and not (isinstance(arguments[2], int) and arguments[2] & os.O_CREAT):
            return
        what = arguments[0]
        if isinstance(what, str) and what.startswith("/") and not what.startswith(inside):
            return
        if isinstance(what, str) and "sqlite" in what:
            return
        process.step(f"file.{name.removeprefix('os.')}", can_wait=False)

    sys.addaudithook(hook)


#: (what the process did, at which step) → how often it died there
deaths: Counter[tuple[str, str]] = Counter()
