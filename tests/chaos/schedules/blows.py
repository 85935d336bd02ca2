"""What befalls the fleet: processes, the broker, its messages, the disk and the embedder; counted by the phase that it hit."""

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

import psutil

from tests import fleet as fleets
from tests.chaos.schedules.diary import Diary
from tests.chaos.schedules.disk import Disk
from tests.chaos.schedules.people import MARK, People
from tests.chaos.schedules.plan import Ambush, Blow, Phase, Strike
from tests.chaos.sound import Row
from tests.faults.gates import Gate, Moment
from tests.fleet import BATCH_TEXTS, Fleet
from tests.processes import stop
from tests.waiting import eventually

INDEX_WORKERS: Final = ("index", "index2")
WORKERS: Final = (*INDEX_WORKERS, "control", "commands")
EMBEDDER_SECONDS: Final = 2.0  #: how long a job waits for an answer of the embedder
PATIENCE_SECONDS: Final = 4.0  #: how long all ambushes of a schedule wait for somebody to come by
AMBUSH_SECONDS: Final = 0.5  #: at least, of each
TRIALS: Final = 3  #: of an ambush, until somebody comes
_HARMLESS: Final = frozenset({Blow.BEAT, Blow.BROKER, Blow.WIPED, Blow.AWAY, Blow.LOST, Blow.DOUBLED, Blow.EMBEDDER})
_POLL_SECONDS: Final = 0.01
_LONGEST_PAUSE_MS: Final = 300  #: between an operation and a blow that waits for nobody
_LATE: Final = "run no longer owns its job"
_BENDS: Final[tuple[dict[str, Any], ...]] = (
    {"behaviour": "status", "status": 429, "headers": {"retry-after": "1"}, "times": 2},
    {"behaviour": "status", "status": 500, "times": 2},
    {"behaviour": "status", "status": 500, "times": 6},
    {"behaviour": "status", "status": 401, "times": 1},
    {"behaviour": "delay", "seconds": EMBEDDER_SECONDS + 0.5, "times": 1},
    {"behaviour": "delay", "seconds": 0.3, "times": 8},
    {"behaviour": "short", "times": 2},
    {"behaviour": "nan", "times": 2},
    {"behaviour": "close", "times": 2},
    {"behaviour": "html", "times": 1},
)
_PHASE_OF_JOB: Final = {
    "knowledge.prepare-root": Phase.PREPARE,
    "knowledge.delete-subtree": Phase.DELETE,
    "knowledge.reindex-subtree": Phase.REINDEX,
}


class Blows:
    """The blows of one schedule.

    Args:
        pace: seconds that the embedder takes for an answer while it works well.
        slow: how many times longer ambushes wait than on a machine without other work.
    """

    def __init__(self, fleet: Fleet, disk: Disk, diary: Diary, people: People, *, pace: float, slow: float) -> None:
        self._fleet, self._disk, self._diary, self._people = fleet, disk, diary, people
        self._pace = {"behaviour": "delay", "seconds": pace}
        fleet.embedder.behave(self._pace)
        self.counts: Counter[tuple[Phase, Blow]] = Counter()
        self.missed: list[Phase] = []  #: of ambushes that nobody came into
        self.is_whole = True  #: no process was killed and no disk has failed
        self._patience, self._ambush_seconds = PATIENCE_SECONDS * slow, AMBUSH_SECONDS * slow
        self.unpaid_late = 0  #: texts whose answer came when nobody waited any more
        self.woken_late = 0  #: texts that a process may send which stood still between its last look and the request
        self._frozen: dict[int, str] = {}  #: pool processes that stand still, and their workers
        self._asking: list[Future[None]] = []
        self._threads = ThreadPoolExecutor(4)

    # where -------------------------------------------------------------------------------------------------------------------

    def strike(self, strike: Strike) -> None:
        """Whatever the fleet is doing; a pool process that works is preferred."""
        time.sleep(strike.pick % _LONGEST_PAUSE_MS / 1000)
        pid = None
        if strike.blow in (Blow.CHILD, Blow.WORKER):
            busy = self._running()
            pid = busy[strike.pick % len(busy)]["owner_pid"] if busy else None
        self._fall(strike.blow, strike.pick, self._phase(pid), pid)

    def ambush(self, ambush: Ambush) -> None:
        """Hold whoever comes to this moment, let others go on, and strike."""
        if ambush.phase is Phase.ADD:
            return self._ambush_caller(ambush)
        gate = Gate(self._fleet.gates, ambush.moment)
        if ambush.phase is Phase.DELETE:
            self._people.ripen(self._is_worked)
        pid = None
        with self._patiently() as until:
            for _ in range(TRIALS):
                self._arm(ambush, gate)
                self._people.do(ambush.trigger)
                if (pid := self._wait(ambush, gate, until)) is not None or time.monotonic() >= until:
                    break
        since = time.monotonic()
        phase = self._phase(pid, ambush.moment)
        for step in ambush.meanwhile if pid else ():
            self._people.do(step)
        self.missed += [ambush.phase] if pid is None else []
        self._fall(ambush.blow, ambush.pick, phase, pid)
        if ambush.moment is Moment.EMBEDDING:
            if time.monotonic() - since > EMBEDDER_SECONDS / 2:
                self.unpaid_late += BATCH_TEXTS * self._fleet.embedder.stats()["held"]
                self._people.has_bad_embedder = True
            self._fleet.embedder.release()
        return gate.open()

    def _arm(self, ambush: Ambush, gate: Gate) -> None:
        if ambush.moment is Moment.EMBEDDING:
            self._fleet.embedder.behave({"behaviour": "gate", "contains": MARK, "skip": ambush.skip}, self._pace)
        else:
            gate.arm(skip=ambush.skip)

    def _ambush_caller(self, ambush: Ambush) -> None:
        """The same for the process that does what a client has asked for; the client waits, so it has a thread of its own."""
        gate = Gate(self._fleet.command_gates, ambush.moment)
        gate.arm()
        self._asking.append(self._threads.submit(self._people.do, ambush.trigger))
        with self._patiently() as until:
            while not gate.holder() and not self._asking[-1].done() and time.monotonic() < until:
                time.sleep(_POLL_SECONDS)
        is_held = bool(gate.holder())
        self.missed += [] if is_held else [Phase.ADD]
        self._fall(ambush.blow, ambush.pick, Phase.ADD if is_held else Phase.ELSE, None)
        gate.open()

    @contextmanager
    def _patiently(self) -> Iterator[float]:
        """Until when an ambush may wait: a schedule has time for a few that nobody comes into."""
        began = time.monotonic()
        yield began + max(self._patience, self._ambush_seconds)
        self._patience -= time.monotonic() - began

    def mend(self) -> None:
        """Disk and broker work again."""
        self._disk.mend()
        if not self._fleet.lives("broker"):
            self._fleet.start_broker()

    def end(self) -> None:
        """Nothing fails any more; who stood still goes on, and must give up; who still asks has an answer."""
        self.mend()
        self._fleet.let_go()
        for pid, worker in self._frozen.items():
            self._thaw(pid, worker)
        for asking in self._asking:
            asking.result()
        self._threads.shutdown()

    def _thaw(self, pid: int, worker: str) -> None:
        eventually(lambda: not self._runs(pid) or not psutil.pid_exists(pid), "a frozen process loses its job")
        before = self._fleet.log(worker).count(_LATE)
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:  # another blow has killed it
            return
        eventually(lambda: self._fleet.log(worker).count(_LATE) > before or not psutil.pid_exists(pid), "a late run gives up")

    def _runs(self, pid: int) -> bool:
        return any(job["owner_pid"] == pid for job in self._running())

    def _wait(self, ambush: Ambush, gate: Gate, until: float) -> int | None:
        while time.monotonic() < until:
            if ambush.moment is not Moment.EMBEDDING:
                if (pid := gate.holder()) and psutil.pid_exists(pid):
                    return pid
            elif self._fleet.embedder.stats()["held"]:
                embedding = [job for job in self._running() if job["item_status"] == "embedding"]
                if embedding:
                    return int(embedding[0]["owner_pid"])
            if not self._is_worked():  # nobody can come any more
                return None
            time.sleep(_POLL_SECONDS)
        return None

    def _is_worked(self) -> bool:
        with self._diary.view() as ask:
            return bool(list(ask("SELECT 1 FROM knowledge_job WHERE status IN ('pending', 'running') LIMIT 1")))

    def _running(self) -> list[Row]:
        with self._diary.view() as ask:
            return list(
                ask(
                    "SELECT job.type, job.owner_pid, item.status AS item_status FROM knowledge_job job"
                    " JOIN knowledge_job_item link ON link.job_id = job.id"
                    " LEFT JOIN knowledge_item item ON item.id = link.item_id"
                    " WHERE job.status = 'running' ORDER BY job.started_at, job.id"
                )
            )

    def _phase(self, pid: int | None, moment: Moment | None = None) -> Phase:
        """What this process, or else the one that has worked the longest, is doing."""
        jobs = [job for job in self._running() if pid in (None, job["owner_pid"])]
        if not jobs:
            return Phase.ELSE
        if (phase := _PHASE_OF_JOB.get(jobs[0]["type"])) is not None:
            return phase
        if moment in (Moment.BEFORE_COMMIT, Moment.INSIDE_COMMIT, Moment.BETWEEN_COMMITS):
            return Phase.COMMIT
        return {"reading": Phase.READING, "embedding": Phase.EMBEDDING}.get(jobs[0]["item_status"], Phase.ELSE)

    # what --------------------------------------------------------------------------------------------------------------------

    def _fall(self, blow: Blow, pick: int, phase: Phase, pid: int | None) -> None:
        """Counted as far as it hits something: nobody can be killed twice, nor a folder shut that is not there."""
        if self._hits(blow, pick, pid):
            self.counts[phase, blow] += 1
            self.is_whole &= blow in _HARMLESS

    def _hits(self, blow: Blow, pick: int, pid: int | None) -> bool:
        match blow:
            case Blow.CHILD:
                return self._kill_child(pick, pid)
            case Blow.WORKER:
                self._again(self._worker_of(pid) or INDEX_WORKERS[pick % len(INDEX_WORKERS)])
            case Blow.CONTROL | Blow.COMMANDS | Blow.BEAT:
                self._again(blow.name.lower())
            case Blow.BROKER | Blow.WIPED | Blow.AWAY | Blow.LOST if not self._fleet.lives("broker"):
                return False  # it is away already
            case Blow.BROKER:
                self._fleet.strike(fleets.Blow.KILL_BROKER)
            case Blow.WIPED:
                self._fleet.strike(fleets.Blow.WIPE_BROKER)
            case Blow.AWAY:
                self._fleet.kill_broker()
            case Blow.FROZEN:
                if pid is None or (worker := self._worker_of(pid)) is None:
                    return False
                self._frozen[pid] = worker
                self.unpaid_late += BATCH_TEXTS  # an answer that came meanwhile is too late
                self.woken_late += BATCH_TEXTS
                stop([pid], self._fleet.service.rt.db.path)
            case Blow.ALL:
                everything = (*WORKERS, "beat", "broker")
                for name in filter(self._fleet.lives, everything):
                    self._fleet.kill_worker(name)
                self._fleet.start_broker()
                for name in everything[:-1]:
                    self._fleet.launch(name)
            case Blow.LOST:
                self._fleet.strike(fleets.Blow.LOSE_MESSAGES)
            case Blow.DOUBLED:
                return self._double(pick)
            case Blow.FULL | Blow.SHUT:
                return self._break_disk(blow, pick)
            case Blow.EMBEDDER:
                self._people.has_bad_embedder = True
                bend = _BENDS[pick % len(_BENDS)]
                if bend["behaviour"] == "delay" and bend["seconds"] > EMBEDDER_SECONDS:
                    self.unpaid_late += BATCH_TEXTS * bend["times"]
                self._fleet.embedder.release()
                self._fleet.embedder.behave(bend, self._pace)
        return True

    def _break_disk(self, blow: Blow, pick: int) -> bool:
        if blow is Blow.FULL and self._disk.can_be_full:
            self._people.has_bad_disk = True
            self._disk.fill()
            return True
        bases = self._people.bases()
        if not bases:
            return False
        self._people.has_bad_disk = True
        self._disk.shut(bases[pick % len(bases)]["id"], pick // 7)
        return True

    def _kill_child(self, pick: int, pid: int | None) -> bool:
        names = [name for name in self._fleet.workers if name != "commands" and self._fleet.lives(name)]
        children = [child for name in names for child in self._fleet.children(name)]
        if not children:
            return False
        self._fleet.strike(fleets.Blow.KILL_CHILD, pid if pid in children else children[pick % len(children)])
        return True

    def _worker_of(self, pid: int | None) -> str | None:
        living = [name for name in self._fleet.workers if self._fleet.lives(name)]
        return next((name for name in living if pid in (self._fleet.pid(name), *self._fleet.children(name))), None)

    def _again(self, name: str) -> None:
        """Kill it, and start it again without waiting."""
        if self._fleet.lives(name):
            self._fleet.kill_worker(name)
        self._fleet.launch(name)

    def _double(self, pick: int) -> bool:
        """Messages of up to three jobs come twice more, also of one that has ended."""
        found = self._fleet.service.list_jobs(limit=20).jobs
        for offset in range(min(3, len(found))):
            self._fleet.deliver(found[(pick + offset) % len(found)], 2)
        return bool(found)
