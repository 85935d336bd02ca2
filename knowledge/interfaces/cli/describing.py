"""Items for people: rows of a table, the line of a failure, the record of one."""

from collections.abc import Sequence
from datetime import datetime

from knowledge.interfaces.cli import left_out
from knowledge.interfaces.cli.output import Output, clock, detail
from knowledge.interfaces.cli.quality import pages, record
from knowledge.interfaces.cli.shapes import capture_object
from knowledge.model.views import Item


def print_items(out: Output, items: Sequence[Item]) -> None:
    rows = [
        (
            item.id,
            item.type.value,
            f"{item.status.value} ({item.error})" if item.error else item.status.value,
            "" if item.chunk_count is None else str(item.chunk_count),
            pages(item.quality),
            ", ".join(item.notices),
            item.name,  # last: a long one widens no other column
        )
        for item in items
    ]
    out.table(("ID", "TYPE", "STATUS", "CHUNKS", "TEXT", "NOTICES", "NAME"), rows)


def failure_line(item: Item) -> str:
    what = detail(item.error_detail)
    return f"{item.name}: {item.error}{f' ({what})' if what else ''}"


def item_record(item: Item) -> dict[str, str | None]:
    what = detail(item.error_detail)
    return {
        "id": item.id,
        "base": item.base_id,
        "in": item.group_id,
        "type": item.type.value,
        "name": item.name,
        "concept": item.concept_id,
        "source": item.source,
        **_fetched(item),
        "status": item.status.value,
        "error": f"{item.error}{f' ({what})' if what else ''}" if item.error else None,
        "chunks": None if item.chunk_count is None else str(item.chunk_count),
        **record(item.quality),
        "notices": ", ".join(item.notices),
        "left out": left_out.reasons(item),
        "created": clock(item.created_at),
        "updated": clock(item.updated_at),
    }


def _fetched(item: Item) -> dict[str, str | None]:
    """Of a page: where its address led, if that is another one, and when."""
    known = capture_object(item) or {}
    leads_to = known.get("url") if known.get("url") != item.source else None
    fetched_at = known.get("fetched_at")
    return {"leads to": leads_to, "fetched": clock(datetime.fromisoformat(fetched_at)) if fetched_at else None}
