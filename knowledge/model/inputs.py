"""What callers hand in. Strict: unknown fields are refused, text is trimmed, blank text is refused."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

MAX_NOTE_CHARACTERS = 1_000_000

NonBlank = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]

Shard = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
"""One word of a routing key: a dot or a wildcard would reach other queues."""


class _Input(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BaseInput(_Input):
    """A base to create. `embedder` is the id of a declared model; None makes a lexical-only base."""

    name: NonBlank
    embedder: NonBlank | None = None
    chunk_size: int = Field(default=1024, gt=0)
    chunk_overlap: int = Field(default=200, ge=0)
    chunk_strategy: Literal["structured", "delimiter"] = "structured"
    chunk_separator: str = "\\n\\n"
    threshold: float | None = Field(default=None, ge=0, le=1)
    document_count: int | None = Field(default=None, gt=0)
    fail_on_empty: bool = False
    shard: Shard = "main"

    @model_validator(mode="after")
    def _consistent(self) -> "BaseInput":
        if self.chunk_overlap >= self.chunk_size:
            raise ValueError("chunk_overlap must be smaller than chunk_size")
        if self.chunk_strategy == "delimiter" and not self.chunk_separator:
            raise ValueError("chunk_separator must not be empty with the delimiter strategy")
        return self


class FileInput(_Input):
    type: Literal["file"] = "file"
    path: Path
    """Where the file is now; made absolute when added."""


class DirectoryInput(_Input):
    type: Literal["directory"] = "directory"
    path: Path


class NoteInput(_Input):
    type: Literal["note"] = "note"
    content: str = Field(max_length=MAX_NOTE_CHARACTERS)
    title: NonBlank | None = None
    """Shown and used for the name; the first non-blank line of the content if absent."""

    @property
    def source(self) -> str:
        lines = (line.strip() for line in (self.title or self.content).splitlines())
        return next((line for line in lines if line), "note")


ItemInput = Annotated[FileInput | DirectoryInput | NoteInput, Field(discriminator="type")]
