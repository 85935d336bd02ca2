"""A whole runtime in one process: real catalogue, files, locks and index in a temporary directory; the broker is a list."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from sqlalchemy import select, update

from knowledge.catalog import items
from knowledge.catalog.embeddings import EmbeddingCache
from knowledge.catalog.rows import ITEM, JOB
from knowledge.db import schema
from knowledge.db.columns import utc_now
from knowledge.db.engine import Database
from knowledge.dispatch import Dispatch
from knowledge.files.local import LocalRawFiles
from knowledge.ingestion import claims, convert, delete, index, prepare, reindex
from knowledge.ingestion.run import Flow, Run, perform
from knowledge.ingestion.window import LedgerWindow
from knowledge.locks.file import FileLocks
from knowledge.model.documents import EmbedderSpec
from knowledge.model.ids import BaseId, ItemId, JobId
from knowledge.model.inputs import BaseInput, DirectoryInput, FileInput, ItemInput, NoteInput
from knowledge.model.jobs import Job, JobStatus, JobType
from knowledge.model.status import TERMINAL
from knowledge.model.views import Base, Item
from knowledge.pipeline.conversion.port import FileProcessor
from knowledge.pipeline.conversion.registry import Processors
from knowledge.pipeline.indexing.registry import Embedders
from knowledge.pipeline.readers.registry import ReaderRegistry
from knowledge.pipeline.sources.url import Web
from knowledge.pipeline.vectorstore.sqlite import SqliteIndexStores
from knowledge.runtime import Options, Runtime
from knowledge.service import KnowledgeService
from tests.fakes.sender import ListSender
from tests.waiting import eventually

DIMENSIONS: Final = 32
HASHING: Final = EmbedderSpec(id="hashing", kind="hashing", dimensions=DIMENSIONS)
FLOWS: Final[dict[JobType, Flow]] = {
    JobType.PREPARE_ROOT: prepare.run,
    JobType.INDEX_DOCUMENTS: index.run,
    JobType.CHECK_FILE_PROCESSING_RESULT: convert.run,
    JobType.DELETE_SUBTREE: delete.run,
    JobType.REINDEX_SUBTREE: reindex.run,
}


class House:
    """Build one per test; `work` does what workers would do."""

    def __init__(
        self,
        root: Path,
        *specs: EmbedderSpec,
        window: int = 5,
        lock_seconds: float = 5.0,
        busy_timeout_seconds: float = 5.0,
        processors: Sequence[FileProcessor] = (),
        web: Web | None = None,
        **options: float,
    ) -> None:
        self.root = root
        self.sender = ListSender()
        db = Database(f"sqlite:///{root / 'catalogue.sqlite'}", busy_timeout_seconds=busy_timeout_seconds)
        schema.upgrade(db)
        files = LocalRawFiles(root)
        self.rt = Runtime(
            db=db,
            files=files,
            locks=FileLocks(root / "locks", lock_seconds),
            indexes=SqliteIndexStores(lambda base_id: files.index_folder(base_id) / "index.sqlite", busy_timeout_seconds=5.0),
            readers=ReaderRegistry.installed(),
            embedders=Embedders([HASHING, *specs]),
            cache=EmbeddingCache(Database(f"sqlite:///{root / 'embeddings.sqlite'}"), max_bytes=1 << 30),
            dispatch=Dispatch(LedgerWindow(db, size=window), self.sender),
            options=Options(base_concurrency=window, **options),  # type: ignore[arg-type]  # every option is a number
            processors=Processors(processors),
            web=web or Web.plain(),
        )
        self.db = db
        self.service = KnowledgeService(self.rt)

    def base(self, embedder: str | None = "hashing", **more: Any) -> Base:
        return self.service.create_base(BaseInput(name="shelf", embedder=embedder, **more))

    def notes(self, base: Base, *texts: str) -> list[Item]:
        return self.add(base, *(NoteInput(content=text) for text in texts))

    def add(self, base: Base, *inputs: ItemInput | Path) -> list[Item]:
        """A path means the file or directory there."""
        wanted = [_input(one) if isinstance(one, Path) else one for one in inputs]
        return list(self.service.add_items(base.id, wanted).items)

    def work(self, *, hurry: bool = False, rounds: int = 10_000) -> int:
        """Deliver messages until none is left; returns how many started a run.

        Args:
            hurry: what waits for its time becomes due at once, so that back-off costs no time.
        """
        started = 0
        for _ in range(rounds):
            if not self.sender.waiting:
                if hurry:
                    self.hasten()
                self.rt.dispatch.publish_all_due()
            if not self.sender.waiting:
                return started
            started += self.deliver(self.sender.waiting.popleft()) is not None
        raise AssertionError("the house never comes to rest")

    def settle(self, *items: Item, hurry: bool = False) -> Item:
        """Work until all of these are completed or failed, whatever other processes do for them; the last one as it is then."""

        def at_rest() -> list[Item] | None:
            self.work(hurry=hurry)
            found = [self.item(item) for item in items]
            return found if all(item.status in TERMINAL for item in found) else None

        return eventually(at_rest, "the items are completed or failed", seconds=120)[-1]

    def deliver(self, job_id: JobId) -> Job | None:
        """What a worker does with one message."""
        run = claims.claim(self.rt, job_id)
        if run is None:
            return None
        perform(run, FLOWS[run.job.type])
        self.rt.dispatch.publish_due(run.job.base_id)
        return run.job

    def claim(self, job: Job | JobId) -> Run:
        """A run of this job, which must be free."""
        run = claims.claim(self.rt, job if isinstance(job, str) else job.id)
        assert run is not None
        return run

    def hasten(self) -> None:
        """Whatever waits for a later time is due now."""
        with self.db.write() as tx:
            tx.execute(
                update(JOB)
                .where(JOB.c.status == JobStatus.PENDING, JOB.c.scheduled_at > utc_now())
                .values(scheduled_at=utc_now())
            )

    def age(self, job_id: JobId, **columns: float) -> None:
        """Set instants of a job this many seconds into the past, for example `lease_until=1`."""
        with self.db.write() as tx:
            tx.execute(
                update(JOB)
                .where(JOB.c.id == job_id)
                .values({name: utc_now() - timedelta(seconds=seconds) for name, seconds in columns.items()})
            )

    def item(self, item: Item | ItemId) -> Item:
        return self.service.item(item if isinstance(item, str) else item.id)

    def exists(self, item: Item) -> bool:
        with self.db.read() as tx:
            return items.find(tx, item.id) is not None

    def items(self, base: Base | BaseId) -> list[Item]:
        """Every row of a base, oldest first, `deleting` ones included."""
        base_id = base if isinstance(base, str) else base.id
        with self.db.read() as tx:
            return [items.view(row) for row in tx.execute(select(ITEM).where(ITEM.c.base_id == base_id).order_by(ITEM.c.id))]

    def jobs(self, *statuses: JobStatus, base: Base | None = None) -> Sequence[Job]:
        """Oldest first."""
        return self.service.list_jobs(base_id=base and base.id, statuses=statuses or None, limit=1000).jobs[::-1]

    def job_of(self, item: Item) -> Job:
        """The newest job that names this item."""
        return [job for job in self.jobs() if item.id in job.item_ids][-1]

    def wait_of(self, job: Job) -> float:
        """For how many seconds a job was put back, however long the run before took."""
        with self.db.read() as tx:
            row = tx.execute(select(JOB.c.scheduled_at, JOB.c.updated_at).where(JOB.c.id == job.id)).one()
        return float((row.scheduled_at - row.updated_at).total_seconds())

    def raw(self, base: Base) -> list[str]:
        """Every file below raw/, sorted."""
        return sorted(path for path, _ in self.rt.files.listing(base.id))

    def staged(self, base: Base) -> int:
        return len(self.rt.files.leftovers(base.id, -1))


def _input(path: Path) -> ItemInput:
    return DirectoryInput(path=path) if path.is_dir() else FileInput(path=path)
