"""The JSON objects of `--json`: stable, snake_case, spelled out, so that a new field of a view is a decision here."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from knowledge.model.item_data import DataKey

if TYPE_CHECKING:
    from knowledge.extraction import Extracted
    from knowledge.interfaces.cli.application import Setting
    from knowledge.interfaces.cli.wait import Ended
    from knowledge.model.documents import EmbedderSpec
    from knowledge.model.jobs import Job
    from knowledge.model.quality import Quality
    from knowledge.model.results import (
        BasePage,
        Chunk,
        Conflict,
        Coverage,
        Group,
        ItemPage,
        JobPage,
        Preview,
        SearchAnswer,
        SearchHit,
        StatusCounts,
        Why,
    )
    from knowledge.model.views import Base, Item

JsonObject = dict[str, Any]


def base_object(base: "Base") -> JsonObject:
    return {
        "id": base.id,
        "name": base.name,
        "status": base.status.value,
        "error": base.error,
        "mode": base.mode,
        "embedder": base.embedder,
        "dimensions": base.dimensions,
        "chunk_size": base.chunk_size,
        "chunk_overlap": base.chunk_overlap,
        "chunk_strategy": base.chunk_strategy,
        "chunk_separator": base.chunk_separator,
        "threshold": base.threshold,
        "document_count": base.document_count,
        "fail_on_empty": base.fail_on_empty,
        "shard": base.shard,
        "group_id": base.group_id,
        "rerank_model": base.rerank_model,
        "file_processor": base.file_processor,
        "item_count": base.item_count,
        "created_at": moment(base.created_at),
        "updated_at": moment(base.updated_at),
        "deleting_at": moment(base.deleting_at),
    }


def base_page_object(page: "BasePage") -> JsonObject:
    return {"bases": [base_object(base) for base in page.bases], "total": page.total, "next_cursor": page.next_cursor}


def group_object(group: "Group") -> JsonObject:
    return {"id": group.id, "name": group.name}


def item_object(item: "Item") -> JsonObject:
    return {
        "id": item.id,
        "base_id": item.base_id,
        "group_id": item.group_id,
        "type": item.type.value,
        "title": item.title,
        "name": item.name,
        "source": item.source,
        "concept_id": item.concept_id,
        "relative_path": item.relative_path,
        "status": item.status.value,
        "error": item.error,
        "error_detail": item.error_detail,
        "chunk_count": item.chunk_count,
        "notices": list(item.notices),
        "quality": quality_object(item.quality),
        "skipped": item.data.get(DataKey.SKIPPED),
        "capture": capture_object(item),
        "created_at": moment(item.created_at),
        "updated_at": moment(item.updated_at),
    }


def capture_object(item: "Item") -> JsonObject | None:
    """When a page was fetched, where its address led, and which address it prefers; None for what was not."""
    known = item.data.get(DataKey.CAPTURE)
    return {name: known.get(name) for name in ("url", "canonical", "fetched_at")} if isinstance(known, dict) else None


def quality_object(quality: "Quality") -> JsonObject:
    return {
        "media_type": quality.media_type,
        "reader": quality.reader,
        "charset": quality.charset,
        "language": quality.language,
        "converter": quality.converter,
        "pages": quality.pages,
        "pages_with_text": quality.pages_with_text,
        "characters": quality.characters,
        "replaced_characters": quality.replaced_characters,
    }


def extracted_object(extracted: "Extracted") -> JsonObject:
    """Either the text or the error of one file."""
    if extracted.error is not None:
        wire = extracted.error.to_wire()
        return {"file": extracted.file, "error": wire["message"], "code": wire["code"], "details": wire["details"]}
    assert extracted.read is not None
    return {
        "file": extracted.file,
        "text": extracted.text,
        "notices": sorted(extracted.read.notices),
        "quality": quality_object(extracted.read.quality),
    }


def item_page_object(page: "ItemPage") -> JsonObject:
    return {"items": [item_object(item) for item in page.items], "total": page.total, "next_cursor": page.next_cursor}


def job_object(job: "Job") -> JsonObject:
    return {
        "id": job.id,
        "type": job.type.value,
        "base_id": job.base_id,
        "shard": job.shard,
        "item_ids": list(job.item_ids),
        "track": job.kind.track.value,
        "recovery": job.kind.recovery.value,
        "status": job.status.value,
        "attempt": job.attempt,
        "losses": job.losses,
        "is_stuck": job.is_stuck,
        "is_unpublished": job.is_unpublished,
        "error": job.error,
        "error_detail": job.error_detail,
        "progress": job.progress,
        "owner": {"host": job.owner.host, "pid": job.owner.pid} if job.owner else None,
        "scheduled_at": moment(job.scheduled_at),
        "created_at": moment(job.created_at),
        "published_at": moment(job.published_at),
        "started_at": moment(job.started_at),
        "finished_at": moment(job.finished_at),
        "lease_until": moment(job.lease_until),
        "cancel_requested_at": moment(job.cancel_requested_at),
    }


def chunk_object(chunk: "Chunk") -> JsonObject:
    return {
        "id": chunk.id,
        "item_id": chunk.item_id,
        "item_type": chunk.item_type.value,
        "item_status": chunk.item_status.value,
        "source": chunk.source,
        "chunk_index": chunk.chunk_index,
        "char_start": chunk.char_start,
        "char_end": chunk.char_end,
        "page": chunk.page,
        "locator": chunk.locator,
        "token_count": chunk.token_count,
        "content": chunk.content,
    }


def preview_object(preview: "Preview") -> JsonObject:
    return {
        "item_id": preview.item_id,
        "text": preview.text,
        "total_characters": preview.total_characters,
        "truncated": preview.truncated,
    }


def why_object(why: "Why") -> JsonObject:
    return {
        "item": item_object(why.item),
        "job": job_object(why.job) if why.job else None,
        "explanation": why.explanation,
        "owner_alive": why.owner_alive,
    }


def conflict_object(conflict: "Conflict") -> JsonObject:
    return {"type": conflict.type.value, "title": conflict.title}


def job_page_object(page: "JobPage") -> JsonObject:
    return {"jobs": [job_object(job) for job in page.jobs], "total": page.total}


def hit_object(hit: "SearchHit") -> JsonObject:
    return {
        "rank": hit.rank,
        "score": hit.score,
        "score_kind": hit.score_kind.value,
        "chunk_id": hit.chunk_id,
        "chunk_index": hit.chunk_index,
        "item_id": hit.item_id,
        "item_status": hit.item_status.value,
        "concept_id": hit.concept_id,
        "title": hit.title,
        "name": hit.name,
        "source": hit.source,
        "page": hit.page,
        "locator": hit.locator,
        "char_start": hit.char_start,
        "char_end": hit.char_end,
        "token_count": hit.token_count,
        "text": hit.text,
    }


def answer_object(answer: "SearchAnswer") -> JsonObject:
    return {
        "mode": answer.mode,
        "pending": answer.pending,
        "stale": answer.stale,
        "notices": [notice.value for notice in answer.notices],
        "hits": [hit_object(hit) for hit in answer.hits],
    }


def counts_object(counts: "StatusCounts") -> JsonObject:
    return {
        "leaves": {status.value: number for status, number in counts.leaves.items() if number},
        "containers": {status.value: number for status, number in counts.containers.items() if number},
        "work_done": round(counts.work_done, 4),
    }


def coverage_object(coverage: "Coverage") -> JsonObject:
    return {
        "items": coverage.items,
        "with_text": coverage.with_text,
        "partial": coverage.partial,
        "without_text": coverage.without_text,
        "failed": coverage.failed,
    }


def waited_object(waited: "Ended") -> JsonObject:
    return {
        "outcome": waited.outcome.value,
        "seconds": round(waited.seconds, 3),
        "counts": counts_object(waited.counts),
        "failures": [item_object(item) for item in waited.failures],
        "job": job_object(waited.job) if waited.job else None,
        "gone": waited.gone,
    }


def setting_object(setting: "Setting") -> JsonObject:
    return {
        "name": setting.name,
        "variable": setting.variable,
        "value": setting.value,
        "origin": setting.origin,
        "description": setting.description,
    }


def model_object(spec: "EmbedderSpec", *, is_default: bool) -> JsonObject:
    """Never the key: not even whether there is one."""
    return {
        "id": spec.id,
        "kind": spec.kind,
        "model": spec.model,
        "revision": spec.revision,
        "endpoint": spec.endpoint,
        "dimensions": spec.dimensions,
        "languages": list(spec.languages),
        "max_input_tokens": spec.max_input_tokens,
        "billed": spec.billed,
        "price_per_million_tokens": spec.price_per_million_tokens,
        "is_default": is_default,
    }


def error_object(code: str, message: str, details: Mapping[str, Any] | None = None) -> JsonObject:
    return {"code": code, "message": message, "details": dict(details or {})}


def list_object(name: str, objects: Sequence[JsonObject]) -> JsonObject:
    return {name: list(objects)}


def moment(when: datetime | None) -> str | None:
    """RFC 3339 in UTC with milliseconds."""
    if when is None:
        return None
    return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
