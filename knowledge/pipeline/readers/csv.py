"""Tables as text files, as Markdown tables: the first record is the head.

A long table is cut into blocks, each a document with the head above it: a passage from the middle then still says what its
columns are, and no more than a block is built at once.
"""

import csv
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from knowledge.model.documents import Document, SourceFile
from knowledge.pipeline.readers.decoding import clean, decode
from knowledge.pipeline.readers.markdown import table
from knowledge.pipeline.readers.media_type import CSV, TSV
from knowledge.pipeline.readers.port import Finding

DELIMITERS: Final = ",;\t|"
SAMPLE_CHARACTERS: Final = 64 * 1024
SAMPLE_RECORDS: Final = 20
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
    fits, else the widest that does, else comma. A record cut off by the end of the sample is not counted.
    """
    sample = text[:SAMPLE_CHARACTERS]
    is_cut = len(text) > len(sample)
    widths: dict[str, int] = {}
    for delimiter in DELIMITERS:
        records = [record for _, record in zip(range(SAMPLE_RECORDS + 1), _records(sample, delimiter), strict=False)]
        if is_cut and len(records) <= SAMPLE_RECORDS and len(records) > 1:
            records.pop()
        records = records[:SAMPLE_RECORDS]
        counted = Counter(len(record) for record in records)
        if records and len(records[0]) >= 2 and counted[len(records[0])] * 2 > len(records):
            widths[delimiter] = len(records[0])
    if "," in widths or not widths:
        return ","
    return max(widths, key=lambda delimiter: widths[delimiter])


def _documents(records: Iterable[_Record]) -> Iterator[Document]:
    """A block is located by its records, the head being the first."""
    head: _Record | None = None
    block: list[_Record] = []
    size = blocks = 0
    number = first = 2
    for record in records:
        if head is None:
            head = record
            continue
        width = sum(map(len, record))
        if block and size + width > BLOCK_CHARACTERS:
            yield Document(_shown(head, block), locator=f"rows {first}-{number - 1}")
            block, size, first, blocks = [], 0, number, blocks + 1
        block.append(record)
        size += width
        number += 1
    if head is not None:
        yield Document(_shown(head, block), locator=f"rows {first}-{number - 1}" if blocks else None)


def _shown(head: _Record, block: list[_Record]) -> str:
    """A list of one column, or a single record, is no table."""
    if not block or max(len(head), *map(len, block)) == 1:
        return "\n".join(", ".join(cell.strip() for cell in record) for record in (head, *block))
    return table([head, *block])


def _records(text: str, delimiter: str) -> Iterator[_Record]:
    csv.field_size_limit(sys.maxsize)  # the module's own limit of 128 KiB a cell is there for another age
    for record in csv.reader(_lines(text), delimiter=delimiter, skipinitialspace=True):
        if any(cell.strip() for cell in record):
            yield record


def _lines(text: str) -> Iterator[str]:
    """Lines with their ends, without another copy of the whole text."""
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield text[start:end]
        start = end
