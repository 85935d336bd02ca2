"""Real processes on a data directory of their own: what `make up` starts, without Flower, and a bare worker beside them."""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

from deploy.run import stack
from deploy.run.procfile import parse

if TYPE_CHECKING:
    from celery import Celery

    from knowledge.service import KnowledgeService

BARE_QUEUE: Final = "bare"
EMBEDDER: Final = "bench/hashing"
POLL_SECONDS: Final = 0.05
_QUIET_SECONDS: Final = 300.0  #: nothing measured here takes as long
_MODELS: Final = f"""\
[[embedder]]
id = "{EMBEDDER}"
kind = "hashing"
"""


class Fleet:
    """A running stack and the service of this process on the same data."""

    def __init__(self, running: stack.Stack) -> None:
        from config import wiring

        self.service: KnowledgeService = wiring.service()
        self._running = running

    @property
    def bare(self) -> "Celery":
        from tests.bench.bare import app

        return app

    def index_children(self) -> list[psutil.Process]:
        """The pool processes of the index worker, those of this moment."""
        try:
            return psutil.Process(stack.running(self._running.settings).pids["worker"]).children()
        except (psutil.NoSuchProcess, KeyError):
            return []


@contextmanager
def fleet() -> Iterator[Fleet]:
    """Start it, lend it, stop it. The environment of this process is that of the fleet until then."""
    before = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="knowledge-bench-") as directory:
        home = Path(directory)
        (home / "models.toml").write_text(_MODELS)
        (home / "Procfile").write_text(_procfile())
        for name in [name for name in os.environ if name.startswith("KNOWLEDGE_")]:
            del os.environ[name]
        os.environ |= {
            "KNOWLEDGE_DATA_DIR": str(home / "data"),
            "KNOWLEDGE_MODELS_FILE": str(home / "models.toml"),
            "KNOWLEDGE_DRAIN_SECONDS": "1",
        }
        try:
            running = Fleet(stack.up(procfile=home / "Procfile"))
            try:
                yield running
            finally:
                running.service.close()
                stack.down()
        finally:
            os.environ.clear()
            os.environ.update(before)


def wait_for(done: Callable[[], bool], what: str) -> None:
    """Look until it is so.

    Raises:
        TimeoutError: it never became so; names `what`.
    """
    until = time.monotonic() + _QUIET_SECONDS
    while not done():
        if time.monotonic() > until:
            raise TimeoutError(f"{what} did not happen within {_QUIET_SECONDS:.0f} s")
        time.sleep(POLL_SECONDS)


def _procfile() -> str:
    lines = dict(parse(stack.PROCFILE))
    del lines["flower"]
    bare = lines["worker"].command
    for ours, theirs in (("config.celery", "tests.bench.bare"), ("index@", "bare@"), ("-Q knowledge.main", f"-Q {BARE_QUEUE}")):
        assert ours in bare, f"the worker line of the Procfile no longer says {ours}"
        bare = bare.replace(ours, theirs)
    return "".join(f"{line.name}: {line.command}\n" for line in lines.values()) + f"bare: {bare}\n"
