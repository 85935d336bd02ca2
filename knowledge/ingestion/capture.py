"""The Markdown snapshot of a note, written once, when the note is first indexed."""

from knowledge.catalog import items, jobs, paths
from knowledge.ingestion.run import Run
from knowledge.model.status import ItemType
from knowledge.model.views import Item
from knowledge.pipeline.sources import note
from knowledge.pipeline.sources.snapshot import Frontmatter, serialise
from knowledge.runtime import Runtime


def captured(rt: Runtime, run: Run, item: Item) -> Item | None:
    """The item with its snapshot pinned; None if it is not wanted any more. Files have nothing to capture."""
    if item.type is not ItemType.NOTE or item.relative_path:
        return item
    frontmatter = Frontmatter(type="Note", title=note.title(item.source), timestamp=item.created_at.isoformat())
    staged = rt.files.stage_text(item.base_id, serialise(frontmatter, str(item.data.get("content", ""))), durable=False)
    try:
        with rt.locks.base(item.base_id), rt.db.write() as tx:
            jobs.require_ours(tx, run.job)
            wanted = items.find_wanted(tx, item.id)
            if wanted is None or wanted.relative_path:
                return wanted
            path = paths.reserve(tx, item.base_id, item.id, f"{note.stem(item.source)}.md")
            rt.files.publish(staged, path, overwrite=True)  # the reserved name is ours; what lies there is a leftover
            return items.set_path(tx, item.id, path)
    finally:
        rt.files.discard([staged])
