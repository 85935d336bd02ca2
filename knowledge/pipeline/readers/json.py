"""JSON as lines that can be read and found: one property a line, `path.to.key: value`."""

import json
import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from knowledge.errors import CorruptSource
from knowledge.model.documents import Document, SourceFile
from knowledge.model.status import Notice
from knowledge.pipeline.readers.decoding import clean, decode
from knowledge.pipeline.readers.media_type import JSON, JSON_LINES
from knowledge.pipeline.readers.packed import without_packed
from knowledge.pipeline.readers.port import Finding

# What nothing closes goes on to the end of the file: looked for again from each later place, it would take quadratic time.
_STRING: Final = r'"[^"\\]*(?:\\[\s\S][^"\\]*)*(?:"|\\?\Z)'
_COMMENT: Final = re.compile(rf"{_STRING}|//[^\n]*|/\*[\s\S]*?(?:\*/|(?P<open>\Z))")
_INK: Final = re.compile(r"\S")
_COMMA: Final = re.compile(rf"{_STRING}|,(?=\s*[\]}}])")


class JsonReader:
    """One document for each element of a top-level list, or for each line of JSON Lines, else one for the whole file.

    Elements and lines are records: small ones share a chunk, each whole.

    Numbers are shown as they are written.
    """

    name: ClassVar[str] = "json"
    suffixes: ClassVar[frozenset[str]] = frozenset({".json", ".jsonl", ".ndjson", ".geojson"})

    def score(self, source: SourceFile) -> int | None:
        return 10 if source.media_type in (JSON, JSON_LINES) else None

    def read(self, source: SourceFile) -> Iterator[Finding]:
        decoded = decode(source.path.read_bytes())
        yield from decoded.findings()
        text = clean(decoded.text)
        try:
            value = _parsed(text)
        except json.JSONDecodeError as error:
            if _has_lines(text):
                yield from _records(text)
            elif values := _relaxed(text):
                for value in values:
                    yield from _documents(value, shares=len(values) > 1)
            else:
                raise CorruptSource(
                    "This file is not valid JSON.", line=error.lineno, column=error.colno, detail=error.msg
                ) from error
            return
        except RecursionError as error:
            raise CorruptSource("This file nests deeper than can be read.") from error
        yield from _documents(value)


def _documents(value: Any, *, shares: bool = False) -> Iterator[Document]:
    if isinstance(value, list) and any(isinstance(element, dict | list) for element in value):
        for element in value:
            yield Document("\n".join(_lines(element)), shares=True)
    else:
        yield Document("\n".join(_lines(value)), shares=shares)


def _parsed(text: str) -> Any:
    return json.loads(text, **_AS_WRITTEN)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A key that is there twice has two values: none is lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        values: dict[str, list[Any]] = {}
        for key, value in pairs:
            values.setdefault(key, []).append(value)
        found = {key: several if len(several) > 1 else several[0] for key, several in values.items()}
    return found


def _relaxed(text: str) -> list[Any]:
    """The values of a file with comments and commas too many, as programs keep their settings, or of several one after another.

    Nothing if it is not that either, or not whole.
    """
    if any(found["open"] is not None for found in _COMMENT.finditer(text)):
        return []
    text = _COMMA.sub(_without, _COMMENT.sub(_without, text))
    decoder = json.JSONDecoder(**_AS_WRITTEN, strict=False)  # line breaks and tabs inside of texts as well
    values: list[Any] = []
    place = 0
    try:
        while found := _INK.search(text, place):
            value, place = decoder.raw_decode(text, found.start())
            if not isinstance(value, dict | list):
                return []
            values.append(value)
    except (json.JSONDecodeError, RecursionError):
        return []
    return values


_AS_WRITTEN: Final[dict[str, Any]] = {
    "parse_float": str,
    "parse_int": str,
    "parse_constant": str,
    "object_pairs_hook": _object,
}


def _without(found: re.Match[str]) -> str:
    return found.group() if found.group().startswith('"') else " "


def _has_lines(text: str) -> bool:
    """Whether this is JSON Lines, whatever it is called: an object or a list on each of the first two lines."""
    first = [line for line in text[: 1 << 20].split("\n", 20) if line.strip()][:2]
    try:
        return len(first) > 1 and all(isinstance(_parsed(line), dict | list) for line in first)
    except (json.JSONDecodeError, RecursionError):
        return False


def _records(text: str) -> Iterator[Finding]:
    """A line that is damaged is told and left out; it does not cost the others."""
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        line = text[start:end].strip()
        start = end
        try:
            if line:
                yield Document("\n".join(_lines(_parsed(line))), shares=True)
        except (json.JSONDecodeError, RecursionError):
            yield Notice.PARTIAL_TEXT


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
            shown = str(value).lower() if isinstance(value, bool) else without_packed(str(value))
            if shown:
                yield f"{path}: {shown}" if path else shown
