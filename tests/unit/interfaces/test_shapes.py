"""The JSON objects are a promise to programs: names, types and times do not change by accident."""

import json
from datetime import UTC, datetime, timedelta, timezone

from knowledge.interfaces.cli import shapes
from knowledge.model.documents import EmbedderSpec
from knowledge.model.ids import BaseId, ItemId, JobId
from knowledge.model.jobs import Job, JobStatus, JobType, Owner
from knowledge.model.results import (
    BasePage,
    Chunk,
    Conflict,
    Group,
    ItemPage,
    Preview,
    ScoreKind,
    SearchAnswer,
    SearchHit,
    SearchNotice,
    StatusCounts,
    Why,
)
from knowledge.model.status import BaseStatus, ItemStatus, ItemType
from knowledge.model.views import Base, Item

WHEN = datetime(2026, 3, 1, 9, 30, 0, 123_456, tzinfo=UTC)
BASE = Base(
    id=BaseId("b"), name="n", status=BaseStatus.COMPLETED, error=None, embedder="local/minilm", dimensions=384, chunk_size=256,
    chunk_overlap=50, chunk_strategy="structured", chunk_separator="\\n\\n", threshold=None, document_count=None,
    fail_on_empty=False, shard="main", group_id="g", rerank_model=None, file_processor=None,
    created_at=WHEN, updated_at=WHEN, item_count=3,
)  # fmt: skip
ITEM = Item(
    id=ItemId("i"), base_id=BaseId("b"), group_id=None, type=ItemType.NOTE, source="a note", status=ItemStatus.FAILED,
    error="empty", error_detail={"stage": "reading"}, relative_path="a.md", indexed_path=None, chunk_count=None,
    notices=("partial_text",), expanded_at=None, created_at=WHEN, updated_at=WHEN, data={"content": "private"},
)  # fmt: skip
JOB = Job(
    id=JobId("j"), type=JobType.INDEX_DOCUMENTS, base_id=BaseId("b"), shard="main", item_ids=(ItemId("i"),),
    status=JobStatus.RUNNING, attempt=1, losses=0, scheduled_at=WHEN, created_at=WHEN, run_token="secret", publishes=2,
    parent_id=None, owner=Owner("h", 7, 1.0),
)  # fmt: skip


def test_base():
    """A base is written with every option that it has."""
    assert {
        "id": "b", "name": "n", "status": "completed", "error": None, "mode": "hybrid", "embedder": "local/minilm",
        "dimensions": 384, "chunk_size": 256, "chunk_overlap": 50, "chunk_strategy": "structured",
        "chunk_separator": "\\n\\n", "threshold": None, "document_count": None, "fail_on_empty": False, "shard": "main",
        "group_id": "g", "rerank_model": None, "file_processor": None, "item_count": 3,
        "created_at": "2026-03-01T09:30:00.123Z", "updated_at": "2026-03-01T09:30:00.123Z",
        "deleting_at": None,
    } == shapes.base_object(BASE)  # fmt: skip


def test_item_without_its_content():
    """An item carries its error and notices, never the text of a note."""
    shape = shapes.item_object(ITEM)

    assert {
        "id": "i", "base_id": "b", "group_id": None, "type": "note", "title": "a.md", "name": "a note", "source": "a note",
        "concept_id": "a.md", "relative_path": "a.md", "status": "failed", "error": "empty",
        "error_detail": {"stage": "reading"}, "chunk_count": None, "notices": ["partial_text"], "skipped": None,
        "capture": None,
        "quality": {
            "media_type": None, "reader": None, "charset": None, "language": None, "converter": None, "pages": None,
            "pages_with_text": None, "characters": 0, "replaced_characters": 0,
        },
        "created_at": "2026-03-01T09:30:00.123Z", "updated_at": "2026-03-01T09:30:00.123Z",
    } == shape  # fmt: skip
    assert "private" not in json.dumps(shape)


def test_page_of_bases_and_groups():
    """A page says how many there are in all and how to go on; a group is an id and a name."""
    assert {"bases": [], "total": 7, "next_cursor": "x"} == shapes.base_page_object(BasePage((), 7, "x"))
    assert {"id": "g", "name": "n"} == shapes.group_object(Group("g", "n"))


def test_what_is_behind_an_item():
    """Passages with their place, the beginning of the text, what is in the way, and what explains a status."""
    chunk = Chunk("c", ItemId("i"), "text", ItemType.FILE, ItemStatus.FAILED, "/a.md", 2, 10, 14, None, "slide 2", 1)

    assert {
        "id": "c", "item_id": "i", "item_type": "file", "item_status": "failed", "source": "/a.md", "chunk_index": 2,
        "char_start": 10, "char_end": 14, "page": None, "locator": "slide 2", "token_count": 1, "content": "text",
    } == shapes.chunk_object(chunk)  # fmt: skip
    assert {"item_id": "i", "text": "t", "total_characters": 2, "truncated": True} == shapes.preview_object(
        Preview(ItemId("i"), "t", 2, True)
    )
    assert {"type": "file", "title": "a.md"} == shapes.conflict_object(Conflict(ItemType.FILE, "a.md"))
    why = shapes.why_object(Why(ITEM, JOB, "Because.", True))
    assert ("Because.", True, "i", "j") == (why["explanation"], why["owner_alive"], why["item"]["id"], why["job"]["id"])


def test_item_page():
    """A page says how many there are in all and how to go on."""
    assert {"items": [], "total": 7, "next_cursor": "x"} == shapes.item_page_object(ItemPage((), 7, "x"))


def test_job_without_its_token():
    """A job shows who runs it, not the token that proves it."""
    shape = shapes.job_object(JOB)

    assert {"host": "h", "pid": 7} == shape["owner"]
    assert ("knowledge.index-documents", "index", "abandon", "running", True) == (
        shape["type"], shape["track"], shape["recovery"], shape["status"], shape["published_at"] is None,
    )  # fmt: skip
    assert "secret" not in json.dumps(shape)


def test_search_answer():
    """Each hit says where it stands, what its score means, and whose passage it is."""
    hit = SearchHit(
        1,
        0.5,
        ScoreKind.RANKING,
        "c",
        ItemId("i"),
        "a.md",
        "a.pdf",
        "docs/a.pdf",
        "text",
        3,
        7,
        4,
        None,
        ItemStatus.COMPLETED,
        "/a.pdf",
        0,
        1,
    )

    assert {
        "mode": "hybrid", "pending": 1, "stale": 2, "notices": ["index_lost"],
        "hits": [{
            "rank": 1, "score": 0.5, "score_kind": "ranking", "chunk_id": "c", "chunk_index": 0, "item_id": "i",
            "item_status": "completed", "concept_id": "a.md", "title": "a.pdf", "name": "docs/a.pdf", "source": "/a.pdf",
            "page": 4, "locator": None,
            "char_start": 3, "char_end": 7, "token_count": 1, "text": "text",
        }],
    } == shapes.answer_object(SearchAnswer((hit,), "hybrid", 1, 2, [SearchNotice.INDEX_LOST]))  # fmt: skip


def test_counts_without_zeros():
    """Counts name only what is there."""
    counts = StatusCounts({ItemStatus.COMPLETED: 2, ItemStatus.FAILED: 0}, {})

    assert {"leaves": {"completed": 2}, "containers": {}, "work_done": 1.0} == shapes.counts_object(counts)


def test_model_without_its_key():
    """A model's key is not shown, not even masked."""
    spec = EmbedderSpec(id="m", kind="openai", dimensions=8, api_key="sk-very-secret")

    shape = shapes.model_object(spec, is_default=True)

    assert shape["is_default"]
    assert "secret" not in json.dumps(shape)
    assert "api_key" not in shape


def test_times_are_utc():
    """A time in another zone is written in UTC."""
    there = datetime(2026, 3, 1, 12, 0, tzinfo=timezone(timedelta(hours=2)))

    assert "2026-03-01T10:00:00.000Z" == shapes.moment(there)
