"""JSON as lines that can be read and found: one property a line, `path.to.key: value`."""

import json
from collections.abc import Iterator
from typing import Any, ClassVar

from knowledge.errors import CorruptSource
from knowledge.model.documents import Document, SourceFile
from knowledge.pipeline.readers.decoding import clean, decode
from knowledge.pipeline.readers.media_type import JSON
from knowledge.pipeline.readers.port import Finding


class JsonReader:
    """One document for each object of a top-level list, else one for the whole file. Numbers are shown as they are written."""

    name: ClassVar[str] = "json"
    suffixes: ClassVar[frozenset[str]] = frozenset({".json"})

    def score(self, source: SourceFile) -> int | None:
        return 10 if source.media_type == JSON else None

    def read(self, source: SourceFile) -> Iterator[Finding]:
        decoded = decode(source.path.read_bytes())
        yield from decoded.findings()
        try:
            value = json.loads(clean(decoded.text), parse_float=str, parse_int=str, parse_constant=str)
        except json.JSONDecodeError as error:
            raise CorruptSource(
                "This file is not valid JSON.", line=error.lineno, column=error.colno, detail=error.msg
            ) from error
        except RecursionError as error:
            raise CorruptSource("This file nests deeper than can be read.") from error
        if isinstance(value, list) and any(isinstance(element, dict | list) for element in value):
            for element in value:
                yield Document("\n".join(_lines(element)))
        else:
            yield Document("\n".join(_lines(value)))


def _lines(value: Any) -> Iterator[str]:
    """Depth first without recursion, in the order of the file."""
    pending: list[tuple[str, Any]] = [("", value)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, dict):
            prefix = f"{path}." if path else ""
            pending.extend((f"{prefix}{key}", inner) for key, inner in reversed(value.items()))
        elif isinstance(value, list):
            pending.extend((path, inner) for inner in reversed(value))
        elif value not in (None, ""):
            shown = str(value).lower() if isinstance(value, bool) else str(value)
            yield f"{path}: {shown}" if path else shown
