"""What the expansion of a large directory holds in memory, and how long others wait for it.

`python -m tests.bench expansion`. Each size runs in a process of its own, which tells its own peak.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from knowledge.ingestion import prepare
from knowledge.ingestion.run import perform
from knowledge.model.status import ItemStatus
from tests.bench.measured import Measured
from tests.house import House

FEW: Final = 5_000
MANY: Final = 50_000
IN_A_FOLDER: Final = 250
FLAT: Final = 0.8  #: peak of few files beside that of ten times as many; a tenth would be the peak of what grows with them


def run() -> list[Measured]:
    """Needs about three minutes and 1 GiB of temporary disk."""
    few, many = _in_a_process(FEW), _in_a_process(MANY)
    seconds = f"{MANY / many['seconds']:,.0f} files a second, the lock held {many['longest_lock'] * 1000:.0f} ms at most"
    return [
        Measured(
            f"peak memory of expanding a directory of {FEW:,} files, beside {MANY:,} files",
            few["peak_bytes"] / many["peak_bytes"],
            FLAT,
            f"{few['peak_bytes'] >> 20} and {many['peak_bytes'] >> 20} MiB; {seconds}",
        )
    ]


def _in_a_process(files: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="knowledge-bench-") as directory:
        told = subprocess.run(
            [sys.executable, "-m", "tests.bench.expansion", directory, str(files)],
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        ).stdout
    figures: dict[str, Any] = json.loads(told.splitlines()[-1])
    return figures


def expand(root: Path, files: int) -> dict[str, float]:
    """Add a directory of so many small files and expand it; nothing is indexed."""
    docs = root / "docs"
    for number in range(files):
        if number % IN_A_FOLDER == 0:
            folder = docs / f"{number // IN_A_FOLDER:04}"
            folder.mkdir(parents=True)
        (folder / f"{number:06}.md").write_text(f"note {number}")
    (root / "data").mkdir()
    house = House(root / "data", lease_seconds=86_400.0)  # nothing renews it here
    held: list[float] = []
    _measure_lock(house, held)
    base = house.base(embedder=None)
    (item,) = house.add(base, docs)
    run_ = house.claim(house.job_of(item))
    began = time.perf_counter()
    perform(run_, prepare.run)
    seconds = time.perf_counter() - began
    counts = house.service.status_counts(base.id).leaves
    if {ItemStatus.PROCESSING: files} != dict(counts):
        raise SystemExit(f"the directory did not become what it is: {counts}")
    house.rt.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"peak_bytes": peak, "seconds": seconds, "longest_lock": max(held)}


def _measure_lock(house: House, held: list[float]) -> None:
    take = house.rt.locks.base

    @contextmanager
    def timed(base_id: str) -> Iterator[None]:
        with take(base_id):
            began = time.perf_counter()
            try:
                yield
            finally:
                held.append(time.perf_counter() - began)

    house.rt.locks.base = timed  # type: ignore[method-assign]


if __name__ == "__main__":
    print(json.dumps(expand(Path(sys.argv[1]), int(sys.argv[2]))))
