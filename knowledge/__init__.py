"""Knowledge: bases of files, directories, URLs and notes, indexed by Celery workers and searched with citations.

Public names only. Importing this package loads neither SQLModel, apsw nor numpy; the in-process service is
`knowledge.service.KnowledgeService`. The client, and with it Celery, is loaded when it is first named: the command line does
without.
"""

from typing import TYPE_CHECKING, Any

from knowledge.errors import KnowledgeError
from knowledge.model.inputs import BaseInput, BasePatch, BaseQuery, DirectoryInput, FileInput, ItemInput, NoteInput, Strategy
from knowledge.model.results import (
    AddReceipt,
    DeleteReceipt,
    ItemPage,
    ReindexReceipt,
    RestoreReceipt,
    SearchAnswer,
    SearchHit,
    StatusCounts,
)
from knowledge.model.status import ItemStatus, ItemType
from knowledge.model.views import Base, Item

if TYPE_CHECKING:
    from knowledge.client import KnowledgeClient

__all__ = [
    "AddReceipt",
    "Base",
    "BaseInput",
    "BasePatch",
    "BaseQuery",
    "DeleteReceipt",
    "DirectoryInput",
    "FileInput",
    "Item",
    "ItemInput",
    "ItemPage",
    "ItemStatus",
    "ItemType",
    "KnowledgeClient",
    "KnowledgeError",
    "NoteInput",
    "ReindexReceipt",
    "RestoreReceipt",
    "SearchAnswer",
    "SearchHit",
    "StatusCounts",
    "Strategy",
]


def __getattr__(name: str) -> Any:
    if name == "KnowledgeClient":
        from knowledge.client import KnowledgeClient

        return KnowledgeClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
