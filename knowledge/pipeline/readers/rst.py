"""reStructuredText as it stands, but for its headings, which become those of Markdown so that text is cut at them."""

import re
import unicodedata
from collections.abc import Iterator
from typing import ClassVar, Final

from knowledge.model.documents import Document, SourceFile
from knowledge.pipeline.readers.decoding import clean, decode
from knowledge.pipeline.readers.media_type import RST
from knowledge.pipeline.readers.port import Finding

_LEVELS: Final = 6
_RULE: Final = re.compile(r"([!-/:-@\[-`{-~])\1{1,}\s*$")


class RstReader:
    """One document."""

    name: ClassVar[str] = "rst"
    suffixes: ClassVar[frozenset[str]] = frozenset({".rst"})

    def score(self, source: SourceFile) -> int | None:
        return 10 if source.media_type == RST else None

    def read(self, source: SourceFile) -> Iterator[Finding]:
        decoded = decode(source.path.read_bytes())
        yield from decoded.findings()
        yield Document("\n".join(_lines(clean(decoded.text).split("\n"))))


def _lines(lines: list[str]) -> Iterator[str]:
    """A heading is a line with a rule below it, and above it the same rule, a blank line or a heading; rules rank as met."""
    ranks: list[tuple[str, bool]] = []
    at = end_of_heading = 0
    while at < len(lines):
        above, title, below = lines[at], _line(lines, at + 1), _line(lines, at + 2)
        is_framed = bool(_RULE.match(above)) and _is_title(title.strip(), below) and above.strip() == below.strip()
        is_apart = at == end_of_heading or not lines[at - 1].strip()
        if is_framed or (is_apart and _is_title(above, title) and not above.startswith(" ")):
            kind = (title[0] if not is_framed else below[0], is_framed)
            if kind not in ranks:
                ranks.append(kind)
            yield f"{'#' * min(ranks.index(kind) + 1, _LEVELS)} {(title if is_framed else above).strip()}"
            at = end_of_heading = at + (3 if is_framed else 2)
        else:
            yield above
            at += 1


def _is_title(title: str, below: str) -> bool:
    if not title.strip() or _RULE.match(title) or not _RULE.match(below):
        return False
    return len(below.rstrip()) >= min(_width(title.rstrip()), 4)  # shorter rules than the title are a warning, not an error


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def _line(lines: list[str], at: int) -> str:
    return lines[at] if 0 <= at < len(lines) else ""
