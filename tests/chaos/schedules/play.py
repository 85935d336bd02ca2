"""One schedule, from its first step to the proof that everything came right."""

import math
import os
import re
import socket
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from knowledge import topology
from tests.chaos.peace import Home
from tests.chaos.schedules.blows import WORKERS, Blows
from tests.chaos.schedules.diary import Diary
from tests.chaos.schedules.disk import Disk
from tests.chaos.schedules.people import People
from tests.chaos.schedules.plan import Ambush, Blow, Do, Phase, Step, Strike, Together, draw
from tests.chaos.schedules.promises import insist_on_no_remains, insist_on_promises
from tests.chaos.sound import Broken, View, insist
from tests.fleet import Fleet
from tests.waiting import eventually

WINDOW: Final = 5  #: jobs of a base in flight, as the product sets it
PACES: Final = (0.0, 0.1, 0.0, 0.25)  #: seconds of an answer of the embedder, by the number of the schedule
SETTLE_SECONDS: Final = 40.0  #: after this it is said that it never comes to rest
MEND_AFTER: Final = 3  #: steps until a disk or an embedder works again
AGE_SECONDS: Final = 2 * 86_400.0  #: what lies around is made to look so old, so that tidying dares to remove it
TIDY_AGAIN_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.05
_TIDIED: Final = re.compile(r"Task knowledge\.tidy\[.*succeeded")
_LOGS: Final = (*WORKERS, "beat", "broker", "embedder")


@dataclass
class Result:
    """How one schedule went."""

    seed: int
    number: int
    operations: int = 0
    acts: list[tuple[str, float]] = field(default_factory=list)  #: what was done, and in how many seconds; infinity: it failed
    blows: Counter[tuple[Phase, Blow]] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)  #: ambushes that nobody came into, by phase
    refusals: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)  #: how many items ended how
    texts: int = 0  #: that the embedder was sent
    failure: str | None = None

    @property
    def seconds(self) -> float:
        return sum(seconds for _, seconds in self.acts if seconds < math.inf)

    @property
    def story(self) -> str:
        return "\n".join(
            f"  {'FAILED ' if math.isinf(seconds) else f'{seconds:5.2f} s'}  {what}" for what, seconds in self.acts
        )

    def __str__(self) -> str:
        refused = ", ".join(f"{count} {code}" for code, count in sorted(self.refusals.items()))
        struck = "; ".join(
            f"{blow.name.lower()} in {phase}" for (phase, blow), count in self.blows.items() for _ in range(count)
        )
        return (
            f"{self.seed}:{self.number:<4} {self.operations:>2} operations, {self.blows.total()} blows, {self.seconds:4.1f} s"
            f"  [{struck}]{f'  refused: {refused}' if refused else ''}"
        )


def operations(step: Step) -> int:
    match step:
        case Together():
            return len(step.steps)
        case Ambush():
            return 1 + len(step.meanwhile)
        case _:
            return int(isinstance(step, Do))


class Theatre:
    """The fleet, its disk and its diary, for all schedules of a run.

    Args:
        slow: how many times longer everything may take than on a machine without other work.
    """

    def __init__(self, fleet: Fleet, disk: Disk, *, slow: float) -> None:
        self.fleet, self.disk, self._slow = fleet, disk, slow
        self.diary = Diary(fleet.service.rt.db)
        self._others: set[str] = set()

    def play(self, seed: int, number: int) -> Result:
        result = Result(seed, number)
        self.fleet.renew()
        self.diary.begin()
        steps = draw(seed, number)
        result.operations = sum(map(operations, steps))
        with People(self.fleet, self.diary, self._others, seed, number) as people:
            blows = Blows(self.fleet, self.disk, self.diary, people, pace=PACES[number % len(PACES)], slow=self._slow)
            try:
                for what, act in self._acts(number, steps, people, blows, result):
                    began = time.monotonic()
                    result.acts.append((what, math.inf))
                    act()
                    result.acts[-1] = (what, time.monotonic() - began)
                self._clear(people)
            except Exception as error:  # whatever it is, the report must show the schedule
                result.failure = self._told(error)
            result.blows, result.missed = blows.counts, Counter(blows.missed)
            result.refusals = Counter(people.refusals)
            self._others |= people.holders.keys()
        return result

    def _acts(
        self, number: int, steps: list[Step], people: People, blows: Blows, result: Result
    ) -> Iterator[tuple[str, Callable[[], None]]]:
        yield "bases are made", lambda: people.create_bases(1 + number % 3)
        for place, step in enumerate(steps):
            yield str(step), partial(self._take, step, people, blows)
            if place % MEND_AFTER == MEND_AFTER - 1:
                yield "disk and broker work", blows.mend
        yield "nothing fails any more", blows.end
        yield "it comes to rest", lambda: self._come_to_rest(people, blows)
        yield "it is looked at", lambda: self._insist(people, blows, result)
        yield "work goes on", lambda: self._work_goes_on(people)

    def _take(self, step: Step, people: People, blows: Blows) -> None:
        match step:
            case Do():
                people.do(step)
            case Together():
                people.do_at_once(step.steps)
            case Strike():
                blows.strike(step)
            case Ambush():
                blows.ambush(step)
        self._look()

    def _look(self) -> View:
        with self.diary.view() as ask:
            view = View.now(ask)
        view.insist(window=WINDOW)
        return view

    # rest --------------------------------------------------------------------------------------------------------------------

    def _come_to_rest(self, people: People, blows: Blows) -> None:
        """The fleet settles by itself; only what waits for a later time is hurried."""
        self.fleet.make_whole()
        if people.is_unheard:
            eventually(self._no_command_is_worked_on, "what was asked and not answered is done, or nobody works on it")
        until = time.monotonic() + SETTLE_SECONDS * self._slow
        while not self._is_at_rest():
            insist(time.monotonic() < until, "it comes to rest", left=self._left())
            people.hurry()
            time.sleep(_POLL_SECONDS)
        story = self.diary.read()
        with self.diary.view() as ask:
            insist_on_no_remains(self.fleet.settings.data_dir, ask, story, is_whole=blows.is_whole)
        self._tidy()

    def _no_command_is_worked_on(self) -> bool:
        """Of those that wait, the ones without an answer are too old by now to be begun."""
        worker = f"commands@{socket.gethostname()}"
        with self.fleet.app.connection_for_write() as connection:  # one of its own: those of before may lead to a dead broker
            answers = self.fleet.app.control.inspect([worker], timeout=1.0, connection=connection).active()
        return answers == {worker: []}

    def _is_at_rest(self) -> bool:
        view = self._look()
        busy = any(row["status"] not in ("completed", "failed") for row in view.items.values())
        return not view.jobs and not view.leaving and not busy

    def _left(self) -> dict[str, Any]:
        view = self._look()
        rows = [(row["id"], row["type"], row["status"]) for row in view.items.values()]
        columns = (
            "id",
            "type",
            "status",
            "attempt",
            "losses",
            "published_at",
            "scheduled_at",
            "lease_until",
            "owner_pid",
            "error",
        )
        return {
            "jobs": [{column: job[column] for column in columns} for job in view.jobs],
            "items": [row for row in rows if row[2] not in ("completed", "failed")],
            "leaving": view.leaving,
        }

    def _tidy(self) -> None:
        """What killed processes have left on the disk grows old, and the hourly tidying comes by."""
        old = time.time() - AGE_SECONDS
        for path in (self.fleet.settings.data_dir / "bases").glob("*/*/**/*"):
            if ".knowledge" not in path.parts and path.is_file():
                os.utime(path, (old, old))
        before, sent = self._tidied(), -math.inf

        def is_done() -> bool:
            """Sent again now and then: a broker without its data has no queue until the worker is back."""
            nonlocal sent
            if time.monotonic() - sent > TIDY_AGAIN_SECONDS:
                sent = time.monotonic()
                self.fleet.app.send_task(
                    topology.TIDY, ignore_result=True, exchange=topology.EXCHANGE, routing_key=topology.UPKEEP_KEY
                )
            return self._tidied() > before

        eventually(is_done, "the bases are tidied")

    def _tidied(self) -> int:
        return len(_TIDIED.findall(self.fleet.log("control")))

    def _insist(self, people: People, blows: Blows, result: Result) -> None:
        with self.diary.view() as ask:
            home = Home(self.fleet.settings.data_dir, ask, people.find)
            home.insist_on_peace()
            home.insist_on_sound_databases()
        story = self.diary.read()
        result.ended = Counter(entries[-1].error or entries[-1].status for entries in story.items.values())
        result.texts = len(self.fleet.embedder.sent())
        insist_on_promises(self.fleet, people, story, unpaid_late=blows.unpaid_late, woken_late=blows.woken_late)
        self._no_lock_is_held(people)

    def _no_lock_is_held(self, people: People) -> None:
        for base in people.bases():
            with self.fleet.service.rt.locks.base(base["id"], wait_seconds=SETTLE_SECONDS):
                pass

    def _work_goes_on(self, people: People) -> None:
        living = [name for name in (*WORKERS, "beat", "broker") if self.fleet.lives(name)]
        insist(len(living) == len(WORKERS) + 2, "every process lives", living=living)
        fresh = [(base, people.add_fresh(base)) for base in people.bases() if base["status"] == "completed"]
        eventually(self._is_at_rest, "new work is done", seconds=SETTLE_SECONDS * self._slow)
        for base, unique in fresh:
            found = [hit for hit in people.find(base, unique) if unique in hit.text]
            insist(len(found) == 1 and found[0].item_status == "completed", "new work is found", base=base["id"], found=found)

    def _clear(self, people: People) -> None:
        """Every base goes, with all that it has: the last thing that must work."""
        people.clear()
        eventually(lambda: not self._rows_of_bases(), "every base is removed", seconds=SETTLE_SECONDS * self._slow)
        folders = [path.name for path in (self.fleet.settings.data_dir / "bases").iterdir()]
        insist(not folders, "nothing is left of deleted bases", folders=folders)

    def _rows_of_bases(self) -> int:
        with self.diary.view() as ask:
            return len(list(ask("SELECT 1 FROM knowledge_base")))

    # the report of a failure -------------------------------------------------------------------------------------------------

    def _told(self, error: Exception) -> str:
        what = str(error) if isinstance(error, Broken) else "".join(traceback.format_exception(error))
        logs = [f"--- end of the log of {name}\n{self.fleet.tail(name)}" for name in _LOGS]
        return "\n".join((f"BROKEN: {what}", *logs))
