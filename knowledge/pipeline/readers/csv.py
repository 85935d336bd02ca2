"""Tables as text files, as Markdown tables: the first record is the head.

A long table is cut into blocks, each a document with the head above it: a passage from the middle then still says what its
columns are, and no more than a block is built at once.
"""

import csv
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import ClassVar, Final

from knowledge.model.documents import Document, SourceFile
from knowledge.pipeline.readers.decoding import clean, decode
from knowledge.pipeline.readers.markdown import table
from knowledge.pipeline.readers.media_type import CSV, TSV
from knowledge.pipeline.readers.port import Finding

DELIMITERS: Final = ",;\t|"
SAMPLE_CHARACTERS: Final = 64 * 1024
SAMPLE_RECORDS: Final = 20
MAX_MENDED: Final = 20  #: quotes that nothing closes, for each of which the rest is read again
MAX_TITLES: Final = 10  #: records of one cell that stand above a table; with more it is a list
BLOCK_CHARACTERS: Final = 3_000  #: of the cells of a block, head aside; below the usual size of a chunk
_DECLARED: Final = re.compile(r"sep=(.)\n", re.I)  #: a line that Excel reads and writes

_Record = list[str]


class CsvReader:
    """One document for each block of records; records of any width, quoted cells over several lines."""

    name: ClassVar[str] = "csv"
    suffixes: ClassVar[frozenset[str]] = frozenset({".csv", ".tsv"})

    def score(self, source: SourceFile) -> int | None:
        return 10 if source.media_type in (CSV, TSV) else None

    def read(self, source: SourceFile) -> Iterator[Finding]:
        decoded = decode(source.path.read_bytes())
        yield from decoded.findings()
        text = clean(decoded.text)
        del decoded  # a copy of the whole file
        if declared := _DECLARED.match(text):
            text, delimiter = text[declared.end() :], declared.group(1)
        else:
            delimiter = "\t" if source.media_type == TSV else delimiter_of(text)
        yield from _documents(_records(text, delimiter))


def delimiter_of(text: str) -> str:
    """Comma, semicolon, tab or bar, by the first 20 records.

    A delimiter fits when the first record has two cells or more and over half of the records are as wide. Comma wins when it
    fits, else the widest that does, else comma. A record cut off by the end of the sample is not counted, nor are titles above
    a table of two records or more.
    """
    sample = text[:SAMPLE_CHARACTERS]
    is_cut = len(text) > len(sample)
    widths: dict[str, int] = {}
    for delimiter in DELIMITERS:
        records = [record for _, record in zip(range(SAMPLE_RECORDS + 1), _records(sample, delimiter), strict=False)]
        if is_cut and len(records) <= SAMPLE_RECORDS and len(records) > 1:
            records.pop()
        records = records[:SAMPLE_RECORDS]
        titles = next((place for place, record in enumerate(records) if len(record) > 1), 0)
        if titles <= MAX_TITLES and len(records) - titles > 1:
            records = records[titles:]
        counted = Counter(len(record) for record in records)
        if records and len(records[0]) >= 2 and counted[len(records[0])] * 2 > len(records):
            widths[delimiter] = len(records[0])
    if "," in widths or not widths:
        return ","
    return max(widths, key=lambda delimiter: widths[delimiter])


def _documents(records: Iterable[_Record]) -> Iterator[Document]:
    """A block is located by its records, the first of the file being number 1. Titles stand above the first."""
    titles, following = _above(iter(records))
    head = next(following, None)
    if head is None:
        return
    above = "".join(f"{title}\n" for title in titles) + ("\n" if titles else "")
    block: list[_Record] = []
    size = blocks = 0
    number = first = len(titles) + 2
    for record in following:
        width = sum(map(len, record))
        if block and size + width > BLOCK_CHARACTERS:
            yield Document(above + _shown(head, block), locator=f"rows {first}-{number - 1}")
            block, size, first, blocks, above = [], 0, number, blocks + 1, ""
        block.append(record)
        size += width
        number += 1
    yield Document(above + _shown(head, block), locator=f"rows {first}-{number - 1}" if blocks else None)


def _above(records: Iterator[_Record]) -> tuple[list[str], Iterator[_Record]]:
    """(titles, all that follows); a list of one column, where a line or two may hold a comma, has no title."""
    found: list[_Record] = []
    for record in islice(records, MAX_TITLES + 1):
        found.append(record)
        if not _is_title(record):
            below = list(islice(records, 1))
            is_table = bool(below) and len(below[0]) > 1
            titles, rest = (found[:-1], found[-1:]) if is_table else ([], found)
            return [title[0].strip() for title in titles], chain(rest, below, records)
    return [], chain(found, records)


def _is_title(record: _Record) -> bool:
    """One cell alone, also where a program has filled it up to the width of the table."""
    return bool(record[0].strip()) and len(record) != 2 and not any(cell.strip() for cell in record[1:])


def _shown(head: _Record, block: list[_Record]) -> str:
    """A list of one column, or a single record, is no table."""
    if not block or max(len(head), *map(len, block)) == 1:
        return "\n".join(", ".join(cell.strip() for cell in record) for record in (head, *block))
    return table([head, *block])


def _records(text: str, delimiter: str) -> Iterator[_Record]:
    csv.field_size_limit(sys.maxsize)  # the module's own limit of 128 KiB a cell is there for another age
    start, mended = 0, 0
    while start < len(text):
        source = _Lines(text, start)
        for record in csv.reader(source, delimiter=delimiter, skipinitialspace=True):
            if source.is_over and mended < MAX_MENDED:  # the text ends inside quotes: a quote too many swallows what follows
                break
            if any(cell.strip() for cell in record):
                yield record
            source.began = source.place
        else:
            return
        mended, start = mended + 1, text.find("\n", source.began) + 1 or len(text)
        yield from csv.reader([text[source.began : start]], delimiter=delimiter, quoting=csv.QUOTE_NONE)


class _Lines:
    """Lines with their ends, without another copy of the whole text."""

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self.began = self.place = start  #: of the record that is being read, and of the next line
        self.is_over = False  #: whether more was asked for than there is

    def __iter__(self) -> Iterator[str]:
        while self.place < len(self._text):
            start, self.place = self.place, self._text.find("\n", self.place) + 1 or len(self._text)
            yield self._text[start : self.place]
        self.is_over = True
