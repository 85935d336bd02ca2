"""Frontmatter of the Markdown captured from a URL or a note. `serialise` and `strip` are exact inverses for any body.

Each value is a JSON string, which has no line break and always starts with a quote, so no title can end the block.
"""

import json
import re
from dataclasses import dataclass
from typing import Final

_END: Final = re.compile(r"^---\n", re.MULTILINE)
_SURROGATES: Final = re.compile(r"[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Frontmatter:
    """Keys in the order they are written; None leaves a key out."""

    type: str  #: `URL` or `Note`
    title: str | None = None
    resource: str | None = None  #: the address a page came from
    timestamp: str | None = None  #: ISO 8601, when it was captured or written
    origin: str | None = None  #: only for snapshots that were put together later, whose timestamp is no time of capture


def serialise(frontmatter: Frontmatter, body: str) -> str:
    """The snapshot file: a block of `key: "value"` lines between dashes, then the body verbatim."""
    values = (
        ("type", frontmatter.type),
        ("title", frontmatter.title),
        ("resource", frontmatter.resource),
        ("timestamp", frontmatter.timestamp),
        ("origin", frontmatter.origin),
    )
    lines = "".join(f"{key}: {_quoted(value)}\n" for key, value in values if value is not None)
    return f"---\n{lines}---\n{body}"


def strip(text: str) -> str:
    """The body of a snapshot; text without a closed block at its start comes back unchanged.

    For snapshots only: the frontmatter of a file that somebody uploaded is part of its text.
    """
    if not text.startswith("---\n"):
        return text
    end = _END.search(text, len("---\n"))
    return text if end is None else text[end.end() :]


def _quoted(value: str) -> str:
    return json.dumps(_SURROGATES.sub("\ufffd", value), ensure_ascii=False)
