"""The real ports of a runtime, each call of which is a step of the process that makes it (see `fate.py`)."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.chaos import fate


class Stepping:
    """Any port whose methods are plain calls: a step before and one after each."""

    def __init__(self, name: str, port: Any, *, quiet: frozenset[str] = frozenset()) -> None:
        self._name, self._port, self._quiet = name, port, quiet

    def __getattr__(self, method: str) -> Any:
        found = getattr(self._port, method)
        if not callable(found) or method in self._quiet:
            return found

        def call(*arguments: Any, **options: Any) -> Any:
            fate.step(f"{self._name}.{method}")
            answer = found(*arguments, **options)
            fate.step(f"{self._name}.{method}:done")
            return answer

        return call


class SteppingFiles(Stepping):
    """Raw files, staged at the time that the model has."""

    def __init__(self, files: Any, now: Callable[[], float]) -> None:
        super().__init__("files", files, quiet=frozenset({"holds", "path", "exists", "listing"}))
        self._now = now

    def stage_file(self, base_id: str, source: Any, *reach: Any) -> Any:
        return self._stage("stage_file", base_id, source, *reach)

    def stage_text(self, base_id: str, text: str, **options: Any) -> Any:
        return self._stage("stage_text", base_id, text, **options)

    def stage_stream(self, base_id: str, source: Any) -> Any:
        return self._stage("stage_stream", base_id, source)

    def _stage(self, method: str, *arguments: Any, **options: Any) -> Any:
        fate.step(f"files.{method}")
        staged = getattr(self._port, method)(*arguments, **options)
        os.utime(self._port._staged_path(staged), (self._now(), self._now()))
        fate.step(f"files.{method}:done")
        return staged


class SteppingDatabase:
    """A `Database`; killed before its commit, a transaction has never been."""

    def __init__(self, database: Any) -> None:
        self.database = database

    @contextmanager
    def read(self) -> Iterator[Any]:
        fate.step("db.read")
        with _inside_transaction(), self.database.read() as tx:
            yield tx

    @contextmanager
    def write(self, *, durable: bool = False) -> Iterator[Any]:
        fate.step("db.write")
        with _inside_transaction(), self.database.write(durable=durable) as tx:
            yield tx
            fate.step("db.commit")
        fate.step("db.committed")

    def truncate_log(self) -> bool:
        fate.step("db.truncate")
        return bool(self.database.truncate_log())

    def wipe(self, *, whole: bool = False) -> None:
        fate.step("db.wipe")
        self.database.wipe(whole=whole)

    def dispose(self) -> None:
        self.database.dispose()


@contextmanager
def _inside_transaction() -> Iterator[None]:
    process = fate.current()
    if process is None:
        yield
        return
    process.transactions += 1
    try:
        yield
    finally:
        process.transactions -= 1


class SteppingLocks:
    """Real locks; nobody waits, since nobody else moves meanwhile."""

    def __init__(self, locks: Any) -> None:
        self._locks = locks

    @contextmanager
    def base(self, base_id: str, *, wait_seconds: float | None = None) -> Iterator[None]:
        fate.step("lock")
        with self._locks.base(base_id, wait_seconds=0):
            fate.step("locked")
            yield
        fate.step("unlocked")

    @contextmanager
    def single_flight(self, name: str) -> Iterator[bool]:
        with self._locks.single_flight(name) as is_mine:
            fate.step("flight")
            yield is_mine

    def base_ids(self) -> Any:
        return self._locks.base_ids()

    def forget(self, base_id: str) -> None:
        fate.step("lock.forget")
        self._locks.forget(base_id)


class SteppingIndexes:
    def __init__(self, indexes: Any) -> None:
        self.indexes = indexes

    def create(self, base_id: str, dimensions: int | None) -> Any:
        fate.step("index.create")
        return Stepping("index", self.indexes.create(base_id, dimensions))

    @contextmanager
    def blank(self, base_id: str, dimensions: int | None) -> Iterator[Callable[[], None]]:
        fate.step("index.blank")
        with self.indexes.blank(base_id, dimensions) as put:
            fate.step("index.blank:done")

            def stepping() -> None:
                put()
                fate.step("index.put:done")

            yield stepping

    def open(self, base_id: str, dimensions: int | None) -> Any:
        fate.step("index.open")
        return Stepping("index", self.indexes.open(base_id, dimensions))

    def is_sound(self, base_id: str, dimensions: int | None) -> bool:
        return bool(self.indexes.is_sound(base_id, dimensions))

    def exists(self, base_id: str) -> bool:
        return bool(self.indexes.exists(base_id))

    def drop(self, base_id: str) -> None:
        fate.step("index.drop")
        self.indexes.drop(base_id)
        fate.step("index.drop:done")

    def close(self) -> None:
        self.indexes.close()


class SteppingCache:
    """The cache of paid vectors; notes what it held when a process last asked it."""

    def __init__(self, cache: Any, everything: Callable[[], frozenset[str]]) -> None:
        self._cache, self._everything = cache, everything

    def get(self, fingerprint: str, hashes: Any) -> Any:
        fate.step("cache.get")
        found = self._cache.get(fingerprint, hashes)
        process = fate.current()
        if process is not None:
            process.saw_paid = self._everything()
        fate.step("cache.get:done")
        return found

    def ensure_room(self, byte_count: int) -> None:
        self._cache.ensure_room(byte_count)  # no step: what it leaves behind is nobody's state

    def put(self, fingerprint: str, vectors: Any) -> None:
        fate.step("cache.put")
        self._cache.put(fingerprint, vectors)
        process = fate.current()
        if process is not None:
            process.in_flight = frozenset()
        fate.step("cache.put:done")

    def evict(self) -> int:
        return int(self._cache.evict())


def stepping_checkpoint(check: Callable[..., None]) -> Callable[..., None]:
    def checkpoint(**how: bool) -> None:
        fate.step("checkpoint")
        check(**how)

    return checkpoint
