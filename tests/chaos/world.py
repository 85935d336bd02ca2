"""A whole installation in one directory: the real product, with the third parties of `outside.py`, and everything that can
befall it as one method each. What the product does is compared with `ledger.py` (what was asked and paid) after every move.
"""

import atexit
import json
import os
import shutil
import tempfile
import uuid
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from pysqlite3 import dbapi2

from knowledge.catalog import jobs
from knowledge.catalog.embeddings import EmbeddingCache
from knowledge.db import schema
from knowledge.db.columns import utc_now
from knowledge.db.engine import Database
from knowledge.dispatch import Dispatch
from knowledge.files.local import LocalRawFiles
from knowledge.ingestion import boot, claims, delete, index, prepare, recovery, reindex, tidy
from knowledge.ingestion.run import Flow, Run, perform
from knowledge.ingestion.window import LedgerWindow
from knowledge.locks.file import FileLocks
from knowledge.model import ids
from knowledge.model.inputs import BaseInput, BasePatch, DirectoryInput, FileInput, ItemInput, NoteInput, Strategy
from knowledge.model.jobs import JobType, Owner
from knowledge.model.results import SearchHit
from knowledge.pipeline.indexing.registry import Embedders
from knowledge.pipeline.readers.registry import ReaderRegistry
from knowledge.pipeline.vectorstore.sqlite import SqliteIndexStores
from knowledge.process import this_process
from knowledge.runtime import Options, Runtime
from knowledge.service import KnowledgeService
from tests.chaos import fate
from tests.chaos.fate import FINE, Fate, Kind, Outcome, Process
from tests.chaos.ledger import Ledger
from tests.chaos.outside import FREE, PAID, WINDOW, Broker, Clock, Provider
from tests.chaos.ports import (
    SteppingCache,
    SteppingDatabase,
    SteppingFiles,
    SteppingIndexes,
    SteppingLocks,
    stepping_checkpoint,
)
from tests.chaos.sound import Broken, insist

OPTIONS: Final = Options(lease_seconds=60.0, settle_seconds=30.0, republish_seconds=30.0, base_concurrency=WINDOW)
FLOWS: Final[dict[JobType, Flow]] = {
    JobType.PREPARE_ROOT: prepare.run,
    JobType.INDEX_DOCUMENTS: index.run,
    JobType.DELETE_SUBTREE: delete.run,
    JobType.REINDEX_SUBTREE: reindex.run,
}
FOLDERS: Final = ("shelf", "shelf/inner", "shelf/inner/deep", "case")
NAMES: Final = ("a.txt", "b.md", "c.txt")
MAX_BASES: Final = 4
MAX_ROOTS: Final = 9  #: of a base, so that a sequence stays small

counts: Counter[str] = Counter()  #: texts sent, and sent again, over all worlds of this process
moves: Counter[str] = Counter()  #: how often each kind of move was made, over all worlds of this process


class World:
    """Use as a context manager."""

    def __init__(self) -> None:
        self.root, self.database, self.paid = _home()
        for left in self.root.iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        self.source = self.root / "source"
        self.source.mkdir()
        self.data = self.root / "data"
        self.data.mkdir()
        shutil.copy(_template() / "catalogue.sqlite", self.data)
        shutil.copy(_template() / "embeddings.sqlite", self.data)

        self.provider, self.broker = Provider(), Broker()
        self.clock = Clock(self.data.stat().st_mtime)
        self.files = LocalRawFiles(self.data)
        self.indexes = SqliteIndexStores(self.index_path, busy_timeout_seconds=0.05)
        db = SteppingDatabase(self.database)
        self.cache = SteppingCache(EmbeddingCache(self.paid, max_bytes=1 << 30), self._paid_hashes)
        self.rt: Any = Runtime(
            db=db,  # type: ignore[arg-type]  # a stand-in of the same shape, here and below
            files=SteppingFiles(self.files, lambda: self.clock.now),  # type: ignore[arg-type]
            locks=SteppingLocks(FileLocks(self.data / "locks", 0)),
            indexes=SteppingIndexes(self.indexes),  # type: ignore[arg-type]
            readers=_readers(),
            embedders=Embedders([PAID, FREE], self.provider.kinds()),
            cache=self.cache,  # type: ignore[arg-type]
            dispatch=Dispatch(LedgerWindow(db, size=WINDOW), self.broker),  # type: ignore[arg-type]
            options=OPTIONS,
        )
        self.service = KnowledgeService(self.rt)
        self.held: list[Process] = []
        self.history: list[str] = []  #: for people: what was done, and how it ended
        self.ledger = Ledger(self)
        self.provider.watch = self.ledger.request
        self.clock.asleep = self._others_move
        self._numbers = self._ids = 0
        self._words = 0
        self._look: Any = None
        self._stack = ExitStack()

    def __enter__(self) -> "World":
        self._stack.enter_context(self.clock.installed())
        me = this_process_once()  # also in a forked child, whose sweep must not take its parent for a frozen worker
        for module, function in ((claims, self._owner), (recovery, lambda: me)):
            self._stack.callback(setattr, module, "this_process", module.this_process)
            module.this_process = function
        self._stack.enter_context(self._ids_in_order())
        return self

    @contextmanager
    def _ids_in_order(self) -> Iterator[None]:
        """Ids that are the same in every run: what is sorted by them comes in the same order."""

        def following() -> str:
            self._ids += 1
            return str(uuid.UUID(int=(0x7 << 76) | (0x8 << 60) | self._ids))

        before = ids._uuid7, ids.uuid
        ids._uuid7, ids.uuid = following, SimpleNamespace(uuid4=following)  # type: ignore[assignment]
        try:
            yield
        finally:
            ids._uuid7, ids.uuid = before  # type: ignore[assignment]

    def __exit__(self, *_: object) -> None:
        for process in self.held:
            process.resume(killed=True)
        sent = self.provider.sent
        counts["texts sent to the paid embedder"] += sent.total()
        counts["texts sent again after a death"] += sent.total() - len(sent) - self.ledger.overlaps
        counts["texts sent twice at the same time"] += self.ledger.overlaps
        self._rest()
        self.indexes.close()
        self._stack.close()

    # looking -----------------------------------------------------------------------------------------------------------------

    def index_path(self, base_id: str) -> Path:
        return self.files.index_folder(base_id) / "index.sqlite"

    def ask(self, statement: str, *values: Any) -> list[Any]:
        """Rows of the catalogue as they are now."""
        if self._look is None:
            self._look = dbapi2.connect(str(self.data / "catalogue.sqlite"), isolation_level=None, check_same_thread=False)
            self._look.row_factory = dbapi2.Row
        return self._look.execute(statement, values).fetchall()

    def bases(self) -> list[Any]:
        """Those that are not being deleted, oldest first."""
        return self.ask("SELECT * FROM knowledge_base WHERE deleting_at IS NULL ORDER BY created_at, rowid")

    def _paid_hashes(self) -> frozenset[str]:
        with self.paid.read() as tx:
            return frozenset(tx.exec_driver_sql("SELECT text_hash FROM paid_vector").scalars())

    # moves -------------------------------------------------------------------------------------------------------------------

    def act(self, name: str, work: Callable[[], Any], end: Fate = FINE) -> Outcome | None:
        """Have a process do this. None if it is held up."""
        moves[name] += 1
        end = fate.aimed(end, name)
        self.history.append(f"{name}: {end.kind} {end.step or ''} {end.at or ''}")
        process = Process(name, end)
        self._numbers += 1
        process.number = self._numbers
        if end.kind is Kind.HELD_UP:
            process.start_held(work)
            if process.is_held_up:
                self.held.append(process)
                moves["(held up)"] += 1
                return None
            outcome = process.outcome
            assert outcome is not None
        elif end.kind is Kind.FORKED:
            self._rest()
            outcome, events = fate.run_forked(process, self._as_child(work), str(self.data))
            self._ids += 1000  # the child has used some of them
            for event in events:
                self.provider.sent.update(event.get("sent", ()))
                self.ledger.sent_by_child(event)
                self.broker.messages.extend([event["message"]] if "message" in event else [])
        else:
            outcome = fate.attempt(process, work)
        return self._ended(process, outcome)

    def _as_child(self, work: Callable[[], Any]) -> Callable[[], Any]:
        """The engines go along: they have no connection now, and know their statements."""

        def do() -> Any:
            self.database._pid = self.paid._pid = os.getpid()
            return work()

        return do

    def let_go(self, which: int, *, killed: bool = False) -> None:
        """A process that was held up goes on, or dies."""
        process = self.held.pop(which % len(self.held))
        process.resume(killed=killed)
        moves["(died while held up)" if killed else "(went on)"] += 1
        assert process.outcome is not None
        self._ended(process, process.outcome)

    def _ended(self, process: Process, outcome: Outcome) -> Outcome:
        self.history.append(f"  {process.name} ended: {process.died_at or outcome.refusal or outcome.fault or 'done'}")
        if outcome.fault is not None:
            raise outcome.fault
        if outcome.killed:
            assert process.died_at is not None
            fate.deaths[process.name, process.died_at] += 1
            self.ledger.deaths += 1
            self._bury(process)
        if outcome.refusal is not None:
            moves[f"(refused: {type(outcome.refusal).__name__})"] += 1
        return outcome

    def _bury(self, process: Process) -> None:
        """Its runs now belong to a dead process of this host or, every third time, to one of a host that nobody can see."""
        started = self._started(process)
        unseen = process.steps % 3 == 0
        column, value = ("owner_host", "elsewhere") if unseen else ("owner_started", 1.0)
        self.ask(f"UPDATE knowledge_job SET {column} = ? WHERE status = 'running' AND owner_started = ?", value, started)

    def _owner(self) -> Owner:
        me, process = this_process_once(), fate.current()
        return me if process is None else Owner(me.host, me.pid, self._started(process))

    def _started(self, process: Process) -> float:
        """Each process of the model began at a moment of its own, less than a second after this one, so it counts as alive."""
        return this_process_once().started + process.number / (1 << 16)

    def _others_move(self) -> None:
        """While somebody sleeps, everybody who is held up outside goes on."""
        if fate.is_child():
            return  # they are not there
        sleeper = fate.current()
        for process in [one for one in self.held if one is not sleeper]:
            self.held.remove(process)
            process.resume()
            moves["(went on)"] += 1
            assert process.outcome is not None
            self._ended(process, process.outcome)

    def _rest(self) -> None:
        """No open database file crosses a fork."""
        if self._look is not None:
            self._look.close()
            self._look = None
        for database in (self.database, self.paid):
            for engine in database._engines.values():  # not forgotten, because each has compiled the statements it knows
                engine.dispose()
        for known in self.indexes._stores.values():
            known.store.rest()

    # what workers do --------------------------------------------------------------------------------------------------------

    def deliver(self, job_id: str, end: Fate = FINE) -> Outcome | None:
        """A worker gets a message with this job id."""
        found = self.ask("SELECT type FROM knowledge_job WHERE id = ?", job_id)
        name = found[0]["type"].removeprefix("knowledge.") if found else "delivery of a job that is gone"
        return self.act(name, lambda: self._work(job_id), end)

    def _work(self, job_id: str) -> None:
        process = fate.current()
        assert process is not None
        run = claims.claim(self.rt, job_id)  # type: ignore[arg-type]
        base_id = run.job.base_id if run else None
        further = 1  #: a delivery may go on with a second row of its base
        while run is not None:
            process.job = run.job
            run.checkpoint = stepping_checkpoint(run.checkpoint)  # type: ignore[method-assign]
            process.run = run
            perform(run, FLOWS[run.job.type])
            process.job = None
            if run.is_draining or not further:
                break
            further -= 1
            run = claims.claim_next(self.rt, run.job)
        if base_id is not None:
            self.rt.dispatch.publish_due(base_id)

    def sweep(self, end: Fate = FINE) -> None:
        self.act("sweep", lambda: recovery.sweep(self.rt), end)

    def tidy(self, end: Fate = FINE) -> None:
        self.act("tidy", lambda: tidy.tidy(self.rt), end)

    def tick(self, end: Fate = FINE) -> None:
        self.act("tick", lambda: recovery.tick(self.rt), end)

    def notice_lost_child(self, end: Fate = FINE) -> None:
        self.act("parent notices a loss", lambda: recovery.settle_dead_of_this_host(self.rt), end)

    def boot(self, worker: int, mode: str, end: Fate = FINE) -> None:
        me = this_process_once()
        self.act(
            "boot",
            lambda: boot.report_for_work(self.rt, boot.ParkPending(mode), f"worker{worker % 2}", me, ["knowledge.main"]),
            end,
        )

    def renew(self, which: int) -> None:
        run: Run | None = self.held[which % len(self.held)].run
        if run is not None:
            moves["renewal"] += 1
            with fate.being(None):
                run.renew()

    def drain(self) -> None:
        """The workers are told to stop now."""
        moves["drain"] += 1
        me = this_process_once()
        with self.database.write() as tx:
            jobs.stamp_drain(tx, me.host, [me.pid], utc_now())

    # what people do ---------------------------------------------------------------------------------------------------------

    def text(self, shared: int) -> str:
        """A text that no other has, two paragraphs of it shared with many others."""
        self._words += 1
        paragraphs = [f"{word(self._words)} opens the log of this hour and nobody else has it."]
        paragraphs += [
            f"Paragraph {number} of the harbour rules is the same in many books, {word(9000 + number)}."
            for number in {shared % 5, shared % 7}
        ]
        return "\n\n".join(paragraphs)

    def write_source(self, folder: int, name: int, shared: int) -> Path:
        moves["source written"] += 1
        path = self.source / FOLDERS[folder % len(FOLDERS)] / NAMES[name % len(NAMES)]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("" if shared % 13 == 12 else self.text(shared))
        return path

    def remove_source(self, which: int) -> None:
        moves["source removed"] += 1
        there = sorted(path for path in self.source.rglob("*"))
        if there:
            path = there[which % len(there)]
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def sources(self) -> list[Path]:
        return sorted(path for path in self.source.rglob("*"))

    def input(self, kind: int, shared: int) -> ItemInput:
        there = self.sources()
        files, folders = [p for p in there if p.is_file()], [p for p in there if p.is_dir()]
        if kind % 3 == 1 and files:
            return FileInput(path=files[shared % len(files)])
        if kind % 3 == 2 and folders:
            return DirectoryInput(path=folders[shared % len(folders)])
        title = f"note {shared % 3}" if shared % 2 else None
        return NoteInput(content=self.text(shared), title=title)

    def create_base(self, embedder: int, end: Fate = FINE) -> None:
        wanted = BaseInput(
            name=f"base {self._numbers}",
            embedder=("paid", None, "paid", "free")[embedder % 4],
            chunk_size=24,
            chunk_overlap=0,
            fail_on_empty=embedder % 5 == 4,
        )
        self.act("create base", lambda: self.service.create_base(wanted), end)

    def patch_base(self, base: Any, what: int, end: Fate = FINE) -> None:
        changes: dict[str, Any] = (
            {"chunk_size": 24 + 8 * (what % 3)},
            {"name": f"renamed {what}"},
            {"embedder": (None, "paid", "free")[what % 3]},
        )[what % 3]
        self.act("patch base", lambda: self.service.patch_base(base["id"], BasePatch(**changes)), end)

    def enable(self, base: Any, which: int, end: Fate = FINE) -> None:
        roots = [row["id"] for row in self.roots(base["id"])]
        outcome = self.act(
            "enable embedder", lambda: self.service.enable_embedder(base["id"], ("paid", "free")[which % 2]), end
        )
        self.ledger.asked(roots, outcome)

    def delete_base(self, base: Any, end: Fate = FINE) -> None:
        self.act("delete base", lambda: self.service.delete_base(base["id"]), end)

    def restore(self, base: Any, embedder: int, end: Fate = FINE) -> None:
        model = (None, "paid", "free")[embedder % 3]
        self.act("restore base", lambda: self.service.restore_base(base["id"], f"copy {self._numbers}", model), end)

    def import_bundle(self, what: int, end: Fate = FINE) -> None:
        path = self.root / f"bundle{self._numbers}.zip"
        model = (None, "paid", "not declared here")[what % 3]
        body = self.text(what)
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("base.json", manifest("imported", model, PAID.dimensions))
            archive.writestr("raw/box/letter.txt", body)
            archive.writestr("raw/card.md", body + "\n\nsecond")
        self.act("import base", lambda: self.service.import_base(path), end)

    def add(self, base: Any, inputs: Sequence[ItemInput], strategy: int, key: str | None, end: Fate = FINE) -> None:
        how = list(Strategy)[strategy % 3]
        if key is not None:
            inputs = self.ledger.request_inputs.setdefault((base["id"], key), list(inputs))
        self.act(
            f"add with {how}" if key is None else "add with a key",
            lambda: self.service.add_items(base["id"], inputs, strategy=how, idempotency_key=key),
            end,
        )

    def delete_items(self, base: Any, ids: Sequence[str], end: Fate = FINE) -> None:
        self.act("delete items", lambda: self.service.delete_items(base["id"], ids), end)  # type: ignore[arg-type]

    def reindex(self, base: Any, ids: Sequence[str], end: Fate = FINE, *, allow_empty: bool = False) -> Outcome | None:
        outcome = self.act(
            "reindex items",
            lambda: self.service.reindex_items(base["id"], ids, allow_empty=allow_empty),  # type: ignore[arg-type]
            end,
        )
        self.ledger.asked(ids, outcome)
        return outcome

    def reindex_interrupted(self, base: Any, end: Fate = FINE) -> None:
        lost = self.ask(
            "SELECT id FROM knowledge_item WHERE base_id = ? AND status = 'failed' AND error = 'indexing_interrupted'",
            base["id"],
        )
        outcome = self.act("reindex interrupted", lambda: self.service.reindex_interrupted(base["id"]), end)
        self.ledger.asked([row["id"] for row in lost], outcome)

    def cancel(self, job_id: str, end: Fate = FINE) -> None:
        self.act("cancel job", lambda: self.service.cancel_job(job_id), end)  # type: ignore[arg-type]

    def requeue(self, job_id: str, end: Fate = FINE) -> None:
        self.act("requeue job", lambda: self.service.requeue_job(job_id), end)  # type: ignore[arg-type]

    def search(self, base: Any, words: str) -> Outcome:
        outcome = self.act("search", lambda: self.service.search(base["id"], words))
        assert outcome is not None
        return outcome

    def find(self, base: Any, words: str) -> Sequence[SearchHit]:
        """What a search finds, where it must succeed."""
        outcome = self.search(base, words)
        insist(outcome.refusal is None, "a settled base can be searched", refusal=outcome.refusal)
        hits: Sequence[SearchHit] = outcome.value.hits
        return hits

    def look_around(self, base: Any, item: Any | None) -> None:
        """Everything that only reads; whatever comes, it is an answer or a typed refusal."""
        self.act("list items", lambda: self.service.list_items(base["id"]))
        self.act("status counts", lambda: self.service.status_counts(base["id"]))
        if item is not None:
            self.act("why", lambda: self.service.why(item["id"]))
            self.act("chunks", lambda: self.service.chunks(base["id"], item["id"]))
            self.act("preview", lambda: self.service.preview(item["id"]))

    def titled_note(self, title: str, shared: int) -> ItemInput:
        return NoteInput(content=self.text(shared), title=title)

    def make_good(self, base: Any) -> None:
        """Index every root whose source is there again, with nothing in the way; then each must be completed."""
        again = []
        for row in self.roots(base["id"]):
            source = Path(row["source"])
            there = row["type"] == "note" or (source.is_file() if row["type"] == "file" else source.is_dir())
            if there:
                outcome = self.reindex(base, [row["id"]], allow_empty=True)
                insist(
                    outcome is not None and outcome.refusal is None,
                    "a settled item can be indexed again",
                    item=dict(row),
                    refusal=outcome and outcome.refusal,
                )
                again.append(row["id"])
        self.come_to_rest(seconds=70)
        for item_id in again:
            for row in self._below(item_id):
                self._is_right(base, row)

    def _below(self, item_id: str) -> list[Any]:
        return self.ask(
            "WITH RECURSIVE below(id) AS (SELECT ? UNION SELECT i.id FROM knowledge_item i JOIN below b ON i.group_id = b.id)"
            " SELECT i.* FROM knowledge_item i JOIN below USING (id)",
            item_id,
        )

    def _is_right(self, base: Any, row: Any) -> None:
        facts = {
            "item": row["id"],
            "type": row["type"],
            "status": row["status"],
            "error": row["error"],
            "source": row["source"],
        }
        if row["type"] == "directory":
            has_text = any(path.stat().st_size for path in Path(row["source"]).rglob("*") if path.is_file())
            fine = row["status"] == "completed" or row["error"] == "child_failed" or not has_text  # children are looked at, too
            insist(fine, "a directory whose folder is there can be made good", **facts)
            return
        wanted = row["status"] == "completed"
        if row["type"] == "file":
            source = Path(row["source"])
            empty = not source.exists() or source.stat().st_size == 0
            insist(wanted or empty, "a file that is there can be made good", **facts)
            if wanted and not empty:
                stored = self.files.path(base["id"], row["relative_path"]).read_text()
                insist(stored == source.read_text(), "what is indexed is what the source says", **facts)
        else:
            insist(wanted, "a note can be made good", **facts)

    def come_to_rest(self, *, seconds: float) -> None:
        """Deliver, tick and sweep until no job is left."""
        for _ in range(40):
            self.passes(seconds)
            self.sweep()
            self.tick()
            while self.broker.messages:
                self.deliver(self.broker.messages.pop(0))
            self.ledger.look()
            if not self.ask("SELECT 1 FROM knowledge_job WHERE status IN ('pending', 'running')"):
                return
        jobs_left = self.ask(
            "SELECT type, status, error, attempt, losses FROM knowledge_job WHERE status IN ('pending', 'running')"
        )
        raise Broken(f"it never comes to rest: {[dict(row) for row in jobs_left]}")

    # what befalls everybody -------------------------------------------------------------------------------------------------

    def passes(self, seconds: float) -> None:
        moves["time passes"] += 1
        self.clock.pass_(seconds)

    def broker_errs(self, which: int, *, doubled: bool) -> None:
        place = which % len(self.broker.messages)
        if doubled:
            moves["message doubled"] += 1
            self.broker.messages.append(self.broker.messages[place])
        else:
            moves["message lost"] += 1
            del self.broker.messages[place]

    def broker_goes(self, *, away: bool) -> None:
        moves["broker goes" if away else "broker comes"] += 1
        self.broker.is_away = away

    def broker_forgets(self) -> None:
        """It started anew with nothing; a worker that connects again notices."""
        moves["broker forgets"] += 1
        self.broker.messages.clear()
        with self.database.write() as tx:
            jobs.clear_all_published(tx)

    def embedder_fails(self, failures: Sequence[str]) -> None:
        moves["embedder fails" if failures else "embedder works"] += 1
        self.provider.failures = list(failures)

    def roots(self, base_id: str) -> list[Any]:
        return self.ask(
            "SELECT * FROM knowledge_item WHERE base_id = ? AND group_id IS NULL AND status <> 'deleting' ORDER BY id", base_id
        )

    def items(self, base_id: str) -> list[Any]:
        return self.ask("SELECT * FROM knowledge_item WHERE base_id = ? ORDER BY id", base_id)


def word(number: int) -> str:
    """A word that no stemmer knows: consonants that spell the number."""
    letters = "bcdfghjkmn"
    return "zq" + "".join(letters[int(digit)] for digit in str(number)) + "x"


#: what a bundle brings: where it is stored → where it once came from
BUNDLED: Final = {"box/letter.txt": "/gone/box/letter.txt", "card.md": "/gone/card.md"}


def manifest(name: str, model: str | None, dimensions: int, **base: Any) -> str:
    """The rows of `BUNDLED`."""
    wanted = {"name": name, "embedder": model, "chunk_size": 24, "chunk_overlap": 0, **base}
    rows = [
        {"id": "1", "type": "directory", "source": "/gone/box", "relative_path": "box"},
        {"id": "2", "type": "file", "group_id": "1", "source": "/gone/box/letter.txt", "relative_path": "box/letter.txt"},
        {"id": "3", "type": "file", "source": "/gone/card.md", "relative_path": "card.md"},
    ]
    return json.dumps({"format": 1, "base": wanted, "dimensions": dimensions if model else None, "items": rows})


@cache
def this_process_once() -> Owner:
    return this_process()


@cache
def _readers() -> ReaderRegistry:
    return ReaderRegistry.installed()


@cache
def _home() -> tuple[Path, Database, Database]:
    """Where every world of this process is, one after the other, and its databases, which keep their compiled statements."""
    shared = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(prefix="knowledge-chaos-", dir=shared if shared.is_dir() else None))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    catalogue = Database(f"sqlite:///{root / 'data' / 'catalogue.sqlite'}", busy_timeout_seconds=0.05)
    return root, catalogue, Database(f"sqlite:///{root / 'data' / 'embeddings.sqlite'}", busy_timeout_seconds=0.05)


@cache
def _template() -> Path:
    """Databases as they are before anything has happened; made once, then copied."""
    folder = Path(tempfile.mkdtemp(prefix="knowledge-chaos-template-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    catalogue = Database(f"sqlite:///{folder / 'catalogue.sqlite'}")
    schema.upgrade(catalogue)
    catalogue.dispose()
    paid = Database(f"sqlite:///{folder / 'embeddings.sqlite'}")
    EmbeddingCache(paid, max_bytes=1).get("", ["none"])
    paid.dispose()
    return folder
