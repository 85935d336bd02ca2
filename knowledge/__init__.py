"""Knowledge: bases of files, directories, URLs and notes, indexed by Celery workers and searched with citations.

Public names only, each loaded when it is first named. The in-process service is `knowledge.service.KnowledgeService`.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from knowledge.client import KnowledgeClient
    from knowledge.errors import KnowledgeError
    from knowledge.model.inputs import (
        BaseInput,
        BasePatch,
        BaseQuery,
        DirectoryInput,
        FileInput,
        ItemInput,
        NoteInput,
        SitemapInput,
        Strategy,
        UrlInput,
    )
    from knowledge.model.results import (
        AddReceipt,
        DeleteReceipt,
        ItemPage,
        ReindexReceipt,
        RestoreReceipt,
        SearchAnswer,
        SearchHit,
        SearchNotice,
        StatusCounts,
    )
    from knowledge.model.status import ItemStatus, ItemType
    from knowledge.model.views import Base, Item

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
    "SearchNotice",
    "SitemapInput",
    "StatusCounts",
    "Strategy",
    "UrlInput",
]


_MODULES: Final = {  # by their public names
    "client": ("KnowledgeClient",),
    "errors": ("KnowledgeError",),
    "model.inputs": (
        "BaseInput",
        "BasePatch",
        "BaseQuery",
        "DirectoryInput",
        "FileInput",
        "ItemInput",
        "NoteInput",
        "SitemapInput",
        "Strategy",
        "UrlInput",
    ),
    "model.results": (
        "AddReceipt",
        "DeleteReceipt",
        "ItemPage",
        "ReindexReceipt",
        "RestoreReceipt",
        "SearchAnswer",
        "SearchHit",
        "SearchNotice",
        "StatusCounts",
    ),
    "model.status": ("ItemStatus", "ItemType"),
    "model.views": ("Base", "Item"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
