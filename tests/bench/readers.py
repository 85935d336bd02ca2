"""Readers over real documents: the speed of PDF against pdfminer.six, the memory of each kind, and what jobs add to reading.

The documents are those of `shared/data/documents` beside the checkout, where somebody has put them, else those that the project
ships or makes. Each is read in a process of its own kind, which is killed after 30 s with a file.
"""

import json
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

from knowledge.errors import SourceFault
from knowledge.model.inputs import BaseInput, DirectoryInput, NoteInput
from knowledge.pipeline.readers.pdf_pages import pages_without_text
from tests.bench.documents import documents
from tests.bench.fleet import fleet, wait_for
from tests.bench.measured import Measured

CHECKOUT: Final = Path(__file__).parents[2]
REAL: Final = CHECKOUT.parent / "shared" / "data" / "documents"
SHIPPED: Final = CHECKOUT / "deploy" / "examples"
FILE_SECONDS: Final = 30.0
ROUNDS: Final = 5
RESIDENT_BYTES: Final = 500e6
MIXED: Final = 1_000
JOB_SECONDS: Final = 0.012  #: that a file may take on its way through jobs, reading aside
SEED: Final = 20_261_201


def run() -> list[Measured]:
    with tempfile.TemporaryDirectory(prefix="knowledge-bench-") as directory:
        kinds = _documents(Path(directory))
        return [
            _speed(kinds["pdf"]),
            _memory(kinds),
            _mixed([path for paths in kinds.values() for path in paths if not _needs_ocr(path)]),
        ]


def _speed(paths: Sequence[Path]) -> Measured:
    """Sides take turns, a file each; the least time of all rounds counts for a file."""
    ours, theirs = [FILE_SECONDS] * len(paths), [FILE_SECONDS] * len(paths)
    with _Side("ours") as one, _Side("pdfminer") as other:
        one.read(paths[0])  # loads the library
        other.read(paths[0])
        for round_number in range(ROUNDS):
            for number, path in enumerate(paths):
                ours[number] = min(ours[number], one.read(path))
                if round_number == 0 or theirs[number] < FILE_SECONDS / 10:  # else it is slow enough to be exact
                    theirs[number] = min(theirs[number], other.read(path))
    return Measured(
        f"text of {len(paths)} PDFs: rate against pdfminer.six",
        sum(theirs) / sum(ours),
        10,
        f"{sum(ours):.3f} s against {sum(theirs):.3f} s",
    )


def _memory(kinds: dict[str, list[Path]]) -> Measured:
    peaks = {}
    for kind, paths in kinds.items():
        with _Side("ours") as side:
            for path in paths:
                side.read(path)
            peaks[kind] = side.peak_bytes
    largest = max(peaks, key=lambda kind: peaks[kind])
    note = ", ".join(f"{kind} {peak / 1e6:.0f}" for kind, peak in sorted(peaks.items(), key=lambda pair: -pair[1])[:4])
    return Measured(
        "memory of a process that has read all documents of a kind: allowed over the largest",
        RESIDENT_BYTES / peaks[largest],
        1,
        f"MB: {note}",
    )


def _mixed(paths: Sequence[Path]) -> Measured:
    """All documents again and again as files of one directory, in a base without embedder, so that reading is what is left."""
    with _Side("ours") as side:
        for path in paths:
            side.read(path)
        bare = [min(side.read(path) for _ in range(2)) for path in paths]
    with tempfile.TemporaryDirectory(prefix="knowledge-bench-") as directory, fleet() as running:
        for number in range(MIXED):
            path = paths[number % len(paths)]
            shutil.copyfile(path, Path(directory) / f"{number:04} {path.name}")
        service = running.service
        slots = len(running.index_children())

        def indexed(inputs: DirectoryInput | NoteInput) -> tuple[float, int]:
            """(seconds, files)"""
            base = service.create_base(BaseInput(name="mixed"))
            start = time.perf_counter()
            service.add_items(base.id, [inputs])
            wait_for(lambda: service.status_counts(base.id).is_settled, "the end of the jobs")
            return time.perf_counter() - start, sum(service.status_counts(base.id).leaves.values())

        for text in documents(8, size_bytes=1024, seed=SEED):
            indexed(NoteInput(content=text))
        seconds, found = indexed(DirectoryInput(path=Path(directory)))
    assert found == MIXED, f"{MIXED - found} files were left out"
    reading = sum(bare[number % len(paths)] for number in range(MIXED))
    allowed = 2 * reading / slots + JOB_SECONDS * MIXED
    return Measured(
        f"{MIXED:,} mixed files through jobs: allowed (twice the reading by {slots} slots, 12 ms a file) over measured time",
        allowed / seconds,
        1,
        f"{seconds:.1f} s, reading alone {reading:.1f} s in one process",
    )


def _needs_ocr(path: Path) -> bool:
    if path.suffix.lower() != ".pdf":
        return False
    try:
        return bool(pages_without_text(path))
    except SourceFault:
        return False


def _documents(directory: Path) -> dict[str, list[Path]]:
    """Documents that hold text, by kind. Where they are made by us, the PDFs are long enough to be measured."""
    kinds: dict[str, list[Path]] = defaultdict(list)
    if (REAL / "manifest.jsonl").exists():
        for line in (REAL / "manifest.jsonl").read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            if entry["expect"] == "text" and entry["type"] != "image":
                kinds[entry["type"]].append(REAL / entry["file"])
        return dict(kinds)
    for path in sorted(path for path in SHIPPED.rglob("*") if path.is_file()):
        kinds[path.suffix.lstrip(".")].append(path)
    kinds["pdf"] += _made_pdfs(directory)
    return dict(kinds)


def _made_pdfs(directory: Path) -> list[Path]:
    from tests.unit.pipeline.readers import made

    paths = []
    for number in range(4):
        pages = [_page(text) for text in documents(20, size_bytes=3_000, seed=SEED + number)]
        paths.append(directory / f"{number}.pdf")
        paths[-1].write_bytes(made.pdf(*pages))
    return paths


def _page(text: str) -> bytes:
    """Its words in lines, as operators of a PDF page."""
    words = text.split()
    lines = [" ".join(words[start : start + 12]) for start in range(0, len(words), 12)]
    shown = " ".join(f"({line}) Tj T*" for line in lines)
    return f"BT /F1 9 Tf 11 TL 40 760 Td {shown} ET".encode("ascii")


class _Side:
    """A process that reads files, one after the other; a new one when it was killed for a file that took too long."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str] = queue.Queue()
        self.peak_bytes = 0

    def __enter__(self) -> "_Side":
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def read(self, path: Path) -> float:
        """Seconds, at most 30."""
        process = self._process or self._start()
        assert process.stdin is not None
        process.stdin.write(f"{path}\n")
        process.stdin.flush()
        try:
            answer = self._answers.get(timeout=FILE_SECONDS + 5)
        except queue.Empty:
            answer = ""
        if not answer:  # too long, or it has died
            self._stop()
            return FILE_SECONDS
        found = json.loads(answer)
        self.peak_bytes = max(self.peak_bytes, found["peak_bytes"])
        return min(FILE_SECONDS, float(found["seconds"]))

    def _start(self) -> subprocess.Popen[str]:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.reading", self._name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=CHECKOUT,
        )
        self._answers = queue.Queue()
        assert self._process.stdout is not None
        threading.Thread(target=_pass_on, args=(self._process.stdout, self._answers), daemon=True).start()
        return self._process

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _pass_on(lines: IO[str], answers: "queue.Queue[str]") -> None:
    for line in lines:
        answers.put(line)
    answers.put("")
