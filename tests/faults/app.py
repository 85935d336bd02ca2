"""The product's own Celery application, with ports that can be held at a moment: `celery -A tests.faults.app worker`.

Nothing of the product is replaced. Each port is wrapped by one that stops at a gate and then does what the real one does. A
file that holds a line `die: SIGNAL` kills the process that reads it: a poison file.
"""

import os
import re
import signal
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

import apsw

from config import settings as config_settings
from config import wiring
from config.celery import app as app
from knowledge.files.reach import ANYWHERE, Reach
from knowledge.files.store import Staged
from knowledge.model.documents import Checkpoint, Material, ReadResult
from knowledge.pipeline.vectorstore.port import IndexStore
from knowledge.runtime import Runtime
from knowledge.service import KnowledgeService
from tests.faults.gates import Moment, Pass, pass_by

_POISON: Final = re.compile(rb"^die: (SIG[A-Z]+)$", re.MULTILINE)


class HeldReaders:
    """A `ReaderRegistry` that stops before and after it reads."""

    def __init__(self, real: Any, at: Pass) -> None:
        self._real = real
        self._at = at

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def read(self, source_path: Path, name: str, checkpoint: Checkpoint) -> ReadResult:
        with self._held(source_path):
            return self._real.read(source_path, name, checkpoint)

    def read_snapshot(self, source_path: Path) -> ReadResult:
        with self._held(source_path):
            return self._real.read_snapshot(source_path)

    @contextmanager
    def _held(self, path: Path) -> Iterator[None]:
        self._at(Moment.READING)
        poison = None
        with suppress(OSError):  # the real reader meets it as well
            poison = _POISON.search(path.read_bytes())
        if poison:
            os.kill(os.getpid(), signal.Signals[poison[1].decode()])
        yield
        self._at(Moment.READ)


class HeldFiles:
    """`RawFiles` that stop while a directory is imported and while files are removed."""

    def __init__(self, real: Any, at: Pass) -> None:
        self._real = real
        self._at = at

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def stage_file(self, base_id: str, source: Path, reach: Reach = ANYWHERE) -> Staged:
        self._at(Moment.COPYING)
        return self._real.stage_file(base_id, source, reach)

    def stage_stream(self, base_id: str, source: IO[bytes]) -> Staged:
        self._at(Moment.COPYING)
        return self._real.stage_stream(base_id, source)

    def publish(self, staged: Staged, path: str, *, overwrite: bool = False) -> None:
        self._real.publish(staged, path, overwrite=overwrite)
        self._at(Moment.PLACING)

    def sync(self, base_id: str, paths: Iterable[str]) -> None:
        self._real.sync(base_id, paths)
        self._at(Moment.PLACED)

    def remove(self, base_id: str, paths: Collection[str], trees: Collection[str] = ()) -> None:
        self._at(Moment.REMOVING_FILES)
        self._real.remove(base_id, paths, trees)
        self._at(Moment.REMOVING_ROWS)


class HeldStores:
    """`IndexStores` whose stores stop around and inside their transactions."""

    def __init__(self, real: Any, at: Pass) -> None:
        self._real = real
        self._at = at

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def open(self, base_id: str, dimensions: int | None) -> "HeldStore":
        return HeldStore(self._real.open(base_id, dimensions), self._at)


class HeldStore:
    def __init__(self, real: IndexStore, at: Pass) -> None:
        self._real = real
        self._at = at

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def rebuild_material(self, material: Material) -> None:
        self._at(Moment.BEFORE_COMMIT)
        with _holding_commits(self._at, Moment.INSIDE_COMMIT):
            self._real.rebuild_material(material)
        self._at(Moment.BETWEEN_COMMITS)

    def delete_materials(self, item_ids: Collection[str]) -> int:
        with _holding_commits(self._at, Moment.REMOVING_MATERIAL):
            return self._real.delete_materials(item_ids)


_inside = threading.local()


@contextmanager
def _holding_commits(at: Pass, moment: Moment) -> Iterator[None]:
    """Index transactions of this thread stop at the moment when all is written and the commit is about to begin."""
    _inside.stop = partial(at, moment)
    try:
        yield
    finally:
        _inside.stop = None


def _before_commit() -> bool:
    stop = getattr(_inside, "stop", None)
    if stop is not None:
        stop()
    return False  # go on with the commit


def _watch_commits(connection: apsw.Connection) -> None:
    connection.set_commit_hook(_before_commit)


def held_runtime(*, pooled: bool) -> Runtime:
    rt = wiring.runtime(config_settings.load(), app, pooled=pooled)
    at = partial(pass_by, Path(os.environ["FAULT_GATES"]))
    held: dict[str, Any] = {
        "readers": HeldReaders(rt.readers, at),
        "files": HeldFiles(rt.files, at),
        "indexes": HeldStores(rt.indexes, at),
    }
    return replace(rt, **held)


def service() -> KnowledgeService:
    """What `KNOWLEDGE_APP` names for a command line that can be held."""
    return KnowledgeService(held_runtime(pooled=True))


apsw.connection_hooks.append(_watch_commits)  # the only way into a store's own transaction without changing the store
app.knowledge_runtime = held_runtime
