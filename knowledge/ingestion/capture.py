"""Fetch what is behind the address of an item and keep it below raw/: the first part of indexing a page.

A page without a stored copy is fetched when its first index job runs; a reindex fetches it again, onto the same path. The
fetch holds no lock; under the base lock the row is read again, the copy gets its name, and both are committed together. A fetch
that fails leaves the stored copy and what the index holds as they were.

How often a host, or a reader service, is asked is counted over all workers (`catalog.rate`). A run that gets no place is put
back before its item changes; a server that asks to wait puts back everybody who would ask it next.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from io import BytesIO
from typing import Any, Final

from knowledge.catalog import items, jobs, rate
from knowledge.db.columns import utc_now
from knowledge.db.engine import Tx
from knowledge.errors import FetchRefused, FetchSlowDown, KnowledgeError
from knowledge.files.store import Staged
from knowledge.ingestion import hanging
from knowledge.ingestion.placing import free_path, placing
from knowledge.ingestion.run import PutBack, Run
from knowledge.model.documents import ReadResult
from knowledge.model.item_data import DataKey
from knowledge.model.jobs import Job
from knowledge.model.rates import HANGING, NO_PLACE, PAGES, SCOPE, SINCE
from knowledge.model.status import ItemType, Notice
from knowledge.model.views import Item
from knowledge.pipeline.snapshot import Frontmatter, serialise
from knowledge.pipeline.sources.url import PAGE, Captured, shown_title
from knowledge.runtime import Runtime

log = logging.getLogger(__name__)

PATIENCE: Final = timedelta(hours=6)  #: with a server that says "later" each time it is asked


@contextmanager
def place(rt: Runtime, run: Run) -> Iterator[bool]:
    """Around a fetch: whether this run's item has to be fetched; then it has the right to ask, until the block ends.

    Raises:
        PutBack: it has to, and may not ask now. FetchSlowDown: the block did; nobody asks the same host before its time.
    """
    with rt.db.read() as tx:
        item = items.find_wanted(tx, run.job.only_item)
    if item is None or not _has_to_fetch(run.job, item):
        yield False
        return
    limit = rt.web.limit(item.source) if item.type is ItemType.URL else rt.web.host_limit(item.source)
    asked = _asked(rt, item)
    with rt.db.write() as tx:
        jobs.require_ours(tx, run.job)
        hung = hanging.limits(rt, tx, asked)
        answer = rate.take_all(tx, [*hung, limit], run.job)
    if isinstance(answer, rate.Wait):
        scope = hung[0].scope if answer.scope == HANGING else answer.scope
        raise PutBack(answer.seconds, NO_PLACE, **{SCOPE: scope}, **hanging.since(run.job))
    try:
        with hanging.watched(rt, asked):
            yield True
        if item.type is ItemType.SITEMAP:
            hanging.answered(rt, asked)
    except FetchSlowDown as error:
        with rt.db.write() as tx:
            rate.pause(tx, limit.scope, error.retry_after_seconds)
        raise _patient(run.job, limit.scope, error) from error
    finally:
        _give_back(rt, answer)


def fetch(rt: Runtime, run: Run, item: Item) -> Item | None:
    """The item with a stored copy of what is behind its address now; None if it is not wanted any more.

    Raises:
        FetchFault, NoTextExtracted: nothing has changed. StorageFull, StorageFailed, BaseBusy.
    """
    run.tell("fetching")
    captured = rt.web.capture(item.source, run.checkpoint, is_child=item.group_id is not None)
    hanging.answered(rt, _asked(rt, item))
    run.checkpoint()
    staged = _staged(rt, item, captured)
    try:
        with rt.locks.base(item.base_id), placing(rt, item.base_id) as placed, rt.db.write(durable=True) as tx:
            jobs.require_ours(tx, run.job)
            now = items.find_wanted(tx, item.id)
            if now is None or now.type is not ItemType.URL:
                return None
            if now.relative_path != item.relative_path:  # another run was faster; what it stored is what the row names
                return now
            path = now.relative_path
            if path is None:
                path = _free_path(rt, tx, now, captured.name)
                placed.append(path)
            rt.files.publish(staged, path, overwrite=now.relative_path is not None)
            rt.files.sync(item.base_id, [path])
            items.set_path(tx, item.id, path)
            items.set_data(tx, item.id, **{DataKey.CAPTURE: _told(run.job, captured), DataKey.TITLE: captured.title})
            return items.get(tx, item.id)
    finally:
        rt.files.discard([staged])


def is_snapshot(item: Item) -> bool:
    """Whether the stored copy is Markdown that we wrote: of a note, or of a page and not of a file behind an address."""
    return item.type is ItemType.NOTE or (item.type is ItemType.URL and _capture(item).get("media_type", PAGE) == PAGE)


def file_name(item: Item) -> str:
    """What a reader is told that the file is called: its suffix fits what is stored now, the path may be older."""
    name = _capture(item).get("name")
    return name if item.type is ItemType.URL and isinstance(name, str) else item.title


def with_capture(item: Item, read: ReadResult) -> ReadResult:
    """What a snapshot cannot say of the page it was made of."""
    known = _capture(item)
    if item.type is not ItemType.URL or not known:
        return read
    charset, language, converter = (_text(known, name) for name in ("charset", "language", "converter"))
    replaced = known.get("replaced_characters")
    replaced = replaced if isinstance(replaced, int) and replaced > 0 else 0
    quality = replace(
        read.quality,
        media_type="text/html" if charset else read.quality.media_type,
        charset=charset,
        language=language,
        converter=converter,
        replaced_characters=replaced,
    )
    notices = read.notices | ({Notice.ENCODING_REPLACED} if replaced else set())
    return replace(read, quality=quality, notices=notices)


def _text(known: Mapping[str, object], name: str) -> str | None:
    """Rows that older versions imported may hold anything."""
    value = known.get(name)
    return value if isinstance(value, str) else None


def _has_to_fetch(job: Job, item: Item) -> bool:
    """Not for a job that indexes what is stored, and not again for one that has fetched already and failed later."""
    if item.type is not ItemType.URL:
        return item.type is ItemType.SITEMAP
    if item.relative_path is None:
        return True
    asks_for_news = job.parent_id is not None and not job.input.get("converted") and not job.input.get("stored")
    return asks_for_news and _capture(item).get("job") != job.id


def _asked(rt: Runtime, item: Item) -> Sequence[str]:
    """What may hang: the host, and the pages of this base, whose next one may be of another dead host. Not a reader service,
    which has limits of its own: robots.txt is asked for elsewhere.
    """
    if item.type is not ItemType.URL:
        return [rt.web.host_limit(item.source).scope]
    return [rt.web.host_limit(item.source).scope, f"{PAGES}{item.base_id}"] if rt.web.service is None else []


def _staged(rt: Runtime, item: Item, captured: Captured) -> Staged:
    if captured.text is None:
        return rt.files.stage_stream(item.base_id, BytesIO(captured.content or b""))
    title = shown_title(captured.title, captured.text) or item.source
    front = Frontmatter(type="URL", title=title, resource=item.source, timestamp=utc_now().isoformat())
    return rt.files.stage_text(item.base_id, serialise(front, captured.text))


def _told(job: Job, captured: Captured) -> dict[str, Any]:
    told = {
        "job": job.id,
        "url": captured.url,
        "canonical": captured.canonical,
        "name": captured.name,
        "media_type": captured.media_type,
        "language": captured.language,
        "charset": captured.charset,
        "converter": captured.converter,
        "replaced_characters": captured.replaced_characters or None,
        "fetched_at": utc_now().isoformat(),
    }
    return {name: value for name, value in told.items() if value is not None}


def _capture(item: Item) -> dict[str, Any]:
    known = item.data.get(DataKey.CAPTURE)
    return known if isinstance(known, dict) else {}


def _free_path(rt: Runtime, tx: Tx, item: Item, name: str) -> str:
    """A name that no item has and the disk does not hold: among all roots, or inside the container that it was found in."""
    folder = "" if item.group_id is None else items.get(tx, item.group_id).relative_path or ""
    return free_path(rt, tx, item.base_id, item.id, name, folder=folder)


def _patient(job: Job, scope: str, error: FetchSlowDown) -> KnowledgeError:
    """The error with the time since when it comes; another one when that has been too long."""
    now = utc_now()
    since = job.error_detail.get(SINCE)
    began = datetime.fromisoformat(since) if isinstance(since, str) else now
    if now - began > PATIENCE:
        return FetchRefused("The web server has asked to wait again and again.", **error.details)
    error.details |= {SINCE: began.isoformat(), SCOPE: scope}
    return error


def _give_back(rt: Runtime, taken: Sequence[rate.Place]) -> None:
    """Best effort: places that are not given back are free when the run has ended."""
    try:
        with rt.db.write() as tx:
            rate.release(tx, taken)
    except KnowledgeError as error:
        log.warning("places not given back", extra={"code": error.code})
