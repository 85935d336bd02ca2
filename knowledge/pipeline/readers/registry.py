"""Chooses the reader for a file, runs it, and guards the boundary: clean text, our own errors, notices collected."""

import errno
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final, Self, TypeVar

from knowledge.errors import (
    ConfigurationError,
    CorruptSource,
    EmptySource,
    EncryptedSource,
    KnowledgeError,
    ReaderBudgetExceeded,
    SourceFault,
    SourceMissing,
    StorageFailed,
    UnsupportedSource,
)
from knowledge.model.budget import Budget, Meter
from knowledge.model.documents import Checkpoint, Document, ReadResult, SourceFile
from knowledge.model.skip_reason import SkipReason
from knowledge.pipeline.readers.decoding import clean
from knowledge.pipeline.readers.media_type import (
    MARKDOWN,
    PLAIN,
    TEXT_SUFFIXES,
    UNWANTED_SUFFIXES,
    detect,
    is_binary,
    sniff_text,
)
from knowledge.pipeline.readers.port import Finding, Reader
from knowledge.pipeline.readers.process import ReaderProcess
from knowledge.pipeline.readers.reading import Began, Reading
from knowledge.pipeline.snapshot import strip

GROUP: Final = "knowledge.readers"
PLAIN_BYTES: Final = 4 << 20
PLAINEST: Final = frozenset({PLAIN, MARKDOWN})
#: Errors of the system that a damaged file causes: a place before its beginning, or none at all, as libraries raise them.
_OF_THE_CONTENT: Final = frozenset({None, errno.EINVAL, errno.EOVERFLOW})
_DETAIL_CHARACTERS: Final = 300  #: of a library's message; it may quote the file

_T = TypeVar("_T")
log = logging.getLogger(__name__)


class ReaderRegistry:
    """All readers of this process."""

    def __init__(self, readers: Iterable[Reader], budget: Budget | None = None, process: ReaderProcess | None = None) -> None:
        self._budget = budget or Budget()
        self._process = process
        self._readers = tuple(sorted(readers, key=lambda reader: reader.name))
        self.suffixes = frozenset(suffix for reader in self._readers for suffix in reader.suffixes)

    @classmethod
    def installed(cls, budget: Budget | None = None, process: ReaderProcess | None = None) -> Self:
        """Every reader that an installed distribution declares, ours by the same door.

        Args:
            budget: for each file.
            process: reads everything but short plain text; None to read in this process, which a hostile file can then hang.

        Raises:
            ConfigurationError: one of them cannot be loaded, or there is none.
        """
        readers = []
        for entry in entry_points(group=GROUP):
            try:
                readers.append(entry.load()())
            except Exception as error:
                raise ConfigurationError(
                    f"The reader {entry.value} cannot be loaded.", entry_point=entry.name, detail=str(error)
                ) from error
        if not readers:
            raise ConfigurationError(f"No distribution declares an entry point in {GROUP}; is knowledge-pipeline installed?")
        return cls(readers, budget, process)

    def close(self) -> None:
        if self._process is not None:
            self._process.close()

    def read(self, source_path: Path, name: str, checkpoint: Checkpoint) -> ReadResult:
        """The text of a file: by its content, whatever it is called.

        Blank documents are left out. Each text is clean (see `decoding.clean`). What is more than a short plain text is read in
        the reader process, if there is one.

        Args:
            name: what a person calls it; its suffix is a hint.
            checkpoint: called before the file is opened, after each document, and several times a second in a reader process.

        Raises:
            SourceFault: one of its kinds, with `name`, `media_type` and `reader` in its details as far as they are known.
            StorageFailed: the disk does not give the file.
        """
        checkpoint()
        reading = Reading(self._budget)
        if self._process is None or self._is_harmless(source_path, name):
            for event in self.events(source_path, name):
                reading.take(event)
                checkpoint()
        else:
            self._process.read(source_path, name, reading.take, checkpoint)
        return reading.result()

    def events(self, source_path: Path, name: str, meter: Meter | None = None) -> Iterator[Began | Finding]:
        """What reading a file gives, as it comes: what the file is, then all that its reader finds.

        Args:
            meter: of the file that this one is a part of; they share its budget.

        Raises:
            SourceFault
        """
        details: dict[str, str] = {"name": clean(name)}
        with_details = _Boundary(details, is_stored=True)
        media_type = details["media_type"] = with_details(lambda: detect(source_path, name))
        source = SourceFile(path=source_path, name=name, media_type=media_type, budget=meter or Meter(self._budget))
        reader = with_details(lambda: self._best(source))
        details["reader"] = reader.name
        yield Began(media_type, reader.name)
        yield from _guarded(reader, source, with_details)

    def _is_harmless(self, source_path: Path, name: str) -> bool:
        """Whether it is plain text, of a size that costs little to decode."""
        try:
            return source_path.stat().st_size <= PLAIN_BYTES and sniff_text(source_path, Path(name).suffix.lower()) in PLAINEST
        except OSError:
            return False

    def require_reader(self, source_path: Path, name: str) -> None:
        """Refuse a file that no reader would read, by its content; an empty one passes, its failure is shown on the item.

        Raises:
            UnsupportedSource, BinarySource, SourceFault
        """
        details = {"name": clean(name)}
        with_details = _Boundary(details)
        try:
            media_type = details["media_type"] = with_details(lambda: detect(source_path, name))
        except (EmptySource, CorruptSource, EncryptedSource):
            return
        with_details(lambda: self._best(SourceFile(path=source_path, name=name, media_type=media_type)))

    def read_snapshot(self, source_path: Path) -> ReadResult:
        """The body of a snapshot that we wrote, as one document, without its frontmatter and otherwise unchanged."""
        content = _Boundary({"name": clean(source_path.name)}, is_stored=True)(source_path.read_bytes)
        reading = Reading(self._budget)
        reading.take(Began(MARKDOWN, "snapshot"))
        reading.keep(Document(text=clean(strip(content.decode()))))
        return reading.result()

    def accepts(self, name: str, path: Path) -> SkipReason | None:
        """Why a directory import leaves this file out; None to take it.

        A suffix that a reader claims is believed, except that what is named like text must be text, or a document that a reader
        knows by its content. Without one a file is taken if its first bytes are text. What is named like an image, a program or
        a key is not opened.

        Raises:
            OSError: the file cannot be opened.
        """
        suffix = Path(name).suffix.lower()
        if suffix not in self.suffixes:
            media_type = None if suffix in UNWANTED_SUFFIXES else sniff_text(path, suffix)
            source = SourceFile(path=path, name=name, media_type=media_type or "")
            is_readable = media_type is not None and any(reader.score(source) is not None for reader in self._readers)
            return None if is_readable else SkipReason.UNSUPPORTED
        if suffix in TEXT_SUFFIXES and is_binary(path) and not self._is_document(path, name):
            return SkipReason.BINARY
        return None

    def _is_document(self, path: Path, name: str) -> bool:
        try:
            self._best(SourceFile(path=path, name=name, media_type=detect(path, name)))
        except SourceFault:
            return False
        return True

    def _best(self, source: SourceFile) -> Reader:
        scored = [(score, reader) for reader in self._readers if (score := reader.score(source)) is not None]
        if not scored:
            raise UnsupportedSource(f"No reader knows files of type {source.media_type}.")
        return max(scored, key=lambda pair: pair[0])[1]


class _Boundary:
    """Calls into libraries: lets our own errors through, makes every other a `SourceFault`, and adds what is known.

    Args:
        is_stored: the file is our own copy: what the system answers then is a fault of the disk, which may pass, and says
            nothing about the source. (Errors without a number are a library's own.)
    """

    def __init__(self, details: dict[str, str], *, is_stored: bool = False) -> None:
        self._details = details
        self._is_stored = is_stored

    def __call__(self, call: Callable[[], _T]) -> _T:
        try:
            return call()
        except SourceFault as error:
            error.details = {**self._details, **error.details}
            raise
        except KnowledgeError:
            raise
        except FileNotFoundError as error:
            raise SourceMissing(**self._details) from error
        except MemoryError as error:
            message = "Reading this file took more memory than there is."
            raise ReaderBudgetExceeded(message, **self._details, figure="memory_bytes") from error
        except OSError as error:
            if error.errno in _OF_THE_CONTENT:
                raise CorruptSource(**self._details, detail=clean(str(error))[:_DETAIL_CHARACTERS]) from error
            if self._is_stored and error.errno is not None:
                raise StorageFailed(**self._details, reason=os.strerror(error.errno)) from error
            raise SourceFault(**self._details, reason=error.strerror) from error
        except Exception as error:
            log.warning("reader failed", extra={**_fields(self._details), "exception": type(error).__qualname__})
            raise CorruptSource(
                **self._details, exception=type(error).__qualname__, detail=clean(str(error))[:_DETAIL_CHARACTERS]
            ) from error


def _guarded(reader: Reader, source: SourceFile, boundary: _Boundary) -> Iterator[Finding]:
    findings = boundary(lambda: iter(reader.read(source)))
    while (finding := boundary(lambda: next(findings, None))) is not None:
        yield finding


def _fields(details: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in details.items() if key in ("media_type", "reader")}
