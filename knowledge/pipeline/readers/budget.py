"""Unpacking on a budget, for readers.

Each file that a reader is given carries a meter: `source.budget`. What a hostile file could make large is counted on it, and
the meter refuses with `reader_budget_exceeded`, the figure and the limit. Limits hold for the file as a whole, never for one
entry of it.

    with opened_zip(source) as archive:          # counts entries and unpacked bytes; damage and passwords get their own errors
        text = archive.read("word/document.xml")
        with archive.opened("xl/worksheets/sheet1.xml") as stream:   # read in steps
            ...

    data = inflated(gzip.open(path), source.budget)   # any other stream that unpacks

    source.budget.page()                         # before each page, slide or sheet
    source.budget.picture(width, height)         # before a picture is unpacked, or a page drawn, by its size in pixels
    source.budget.check_time()                   # in long loops that count nothing else

Seconds and memory are watched from outside as well, where readers run in a process of their own (see `process`).
"""

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Final

from knowledge.errors import CorruptSource, EncryptedSource, JsonValue, ReaderBudgetExceeded, SourceFault
from knowledge.model.budget import Budget, Meter, exceeded
from knowledge.model.documents import SourceFile
from knowledge.pipeline.readers.zip_directory import require_short

_STEP: Final = 1 << 20  #: bytes read at a time, so that a bomb is found before it is in memory

__all__ = ["Budget", "Meter", "Zip", "exceeded", "inflated", "opened_zip", "xml_fault"]


class Zip:
    """The entries of a zip archive, by their names as they stand in it; folders are left out."""

    def __init__(self, archive: zipfile.ZipFile, meter: Meter) -> None:
        self._archive, self._meter = archive, meter
        self.entries: Mapping[str, zipfile.ZipInfo] = {info.filename: info for info in archive.infolist() if not info.is_dir()}
        meter.entry(len(archive.infolist()))

    def read(self, name: str) -> bytes:
        """All bytes of an entry, unpacked.

        Raises:
            KeyError: there is no such entry.
            CorruptSource, EncryptedSource, ReaderBudgetExceeded
        """
        with self.opened(name) as part:
            return part.read()

    @contextmanager
    def opened(self, name: str) -> Iterator["Counted"]:
        """An entry to be read in steps, unpacked, for what is too large to be held.

        Raises:
            KeyError: there is no such entry.
            CorruptSource, EncryptedSource, ReaderBudgetExceeded: also while it is read.
        """
        info = self.entries[name]
        if info.flag_bits & 1:
            raise EncryptedSource(entry=name)
        self._meter.require_room(info.file_size)  # no more than this is ever read
        with _damage_told(name), self._archive.open(info) as part:
            yield Counted(part, self._meter)


class Counted:
    """A stream that unpacks what it reads, on a meter."""

    def __init__(self, stream: IO[bytes], meter: Meter) -> None:
        self._stream, self._meter = stream, meter

    def read(self, size: int = -1) -> bytes:
        """The next bytes, at most `size`, or all that are left if it is negative.

        Raises:
            ReaderBudgetExceeded
        """
        if size < 0:
            return inflated(self._stream, self._meter)
        step = self._stream.read(size)
        self._meter.inflate(len(step))
        return step


@contextmanager
def _damage_told(entry: str) -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, NotImplementedError, EOFError, OSError, ValueError) as error:
        raise CorruptSource(entry=entry, detail=str(error)) from error
    except Exception as error:
        if type(error).__module__ in ("zlib", "_lzma", "lzma", "_bz2"):  # each method of compression has its own
            raise CorruptSource(entry=entry, detail=str(error)) from error
        raise


@contextmanager
def opened_zip(source: SourceFile) -> Iterator[Zip]:
    """
    Raises:
        CorruptSource: it is no zip archive, or a damaged one.
        ReaderBudgetExceeded: it has too many entries.
    """
    try:
        require_short(source.path)
        archive = zipfile.ZipFile(source.path)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError) as error:
        raise CorruptSource(detail=str(error)) from error
    with archive:
        yield Zip(archive, source.budget)


def xml_fault(error: Exception, **details: JsonValue) -> SourceFault:
    """The error for a text that libxml2 refuses: for what is wrong with it, or for what it would take."""
    if "Resource limit exceeded" in str(error):
        return ReaderBudgetExceeded(
            "This file holds a longer text, or deeper elements, than it is read with.", detail=str(error), **details
        )
    return CorruptSource(detail=str(error), **details)


def inflated(stream: IO[bytes], meter: Meter) -> bytes:
    """All bytes of a stream that unpacks what it reads; a step over the limit is the most that it takes too much.

    Raises:
        ReaderBudgetExceeded
    """
    parts = []
    while step := stream.read(min(_STEP, meter.inflated_bytes_left + 1)):
        meter.inflate(len(step))
        parts.append(step)
    return b"".join(parts)
