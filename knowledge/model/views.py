"""Rows as the rest of the house sees them: frozen, without a session behind them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from pydantic import PlainSerializer

from knowledge.model.ids import BaseId, ItemId
from knowledge.model.item_data import DataKey
from knowledge.model.quality import Quality
from knowledge.model.status import CONTAINERS, BaseStatus, ItemStatus, ItemType

_NAMED_BY_SOURCE = frozenset({ItemType.FILE, ItemType.DIRECTORY, ItemType.ARCHIVE})


def _without_content(data: Mapping[str, object]) -> dict[str, object]:
    """A note's text does not travel through the broker with every list; `preview` and `chunks` give it."""
    return {name: value for name, value in data.items() if name != DataKey.CONTENT}


@dataclass(frozen=True, slots=True)
class Base:
    id: BaseId
    name: str
    status: BaseStatus
    error: str | None
    embedder: str | None
    dimensions: int | None
    chunk_size: int
    chunk_overlap: int
    chunk_strategy: str
    chunk_separator: str
    threshold: float | None
    document_count: int | None
    fail_on_empty: bool
    shard: str
    group_id: str | None
    rerank_model: str | None
    file_processor: str | None
    created_at: datetime
    updated_at: datetime
    deleting_at: datetime | None = None
    item_count: int = 0  #: items of all levels that are not `deleting`; counted where bases are shown, else 0

    @property
    def mode(self) -> str:
        """How this base searches: `hybrid` with an embedder, else `lexical`."""
        return "hybrid" if self.embedder else "lexical"


@dataclass(frozen=True, slots=True)
class Item:
    id: ItemId
    base_id: BaseId
    group_id: ItemId | None
    type: ItemType
    source: str  #: where it came from, as the person knows it
    status: ItemStatus
    error: str | None
    error_detail: dict[str, object]
    relative_path: str | None
    indexed_path: str | None
    chunk_count: int | None
    notices: tuple[str, ...]
    expanded_at: datetime | None
    created_at: datetime
    updated_at: datetime
    quality: Quality = field(default_factory=Quality)
    data: Annotated[dict[str, object], PlainSerializer(_without_content)] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """What a person calls it: a file or folder by its name as it was found, a page as it calls itself, else by its copy.

        May hold anything that a disk or an archive allows in a name, line breaks and direction marks included.
        """
        if self.type is ItemType.URL and isinstance(titled := self.data.get(DataKey.TITLE), str):
            return titled
        if self.type in _NAMED_BY_SOURCE and (name := self.source.rstrip("/").rsplit("/", 1)[-1]):
            return name
        return self.stored_name

    @property
    def stored_name(self) -> str:
        """The last part of its stored path: made safe for every disk, maybe numbered."""
        path = self.relative_path or self.source
        return path.rstrip("/").rsplit("/", 1)[-1] or self.source

    @property
    def name(self) -> str:
        """What people are shown: what they added by its own name, and what was found inside by its path as it lies there.

        Never the name of a copy: neither that of a conversion or snapshot, nor the number that a namesake got. Two items may
        have one name.
        """
        if self.type is ItemType.URL and not isinstance(self.data.get(DataKey.TITLE), str):
            return self.source
        own = self.source if self.type is ItemType.NOTE else self.title
        folders = (self.relative_path or "").split("/")[:-1]
        found = self.source.rstrip("/").split("/")
        if not folders:
            return own
        if self.type in _NAMED_BY_SOURCE and len(found) > len(folders):
            return "/".join(found[-len(folders) - 1 :])
        return "/".join([*folders, own])

    @property
    def concept_id(self) -> str | None:
        """The document's address inside its base; containers have none."""
        if self.type in CONTAINERS:
            return None
        return self.indexed_path or self.relative_path
