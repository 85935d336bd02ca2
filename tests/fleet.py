"""A fleet for tests: broker, index worker, control worker, beat and a paid embedder, all real processes on one data directory.

The command lines are those of the Procfile; its worker for commands, which runs no jobs, is launched by the test that needs it.
Every process dies with the test run, however that ends, and only processes that a fleet started are ever signalled by it.
`Fleet.start` and `Fleet.stop` are for whoever owns the fleet; everything else is what a test asks or does.
"""

import os
import random
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import psutil
import redis
from celery import Celery

from config import broker, wiring
from config.celery import make
from config.settings import Settings, load
from deploy.run.procfile import Line, parse
from deploy.run.supervisor import dies_with, environment
from knowledge.catalog import items, jobs
from knowledge.db.columns import utc_now
from knowledge.model.documents import Chunking, Document
from knowledge.model.ids import BaseId, ItemId, JobId
from knowledge.model.inputs import BaseInput, DirectoryInput, ItemInput, NoteInput
from knowledge.model.jobs import Job, JobStatus, JobType
from knowledge.model.status import TERMINAL
from knowledge.model.views import Base, Item
from knowledge.pipeline.indexing import chunker
from knowledge.service import KnowledgeService
from tests.fakes.embedder_server import RemoteEmbedderServer
from tests.modes import bound_by_modes
from tests.processes import send, stop
from tests.waiting import PATIENCE_SECONDS, eventually

ROOT: Final = Path(__file__).parents[1]
PRODUCT: Final = "config.celery"  #: the Celery application that the Procfile names
WORKERS: Final = ("index", "control")  #: a second index worker is called `index2`, and so on
START_SECONDS: Final = 120.0  #: of any process, with all others beside it
TAIL_LINES: Final = 40

BATCH_TEXTS: Final = 4  #: of one request to the paid embedder
DIMENSIONS: Final = 32
QUICK: Final = {
    "KNOWLEDGE_LEASE_SECONDS": "3",
    "KNOWLEDGE_SWEEP_SECONDS": "1",
    "KNOWLEDGE_TICK_SECONDS": "0.25",
    "KNOWLEDGE_REPUBLISH_SECONDS": "2",
    "KNOWLEDGE_SETTLE_SECONDS": "4",
    "KNOWLEDGE_DRAIN_SECONDS": "10",
    "KNOWLEDGE_LOG_LEVEL": "DEBUG",  # tells of each sweep
}

#: Of this test run alone. A Flower looks for a free port seconds before it takes it: of two that start at once from the same
#: one, as in two halves of the tests, one ends and is started again, while the other answers in its place.
FLOWER: Final = {"KNOWLEDGE_FLOWER_PORT": str(random.randrange(11_000, 19_000))}

FINELY: Final = {"chunk_size": 20, "chunk_overlap": 0, "chunk_strategy": "delimiter", "chunk_separator": "\\n\\n"}

_MODELS: Final = """\
default_embedder = "fake/paid"

[[embedder]]
id = "fake/paid"
kind = "openai"
endpoint = "{endpoint}"
model = "fake"
dimensions = {dimensions}
max_batch_texts = {batch}
timeout_seconds = {timeout}
billed = true
"""


class Blow(Enum):
    """What a fault test does to a fleet."""

    KILL_CHILD = "kill -9 of the pool process that runs a job"
    CRASH_CHILD = "SIGSEGV in the pool process that runs a job"
    KILL_WORKER = "kill -9 of a worker with all its processes; it is started again"
    STOP_WORKER = "SIGTERM to a worker; it is started again when it has ended"
    KILL_BROKER = "kill -9 of the broker; it is started again on what it kept"
    WIPE_BROKER = "kill -9 of the broker; it is started again without its data"
    LOSE_MESSAGES = "every waiting message vanishes while the broker runs on"
    RESET_CONNECTIONS = "every connection to the broker is cut"
    KILL_ALL = "kill -9 of everything at once; all of it is started again"


class Fleet:
    """See the module.

    Args:
        root: an empty directory of the test run.
        application: the Celery application that the workers run instead of the product's own.
        settings: environment variables on top of `QUICK`.
        workers: which workers run all the time.
        embedder_seconds: how long a request for vectors may take.
        modes_bind: file modes count for its processes also where they run as root.
    """

    def __init__(
        self,
        root: Path,
        *,
        application: str = PRODUCT,
        settings: Mapping[str, str] | None = None,
        workers: Sequence[str] = WORKERS,
        embedder_seconds: float = 300.0,
        modes_bind: bool = False,
    ) -> None:
        self.root = root
        self.application = application
        self.workers = tuple(workers)
        self._embedder_seconds = embedder_seconds
        self._modes_bind = modes_bind
        self._settings = dict(settings or {})
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._forget()

    def _forget(self) -> None:
        self.killed = 0  #: index processes that a blow has ended
        self.refused = 0  #: texts in requests that the embedder refused: nobody pays for those
        self.strays: dict[BaseId, int] = {}  #: files in raw/ that a killed caller has left behind
        self.bases: list[Base] = []
        self.texts: dict[ItemId, list[str]] = {}  #: the search units of each note
        self.queries: set[str] = set()  #: they are sent to the embedder as well
        self.deleted: dict[BaseId, set[ItemId]] = {}

    # life --------------------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start everything and return when it works."""
        (self.root / "logs").mkdir(parents=True)
        port_file = self.root / "embedder-port"
        options = ["--port-file", str(port_file), "--dimensions", str(DIMENSIONS)]
        self._spawn("embedder", [sys.executable, "-m", "tests.fakes.embedder_server", *options], dict(os.environ))
        self.embedder = RemoteEmbedderServer(port_file)
        models = self.root / "models.toml"
        models.write_text(
            _MODELS.format(
                endpoint=self.embedder.endpoint, dimensions=DIMENSIONS, batch=BATCH_TEXTS, timeout=self._embedder_seconds
            )
        )
        self.settings.run_dir.mkdir(parents=True, exist_ok=True)
        wiring.check(self.service.rt)
        self.start_broker()
        for name in (*self.workers, "beat"):
            self.launch(name)
        for name in self.workers:
            self.wait_until_ready(name)

    def stop(self) -> None:
        """End everything at once; safe to call after a failed start."""
        for name in reversed(list(self._processes)):
            self._kill(name)
        if "service" in self.__dict__:
            self.service.close()
        if "app" in self.__dict__:
            self.app.close()

    def renew(self) -> None:
        """Make the fleet whole between two tests, and forget what the last one did."""
        self.let_go()
        self.embedder.reset()
        self._forget()
        self.make_whole()

    def make_whole(self) -> None:
        """Start what does not run."""
        for name in ("broker", *self.workers, "beat"):
            if not self.lives(name):
                self.start_broker() if name == "broker" else self.launch(name)
        for name in self.workers:
            self.wait_until_ready(name)

    def let_go(self) -> None:
        """Open every gate, the embedder's included."""
        self.embedder.release()
        self.embedder.behave()
        for gate in (*self.gates.glob("*"), *self.command_gates.glob("*")):
            gate.unlink(missing_ok=True)

    @cached_property
    def settings(self) -> Settings:
        return load(self.environ)

    @cached_property
    def app(self) -> Celery:
        return make(self.settings)

    @cached_property
    def service(self) -> KnowledgeService:
        return KnowledgeService(wiring.runtime(self.settings, self.app))

    @cached_property
    def environ(self) -> dict[str, str]:
        """The environment of every process of this fleet."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("KNOWLEDGE_")}
        ours = {"KNOWLEDGE_DATA_DIR": str(self.root / "data"), "KNOWLEDGE_MODELS_FILE": str(self.root / "models.toml")}
        ours["FAULT_GATES"] = str(self.gates)
        return clean | ours | FLOWER | QUICK | self._settings

    # processes ---------------------------------------------------------------------------------------------------------------

    def launch(self, name: str) -> None:
        """Start `index`, `control`, `commands`, `beat` or a further index worker; does not wait."""
        kind = name.rstrip("0123456789")
        line = _LINES[{"index": "worker"}.get(kind, kind)].command
        command = line.replace(PRODUCT, self.application).replace(f"{kind}@", f"{name}@")
        gates = {"FAULT_GATES": str(self.command_gates)} if kind == "commands" else {}
        self._spawn(name, ["/bin/sh", "-c", f"exec {command}"], environment(self.settings, self.environ | gates))

    def start_broker(self) -> None:
        self._spawn("broker", [sys.executable, "-m", "config.broker"], self.environ)
        eventually(lambda: broker.ping(self.settings), "the broker answers", seconds=START_SECONDS)

    def wait_until_ready(self, name: str) -> None:
        """A worker is ready when it has told the catalogue of itself."""

        def ready() -> bool:
            assert self.lives(name), f"{name} has ended by itself\n{self.tail(name)}"
            return any(worker.pid == self.pid(name) and worker.is_alive for worker in self.service.workers())

        eventually(ready, f"{name} is ready", seconds=START_SECONDS)

    def pid(self, name: str) -> int:
        return self._processes[name].pid

    def lives(self, name: str) -> bool:
        return name in self._processes and self._processes[name].poll() is None

    def children(self, name: str) -> list[int]:
        """The pool processes of a worker."""
        return [child.pid for child in psutil.Process(self.pid(name)).children()]

    def worker_of(self, pid: int) -> str:
        """Which worker a pool process belongs to."""
        return next(name for name in self.workers if self.lives(name) and pid in self.children(name))

    @property
    def gates(self) -> Path:
        return self.root / "gates"

    @property
    def command_gates(self) -> Path:
        """Those of the worker for commands, which passes some of the moments of jobs as well."""
        return self.root / "command-gates"

    def log(self, name: str) -> str:
        """All that a process has written so far, that of its predecessors included."""
        path = self.root / "logs" / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def tail(self, name: str) -> str:
        """The end of a log without the comings and goings of beat and pool."""
        told = [line for line in self.log(name).splitlines() if not _BEATS.search(line)]
        return "\n".join(told[-TAIL_LINES:])

    def _spawn(self, name: str, command: list[str], environ: Mapping[str, str]) -> None:
        with (self.root / "logs" / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                command,
                cwd=ROOT,
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_before_exec(modes_bind=self._modes_bind),
            )

    def _kill(self, name: str) -> None:
        """kill -9 of a process with everything below it; its own session holds nothing else."""
        process = self._processes.pop(name)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    # blows -------------------------------------------------------------------------------------------------------------------

    def strike(self, blow: Blow, pid: int | None = None, *, worker: str = "index") -> None:
        """Strike.

        Args:
            pid: the pool process that is meant, for blows to children; for blows to workers, its worker is meant.
            worker: which worker is meant if there is no `pid`.
        """
        if pid is not None:
            worker = self.worker_of(pid)
        match blow:
            case Blow.KILL_CHILD | Blow.CRASH_CHILD:
                assert pid is not None
                self.killed += worker.startswith("index")
                os.kill(pid, signal.SIGKILL if blow is Blow.KILL_CHILD else signal.SIGSEGV)
            case Blow.KILL_WORKER:
                self.kill_worker(worker)
                self.launch(worker)
                self.wait_until_ready(worker)
            case Blow.STOP_WORKER:
                self.stop_worker(worker)
                self.launch(worker)
                self.wait_until_ready(worker)
            case Blow.KILL_BROKER:
                self._kill("broker")
                self.start_broker()
            case Blow.WIPE_BROKER:
                self._kill("broker")
                shutil.rmtree(self.settings.data_dir / "broker" / "appendonlydir")
                self.start_broker()
            case Blow.LOSE_MESSAGES:
                with self.redis() as client:
                    client.delete(*self.queue_names)
            case Blow.RESET_CONNECTIONS:
                before = self._connections_lost("control")  # always listening; a busy index worker notices when it next reads
                with self.redis() as client:
                    client.client_kill_filter(_type="normal", skipme=True)
                eventually(lambda: self._connections_lost("control") > before, "the control worker notices")

            case Blow.KILL_ALL:
                for name in self.workers:
                    self.kill_worker(name)
                for name in ("beat", "broker"):
                    self._kill(name)
                self.make_whole()

    def kill_worker(self, name: str) -> None:
        """kill -9 of a worker with all its processes; it stays away."""
        self.killed += len(self.children(name)) if name.startswith("index") else 0
        self._kill(name)

    def kill_broker(self) -> None:
        """kill -9; it stays away."""
        self._kill("broker")

    def stop_worker(self, name: str, *, seconds: float = PATIENCE_SECONDS) -> None:
        """SIGTERM, and wait for its end."""
        os.kill(self.pid(name), signal.SIGTERM)
        eventually(lambda: not self.lives(name), f"{name} ends after SIGTERM", seconds=seconds)

    def begin_stop(self, name: str) -> "subprocess.Popen[bytes]":
        """SIGTERM, without waiting for the end of the process, which is returned."""
        os.kill(self.pid(name), signal.SIGTERM)
        return self._processes[name]

    def ended(self, pid: int, *, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until a pool process is gone."""
        eventually(lambda: not psutil.pid_exists(pid), f"process {pid} ends", seconds=seconds)

    @contextmanager
    def frozen(self, pid: int) -> Iterator[None]:
        """The worker of this pool process stands still, with all its processes, for the length of the block."""
        members = [self.pid(self.worker_of(pid)), *self.children(self.worker_of(pid))]
        try:
            stop(members, self.service.rt.db.path)
            yield
        finally:
            send(members, signal.SIGCONT)  # recovery may have killed some

    def _connections_lost(self, name: str) -> int:
        return self.log(name).count("Connection to broker lost")

    def deliver(self, job: Job, times: int = 1) -> None:
        """Send the message of a job once more, as a broker that doubles messages would."""
        for _ in range(times):
            self.service.rt.dispatch._sender.send(job)

    def redeliver_overdue(self) -> int:
        """Have unfinished messages delivered again whose visibility timeout is over: what each Celery worker does every 100 s.

        Returns how many of these messages there were.
        """
        with self.app.connection_for_write() as connection, connection.channel() as channel, self.redis() as client:
            for queue in self.app.conf.task_queues:
                queue(channel).declare()  # as a worker has: else the message would be restored to nowhere
            overdue = client.zcount(channel.unacked_index_key, 0, time.time() - channel.visibility_timeout)
            channel.qos.restore_visible(interval=1)
            return int(overdue)

    @property
    def queue_names(self) -> list[str]:
        return [queue.name for queue in self.app.conf.task_queues]

    def waiting_messages(self, queue: str) -> int:
        with self.redis() as client:
            return int(client.llen(queue))

    @contextmanager
    def frozen_broker(self) -> Iterator[None]:
        """The broker takes connections and answers nothing for the length of the block."""
        os.kill(self.pid("broker"), signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid("broker"), signal.SIGCONT)

    @contextmanager
    def redis(self) -> Iterator["redis.Redis"]:
        client = redis.Redis.from_url(broker.endpoint(self.settings))
        try:
            yield client
        finally:
            client.close()

    # work --------------------------------------------------------------------------------------------------------------------

    def new_base(self, name: str = "base", *, paid: bool = True, **more: Any) -> Base:
        """A base that cuts finely, so that short notes have several search units."""
        wanted = BaseInput(name=name, embedder="fake/paid" if paid else None, **(FINELY | more))
        self.bases.append(self.service.create_base(wanted))
        return self.bases[-1]

    def add(self, base: Base, *inputs: ItemInput) -> list[ItemId]:
        return [item.id for item in self.service.add_items(base.id, inputs).items]

    def add_note(self, base: Base, *paragraphs: str) -> ItemId:
        """Add a note; what it is cut into is kept in `texts`."""
        content = "\n\n".join(paragraphs)
        (item_id,) = self.add(base, NoteInput(content=content, title=f"note {paragraphs[0][:20]}"))
        self.texts[item_id] = units_of(base, content)
        return item_id

    def add_directory(self, base: Base, path: Path) -> ItemId:
        (item_id,) = self.add(base, DirectoryInput(path=path))
        return item_id

    def delete(self, base: Base, *item_ids: ItemId) -> None:
        """Accept a delete; what lies below the items counts as deleted as well."""
        gone = self.deleted.setdefault(base.id, set())
        for item_id in item_ids:
            gone |= {item_id, *(item.id for item in self.below(base, item_id))}
        self.service.delete_items(base.id, item_ids)

    def delete_all(self, base: Base) -> None:
        self.delete(base, *(item.id for item in self.service.list_items(base.id, roots_only=True, limit=100).items))

    def search(self, base: Base, query: str) -> set[ItemId]:
        self.queries.add(query)
        return {hit.item_id for hit in self.service.search(base.id, query, limit=50).hits}

    # what can be seen --------------------------------------------------------------------------------------------------------

    def item(self, item_id: ItemId) -> Item | None:
        with self.service.rt.db.read() as tx:
            return items.find(tx, item_id)

    def status(self, item_id: ItemId) -> tuple[str, str | None]:
        item = self.service.item(item_id)
        return item.status.value, item.error

    def below(self, base: Base, item_id: ItemId) -> list[Item]:
        found, parents = [], [item_id]
        while parents:
            cursor, parent = None, parents.pop()
            while True:
                page = self.service.list_items(base.id, group_id=parent, limit=100, cursor=cursor)
                found += page.items
                parents += [item.id for item in page.items if item.type == "directory"]
                if (cursor := page.next_cursor) is None:
                    break
        return found

    def settled(self, item_id: ItemId, *, seconds: float = PATIENCE_SECONDS) -> Item:
        """The item once it is completed or failed."""

        def terminal() -> Item | None:
            item = self.service.item(item_id)
            return item if item.status in TERMINAL else None

        found = eventually(terminal, f"item {item_id} is completed or failed", seconds=seconds)
        assert found is not None
        return found

    def gone(self, *item_ids: ItemId, seconds: float = PATIENCE_SECONDS) -> None:
        eventually(lambda: not any(self.item(item_id) for item_id in item_ids), "the rows are gone", seconds=seconds)

    def jobs(self, *statuses: JobStatus, type: JobType | None = None, base: Base | None = None) -> list[Job]:  # noqa: A002
        page = self.service.list_jobs(base_id=base.id if base else None, statuses=statuses or None, limit=1000)
        return [job for job in page.jobs if type is None or job.type is type]

    def job_of(self, item_id: ItemId, type: JobType | None = None) -> Job:  # noqa: A002
        """The newest job that names this item."""
        return next(job for job in self.jobs(type=type) if item_id in job.item_ids)

    def job_ids(self, item_id: ItemId) -> set[JobId]:
        """Every job that ever named this item."""
        return {job.id for job in self.jobs() if item_id in job.item_ids}

    def job(self, job: Job) -> Job:
        """The job as it is now."""
        return self.service.job(job.id)

    def lease_is_over(self, job: Job) -> bool:
        until = self.job(job).lease_until
        return until is None or until < utc_now()

    def put_back(self, item_id: ItemId) -> None:
        """Wait until the job of this item waits for its time again."""
        eventually(lambda: self.job_of(item_id).is_unpublished, "the job is put back")

    def drain_is_over(self, job: Job) -> bool:
        """Whether the run of this job was told of a stop, and may go on no longer."""
        with self.service.rt.db.read() as tx:
            until = jobs.standing(tx, self.job(job)).drain_until
        return until is not None and until < utc_now()

    def sweeps(self) -> int:
        """How many searches for lost work have ended so far."""
        return len(_SWEPT.findall(self.log("control")))

    # the moment in which a job is held ---------------------------------------------------------------------------------------

    def wait_until_embedding(self, item_id: ItemId, requests: int = 1) -> int:
        """The pid of the process whose request for this item stands at the embedder's gate."""
        self.embedder.wait_until_held(requests)
        owner = self.job_of(item_id).owner
        assert owner is not None
        return owner.pid


def _before_exec(*, modes_bind: bool) -> Callable[[], None]:
    """What a child does between fork and exec."""
    steps = [dies_with(os.getpid()), *([bound_by_modes()] if modes_bind else [])]

    def do() -> None:
        for step in steps:
            step()

    return do


_SWEPT: Final = re.compile(r"Task knowledge\.recovery\[.*succeeded")
_BEATS: Final = re.compile(
    r"Task knowledge\.(due-tick|recovery)\[.*(received|succeeded)|Sending due task|\.(due-tick|recovery) sent|beat: Waking up"
    r"|TaskPool: Apply"
)
_LINES: Final[Mapping[str, Line]] = parse(ROOT / "Procfile")


def units_of(base: Base, content: str) -> list[str]:
    """What a base cuts a text into."""
    chunking = Chunking(base.chunk_size, base.chunk_overlap, base.chunk_strategy, base.chunk_separator)
    return [unit.text for unit in chunker.split([Document(text=content)], chunking).units]


def paragraphs(count: int) -> list[str]:
    """Texts that no other test has; each is one search unit, and each holds the word `lighthouse`."""
    return [f"The lighthouse of {secrets.token_hex(4)} has a lamp, a keeper and {secrets.token_hex(4)}." for _ in range(count)]
