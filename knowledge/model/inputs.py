"""What callers hand in. Strict: unknown fields are refused, names are trimmed and not blank, numbers are whole and bounded.

The content of a note is kept as it is. A blank one is taken, and is an item without text (`no_text_extracted`).
"""

import unicodedata
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

MAX_NOTE_CHARACTERS = 1_000_000
MAX_SOURCE_CHARACTERS = 200  #: of a note: what lists show; a text without line breaks must not become its own title

MAX_NAME_CHARACTERS = 255  #: of a base or group: one line that lists show and people type

MAX_CHUNK_TOKENS = 5_000_000  #: a hundred long novels as one passage; what is more cannot be meant
MAX_DOCUMENT_COUNT = 10_000  #: hits; no search looks at more candidates
MAX_DIMENSIONS = 100_000  #: of a vector; models have some thousands

NonBlank = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


def checked_name(name: str) -> str:
    """What a base or group is called, without blanks around it.

    Raises:
        ValueError: it is blank, longer than `MAX_NAME_CHARACTERS`, or no line of text.
    """
    name = name.strip()
    if not name:
        raise ValueError("a name is needed")
    if len(name) > MAX_NAME_CHARACTERS:
        raise ValueError(f"a name may have at most {MAX_NAME_CHARACTERS} characters")
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in name):
        raise ValueError("a name is one line, without control characters")
    return name


Name = Annotated[str, AfterValidator(checked_name)]

ChunkSize = Annotated[int, Field(strict=True, gt=0, le=MAX_CHUNK_TOKENS)]
ChunkOverlap = Annotated[int, Field(strict=True, ge=0, lt=MAX_CHUNK_TOKENS)]
DocumentCount = Annotated[int, Field(strict=True, gt=0, le=MAX_DOCUMENT_COUNT)]

SHARD_PATTERN = r"^[a-z0-9][a-z0-9-]{0,62}$"
Shard = Annotated[str, StringConstraints(pattern=SHARD_PATTERN)]
"""One word of a routing key: a dot or a wildcard would reach other queues."""


class _Input(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BaseInput(_Input):
    """A base to create. `embedder` is the id of a declared model; None makes a lexical-only base."""

    name: Name
    embedder: NonBlank | None = None
    group_id: NonBlank | None = None
    rerank_model: NonBlank | None = None
    file_processor: NonBlank | None = None
    chunk_size: ChunkSize = 1024
    chunk_overlap: ChunkOverlap = 200
    chunk_strategy: Literal["structured", "delimiter"] = "structured"
    chunk_separator: str = "\\n\\n"
    threshold: float | None = Field(default=None, ge=0, le=1)
    document_count: DocumentCount | None = None
    fail_on_empty: bool = False
    shard: Shard = "main"

    @model_validator(mode="after")
    def _consistent(self) -> "BaseInput":
        if self.chunk_overlap >= self.chunk_size:
            raise ValueError("chunk_overlap must be smaller than chunk_size")
        if self.chunk_strategy == "delimiter" and not self.chunk_separator:
            raise ValueError("chunk_separator must not be empty with the delimiter strategy")
        return self


class BasePatch(_Input):
    """Changes to a base; a field that is not given stays as it is.

    None clears `group_id`, `rerank_model` and `file_processor`. `embedder` may change only while the base has no item;
    its dimensions follow from its declaration. `threshold` and `document_count` can be changed, not cleared.
    """

    name: Name | None = None
    group_id: NonBlank | None = None
    embedder: NonBlank | None = None
    rerank_model: NonBlank | None = None
    file_processor: NonBlank | None = None
    chunk_size: ChunkSize | None = None
    chunk_overlap: ChunkOverlap | None = None
    chunk_strategy: Literal["structured", "delimiter"] | None = None
    chunk_separator: str | None = None
    threshold: float | None = Field(default=None, ge=0, le=1)
    document_count: DocumentCount | None = None
    fail_on_empty: bool | None = None

    @model_validator(mode="after")
    def _only_some_are_cleared(self) -> "BasePatch":
        clearable = {"group_id", "embedder", "rerank_model", "file_processor"}
        nulls = sorted(name for name in self.model_fields_set - clearable if getattr(self, name) is None)
        if nulls:
            raise ValueError(f"{', '.join(nulls)} cannot be cleared")
        return self

    def changes(self) -> dict[str, object]:
        """The given fields only."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class BaseQuery(_Input):
    """Which bases to list, and how. `cursor` comes from the page before."""

    search: Annotated[str, StringConstraints(max_length=MAX_NAME_CHARACTERS)] | None = None
    """Part of the name, in any case."""
    group_id: str | None = None
    updated_from: datetime | None = None
    """Not changed before this; inclusive."""
    sort_by: Literal["created_at", "updated_at", "name"] = "created_at"
    sort_order: Literal["asc", "desc"] = "desc"
    limit: int = Field(default=20, strict=True, ge=1, le=100)
    cursor: str | None = None
    include_deleting: bool = False


class Strategy(StrEnum):
    """What an add does about roots of the same type and name."""

    RENAME = "rename"  #: add all; a taken name gets a number
    DETECT = "detect"  #: any conflict: nothing is added, the conflicts are told
    REPLACE = "replace"  #: purge the old ones first, so that the new one gets the plain name


Pattern = Annotated[str, StringConstraints(min_length=1, max_length=1_000)]
Patterns = Annotated[tuple[Pattern, ...], Field(max_length=100)]


class FileInput(_Input):
    """A file; if its bytes are a zip or tar archive, each of its members becomes an item."""

    type: Literal["file"] = "file"
    path: Path
    """Where the file is now; made absolute when added."""


class DirectoryInput(_Input):
    """A folder. Patterns are those of .gitignore, relative to the folder; the item keeps them, and each reindex obeys them."""

    type: Literal["directory"] = "directory"
    path: Path
    include: Patterns = ()
    """Only files that match one of these; all if there is none."""
    exclude: Patterns = ()
    """And without what matches these, folders included."""


class UrlInput(_Input):
    """A page or file behind an http or https address; fetched when it is indexed."""

    type: Literal["url"] = "url"
    url: NonBlank


class SitemapInput(_Input):
    """A sitemap or feed; each page that it names becomes an item of its own."""

    type: Literal["sitemap"] = "sitemap"
    url: NonBlank


class NoteInput(_Input):
    type: Literal["note"] = "note"
    content: str = Field(max_length=MAX_NOTE_CHARACTERS)
    title: NonBlank | None = None
    """Shown and used for the name; the first non-blank line of the content if absent."""

    @property
    def source(self) -> str:
        lines = (line.strip() for line in (self.title or self.content).splitlines())
        first = next((line for line in lines if line), "note")
        return first if len(first) <= MAX_SOURCE_CHARACTERS else f"{first[: MAX_SOURCE_CHARACTERS - 1]}…"


ItemInput = Annotated[FileInput | DirectoryInput | NoteInput | UrlInput | SitemapInput, Field(discriminator="type")]
