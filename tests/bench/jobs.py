"""Jobs on real workers against a task that does nothing: what rows, ledger, lease and index cost, and how memory grows.

One fleet for all: broker, control worker and beat run throughout, the worker that is not measured idles. A round measures each
rival once, one after the other; the median of the ratios of the rounds counts. The clock runs from the call that submits to the
end of the last task.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from knowledge.model.inputs import BaseInput, DirectoryInput, ItemInput, NoteInput
from knowledge.model.status import ItemStatus
from tests.bench.documents import CHUNKING, documents
from tests.bench.fleet import BARE_QUEUE, EMBEDDER, Fleet, fleet, wait_for
from tests.bench.measured import Measured

SEED: Final = 20_240_918
SHORT_ROUNDS: Final = 5
ROUNDS: Final = 3
NOTES: Final = 1000
DOCUMENTS: Final = 2000
WARM_DOCUMENTS: Final = 100  #: about 50 a child; from then on its memory counts
FLOOR_PER_SECOND: Final = 150.0
GROWTH_BYTES: Final = 100e6


def overhead() -> list[Measured]:
    """1,000 notes of 1 KB against 1,000 tasks that do nothing."""
    inputs: list[ItemInput] = [NoteInput(content=text) for text in documents(NOTES, size_bytes=1024, seed=SEED)]
    with fleet() as running:
        _warm_up(running)
        jobs, bare = [], []
        for _ in range(SHORT_ROUNDS):
            bare.append(_bare_rate(running, NOTES))
            jobs.append(_index_rate(running, inputs, NOTES))
    return [
        Measured(
            "1,000 notes of 1 KB through jobs: rate against a bare no-op task",
            _median_ratio(jobs, bare),
            0.25,
            f"{_figures(jobs)} notes/s against {_figures(bare)} tasks/s",
        )
    ]


def through_celery() -> list[Measured]:
    """2,000 documents of 2 KB, as files of a directory and as notes; and the memory of the processes that index them."""
    texts = documents(DOCUMENTS, size_bytes=2048, seed=SEED)
    notes: list[ItemInput] = [NoteInput(content=text) for text in texts]
    files, pasted, bare = [], [], []
    with fleet() as running, tempfile.TemporaryDirectory(prefix="knowledge-bench-") as directory:
        for number, text in enumerate(texts):
            (Path(directory) / f"{number:04}.md").write_text(text)
        _warm_up(running)
        memory = Memory(running)
        for _ in range(ROUNDS):
            bare.append(_bare_rate(running, DOCUMENTS))
            files.append(_index_rate(running, [DirectoryInput(path=Path(directory))], DOCUMENTS, memory.look))
            pasted.append(_index_rate(running, notes, DOCUMENTS))
    required = [min(FLOOR_PER_SECOND, rate / 2) for rate in bare]
    note = f"documents/s; bare {_figures(bare)} tasks/s"
    return [
        *(
            Measured(
                f"2,000 {what} of 2 KB through jobs: rate against 150/s or half of the bare rate",
                _median_ratio(rates, required),
                1,
                f"{_figures(rates)} {note}",
            )
            for what, rates in (("files", files), ("notes", pasted))
        ),
        Measured(
            "memory of a worker child after 2,000 documents: allowed over measured growth",
            GROWTH_BYTES / max(memory.growth, 1.0),
            1,
            f"largest growth {memory.growth / 1e6:.1f} MB, to {memory.largest / 1e6:.0f} MB",
        ),
    ]


class Memory:
    """Resident size of the index worker's children, each from its first documents to its last; the largest growth counts."""

    def __init__(self, running: Fleet) -> None:
        self._running = running
        self._first: dict[int, int] = {}
        self.growth = 0
        self.largest = 0

    def look(self) -> None:
        """Note how large each child is now; the first look at one is what it grows from."""
        for child in self._running.index_children():
            with suppress(psutil.NoSuchProcess):
                size = child.memory_info().rss
                self.growth = max(self.growth, size - self._first.setdefault(child.pid, size))
                self.largest = max(self.largest, size)


def _warm_up(running: Fleet) -> None:
    """Every process has its imports, connections and caches before the first clock starts."""
    _bare_rate(running, 200)
    _index_rate(running, [NoteInput(content=text) for text in documents(100, size_bytes=1024, seed=SEED - 1)], 100)


def _bare_rate(running: Fleet, count: int) -> float:
    """Tasks a second."""
    app = running.bare
    with app.connection_for_write() as connection:
        client = connection.default_channel.client

        def is_drained() -> bool:
            return not client.llen(BARE_QUEUE) and not client.hlen("unacked")

        start = time.perf_counter()
        with app.amqp.Producer(connection) as producer:
            for number in range(count):
                app.send_task("bare.nothing", args=(f"{number:036}",), queue=BARE_QUEUE, producer=producer, ignore_result=True)
        wait_for(is_drained, "the end of the bare tasks")
        return count / (time.perf_counter() - start)


def _index_rate(running: Fleet, inputs: Sequence[ItemInput], leaves: int, look: Callable[[], None] | None = None) -> float:
    """Leaves a second, in a base of their own.

    Args:
        look: called when some are done, and when all are.
    """
    service = running.service
    base = service.create_base(
        BaseInput(name="bench", embedder=EMBEDDER, chunk_size=CHUNKING.size, chunk_overlap=CHUNKING.overlap)
    )

    def done() -> int:
        counts = service.status_counts(base.id).leaves
        return counts[ItemStatus.COMPLETED] + counts[ItemStatus.FAILED]

    start = time.perf_counter()
    service.add_items(base.id, inputs)
    if look is not None:
        wait_for(lambda: done() >= WARM_DOCUMENTS, "the end of the first jobs")
        look()
    wait_for(lambda: done() == leaves, f"the end of {leaves} jobs")
    seconds = time.perf_counter() - start
    if look is not None:
        look()
    failed = service.failures(base.id, limit=1)
    assert not failed, f"an item failed: {failed[0].error} {failed[0].error_detail}"
    return leaves / seconds


def _median_ratio(rates: Sequence[float], others: Sequence[float]) -> float:
    return statistics.median(rate / other for rate, other in zip(rates, others, strict=True))


def _figures(rates: Sequence[float]) -> str:
    return " ".join(f"{rate:.0f}" for rate in rates)
