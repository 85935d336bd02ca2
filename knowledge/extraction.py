"""The text of files, without a base, a service or a setting: what `knowledge extract` prints."""

import os
import queue
import stat
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from knowledge.errors import KnowledgeError, PathNotFound, PathUnreadable, SourceFault
from knowledge.model.budget import Budget
from knowledge.model.documents import ReadResult
from knowledge.pipeline.indexing.chunker import DOCUMENT_BREAK
from knowledge.pipeline.readers.process import ReaderProcess
from knowledge.pipeline.readers.registry import ReaderRegistry
from knowledge.pipeline.sources.directory import shown

_AHEAD: Final = 4  #: files per reader process that may be read before the ones in front of them are done


@dataclass(frozen=True, slots=True)
class Extracted:
    """What became of one file: either `read` or `error`."""

    file: str  #: the path as it was given, or below the one directory that was given
    read: ReadResult | None = None
    error: KnowledgeError | None = None

    @property
    def text(self) -> str:
        """All documents, joined as an index joins them."""
        return DOCUMENT_BREAK.join(document.text for document in self.read.documents) if self.read else ""


def extract(
    paths: Sequence[Path], *, types: Collection[str] | None = None, jobs: int = 1, budget: Budget | None = None
) -> Iterator[Extracted]:
    """Read files, and all files of directories, in order of their names; one result each.

    In directories, what is hidden is left out and symbolic links are not followed. Files are read in processes of their own, so
    that a hostile one can neither hang nor crash this one.

    Args:
        types: suffixes without their dot; only files of these names. None for all.
        jobs: how many files are read at the same time.
    """
    budget = budget or Budget()
    wanted = None if types is None else {f".{kind.lower().lstrip('.')}" for kind in types}
    registries: queue.SimpleQueue[ReaderRegistry] = queue.SimpleQueue()
    all_registries = [ReaderRegistry.installed(budget, ReaderProcess(budget)) for _ in range(jobs)]
    for registry in all_registries:
        registries.put(registry)
    pending: deque[Future[Extracted]] = deque()
    with ThreadPoolExecutor(jobs) as threads:
        try:
            for found in _found(paths):
                if wanted is None or found.error is not None or Path(found.file).suffix.lower() in wanted:
                    pending.append(threads.submit(partial(_read, registries, found)))
                if len(pending) >= jobs * _AHEAD:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
            for registry in all_registries:
                registry.close()


@dataclass(frozen=True, slots=True)
class _Found:
    file: str
    path: Path
    error: KnowledgeError | None = None


def _read(registries: "queue.SimpleQueue[ReaderRegistry]", found: _Found) -> Extracted:
    if found.error is not None:
        return Extracted(found.file, error=found.error)
    registry = registries.get()
    try:
        return Extracted(found.file, read=registry.read(found.path, found.path.name, lambda: None))
    except KnowledgeError as error:
        return Extracted(found.file, error=error)
    finally:
        registries.put(registry)


def _found(paths: Sequence[Path]) -> Iterator[_Found]:
    is_alone = len(paths) == 1
    for path in paths:
        if path.is_dir():
            yield from _below(path, path if is_alone else None)
        else:
            yield _named(path, shown(str(path)))


def _below(directory: Path, relative_to: Path | None) -> Iterator[_Found]:
    refused: list[OSError] = []
    for folder, folders, names in os.walk(directory, onerror=refused.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(folder, name)
            with suppress(OSError):
                if name.startswith(".") or not stat.S_ISREG(path.lstat().st_mode):
                    continue
            yield _named(path, shown(str(path.relative_to(relative_to) if relative_to else path)))
        while refused:
            error = refused.pop()
            yield _Found(
                shown(str(error.filename)),
                Path(error.filename),
                PathUnreadable(path=shown(str(error.filename)), reason=error.strerror),
            )


def _named(path: Path, file: str) -> _Found:
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return _Found(file, path, PathNotFound(path=file))
    except (OSError, ValueError) as error:
        return _Found(file, path, PathUnreadable(path=file, reason=getattr(error, "strerror", None)))
    if not stat.S_ISREG(mode):
        return _Found(file, path, SourceFault("This is no plain file.", path=file))
    return _Found(file, path)
