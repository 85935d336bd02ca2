"""The process that reads files for a bench: `python -m tests.bench.reading ours|pdfminer`.

Takes a path a line from stdin and answers a line of JSON each: how many seconds it took, and how large this process or one that
it started has become. What a reader refuses counts as read.
"""

import json
import logging
import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def main() -> None:
    read = {"ours": _ours, "pdfminer": _pdfminer}[sys.argv[1]]()
    for line in sys.stdin:
        path = Path(line.rstrip("\n"))
        start = time.perf_counter()
        read(path)
        seconds = time.perf_counter() - start
        print(json.dumps({"seconds": seconds, "peak_bytes": _peak_bytes()}), flush=True)


def _ours() -> Callable[[Path], None]:
    from knowledge.errors import SourceFault
    from knowledge.pipeline.readers.registry import ReaderRegistry

    registry = ReaderRegistry.installed()

    def read(path: Path) -> None:
        with suppress(SourceFault):
            registry.read(path, path.name, lambda: None)

    return read


def _pdfminer() -> Callable[[Path], None]:
    from pdfminer.high_level import extract_text

    logging.disable(logging.CRITICAL)

    def read(path: Path) -> None:
        with suppress(Exception):  # whatever it makes of the file took its time
            extract_text(path)

    return read


def _peak_bytes() -> int:
    """Of this process, without what the one before its exec had; of its children, the largest."""
    status = Path("/proc/self/status").read_text().split()
    own = int(status[status.index("VmHWM:") + 1])
    return max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) * 1024


if __name__ == "__main__":
    main()
