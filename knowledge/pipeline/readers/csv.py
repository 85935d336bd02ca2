"""Tables as text files: one line a record, cells joined by a comma and a space."""

import csv
import io
import sys
from collections import Counter
from collections.abc import Iterator
from typing import ClassVar, Final

from knowledge.model.documents import Document, SourceFile
from knowledge.pipeline.readers.decoding import clean, decode
from knowledge.pipeline.readers.media_type import CSV, TSV
from knowledge.pipeline.readers.port import Finding

DELIMITERS: Final = ",;\t|"
SAMPLE_CHARACTERS: Final = 64 * 1024
SAMPLE_RECORDS: Final = 20


class CsvReader:
    """One document; records of any width, quoted cells over several lines."""

    name: ClassVar[str] = "csv"
    suffixes: ClassVar[frozenset[str]] = frozenset({".csv", ".tsv"})

    def score(self, source: SourceFile) -> int | None:
        return 10 if source.media_type in (CSV, TSV) else None

    def read(self, source: SourceFile) -> Iterator[Finding]:
        decoded = decode(source.path.read_bytes())
        yield from decoded.findings()
        text = clean(decoded.text)
        delimiter = "\t" if source.media_type == TSV else delimiter_of(text)
        yield Document("\n".join(_lines(text, delimiter)))


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


def _lines(text: str, delimiter: str) -> Iterator[str]:
    for record in _records(text, delimiter):
        yield ", ".join(cell.strip() for cell in record)


def _records(text: str, delimiter: str) -> Iterator[list[str]]:
    csv.field_size_limit(sys.maxsize)  # the module's own limit of 128 KiB a cell is there for another age
    for record in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True):
        if any(cell.strip() for cell in record):
            yield record
