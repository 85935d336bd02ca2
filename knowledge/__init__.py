"""Knowledge: bases of files, directories, URLs and notes, indexed by Celery workers and searched with citations.

Public names only. Importing this package loads neither SQLModel, apsw nor numpy; the in-process service is
`knowledge.service.KnowledgeService`.
"""

from knowledge.client import KnowledgeClient
from knowledge.errors import KnowledgeError
from knowledge.model.inputs import BaseInput, BasePatch, BaseQuery, DirectoryInput, FileInput, ItemInput, NoteInput, Strategy
from knowledge.model.results import AddReceipt, DeleteReceipt, ItemPage, SearchAnswer, SearchHit, StatusCounts
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
    "SearchAnswer",
    "SearchHit",
    "StatusCounts",
    "Strategy",
]
