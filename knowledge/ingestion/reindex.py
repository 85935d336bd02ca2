"""Reindex: acquire sources again onto their stored paths and index them again; knowledge.reindex-subtree.

Accepting it writes no status. The old material stays searchable until the new one replaces it, item by item.
"""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Final

from knowledge.catalog import bases, items, jobs, status, tree
from knowledge.db.columns import utc_now
from knowledge.db.engine import Tx
from knowledge.errors import (
    InvalidInput,
    ItemsUnfinished,
    PathNotAllowed,
    PathNotFound,
    PathUnreadable,
    SourceFault,
    SourcesMissing,
    SourcesUnverifiable,
)
from knowledge.files.store import Staged
from knowledge.ingestion import origin
from knowledge.ingestion.expansion import opened_member
from knowledge.ingestion.run import PutBack, Run
from knowledge.model.ids import BaseId, ItemId
from knowledge.model.item_data import DataKey
from knowledge.model.jobs import ROOTS_DONE, Job, JobSpec
from knowledge.model.results import ReindexReceipt
from knowledge.model.status import CONTAINERS, INDEX_LOST, ItemStatus, ItemType
from knowledge.model.views import Item
from knowledge.pipeline.sources import note
from knowledge.pipeline.sources.archive import member_of
from knowledge.pipeline.sources.probe import Probe, probe_directory, probe_file
from knowledge.runtime import Runtime

SKIPPED: Final = "skipped_missing_sources"  #: how many roots stay as they were, in the progress of the job
_SECTION: Final = 500  #: leaves that one transaction puts back to work
_BUSY_SECONDS: Final = 2.0  #: until the next look at items that another reindex or a delete has


def reindex_items(
    rt: Runtime, base_id: BaseId, item_ids: Sequence[ItemId], *, allow_empty: bool = False, only_changed: bool = False
) -> ReindexReceipt:
    """See `KnowledgeService.reindex_items`.

    Raises, with nothing changed:
        ItemNotFound, ItemNotInBase, BaseNotFound, BaseFailed, ModelNotFound.
        PathNotAllowed, SourcesMissing, SourcesUnverifiable, ItemsUnfinished: in this order of precedence; details name the
            items.
    """
    if not item_ids:
        raise InvalidInput("There is nothing to reindex.")
    with rt.db.read() as tx:
        roots = [items.get(tx, item_id) for item_id in tree.outermost(tx, base_id, item_ids)]
        base = bases.require_runnable(tx, base_id)
    rt.require_embedder(base)
    require_sources(rt, roots)
    ids = [root.id for root in roots]
    with rt.locks.base(base_id), rt.db.write(durable=True) as tx:
        bases.require_runnable(tx, base_id)
        require_settled(tx, base_id, ids)
        spec = JobSpec.reindex_subtree(
            base_id, ids, allow_empty=allow_empty, only_changed=only_changed, confined=rt.reach.is_confined
        )
        job_id = jobs.enqueue(tx, spec, shard=base.shard)
    return ReindexReceipt(base_id, ids, job_id, rt.dispatch.publish_due(base_id))


def reindex_interrupted(rt: Runtime, base_id: BaseId) -> ReindexReceipt:
    """The same for every item of a base that an interruption left `failed`, and the index of those that lost it made again from
    their stored bytes; an empty receipt if there is neither.

    Those whose source is gone, and those below which something is being worked on, stay as they are: one of them must not keep
    all others from being finished.

    Raises:
        BaseNotFound, BaseFailed, ModelNotFound.
        PathNotAllowed, SourcesMissing, SourcesUnverifiable, ItemsUnfinished: none can be finished.
    """
    with rt.db.read() as tx:
        bases.require_runnable(tx, base_id)
        lost = [items.get(tx, item_id) for item_id in tree.interrupted(tx, base_id)]
        settled = [item for item in lost if not tree.unsettled(tx, base_id, [item.id], limit=1)]
    ready = [item.id for item in settled if may_read(rt, item) and probe(rt, item) is Probe.READABLE]
    bare = _index_stored(rt, base_id, besides=ready)
    if not lost or (bare and not ready):
        return ReindexReceipt(base_id, bare, None, rt.dispatch.publish_due(base_id))
    receipt = reindex_items(rt, base_id, ready or [item.id for item in lost])
    return replace(receipt, root_ids=[*receipt.root_ids, *bare])


def _index_stored(rt: Runtime, base_id: BaseId, *, besides: Sequence[ItemId]) -> list[ItemId]:
    """Index again what is stored of the leaves that lost their material; their sources are not looked at."""
    with rt.db.read() as tx:
        base = bases.require_runnable(tx, base_id)
        bare = tree.without_index(tx, base_id, besides=besides)
    if bare:
        rt.require_embedder(base)
    begun: list[ItemId] = []
    for start in range(0, len(bare), _SECTION):
        with rt.locks.base(base_id), rt.db.write(durable=True) as tx:
            bases.require_runnable(tx, base_id)
            section = bare[start : start + _SECTION]
            ids = [item_id for item_id in section if _is_bare(tx, item_id) and status.begin(tx, item_id, ItemStatus.PROCESSING)]
            jobs.enqueue_all(tx, [JobSpec.index_documents(base_id, item_id, stored=True) for item_id in ids], shard=base.shard)
        begun += ids
    return begun


def _is_bare(tx: Tx, item_id: ItemId) -> bool:
    item = items.find_wanted(tx, item_id)
    return item is not None and item.error == INDEX_LOST


def require_sources(rt: Runtime, roots: Sequence[Item]) -> None:
    """Raises `PathNotAllowed`, else `SourcesMissing`, else `SourcesUnverifiable`, if a root cannot be acquired again."""
    require_allowed(rt, roots)
    found = [(root, probe(rt, root)) for root in roots]
    for answer, kind in ((Probe.MISSING, SourcesMissing), (Probe.UNVERIFIABLE, SourcesUnverifiable)):
        if bad := [root for root, state in found if state is answer]:
            raise kind(item_ids=[root.id for root in bad], sources=[root.source for root in bad])


def require_allowed(rt: Runtime, roots: Sequence[Item]) -> None:
    """Raises `PathNotAllowed` if the source of a root is none that may be read for this caller; nothing is looked at."""
    if bad := [root for root in roots if not may_read(rt, root)]:
        raise PathNotAllowed(
            "Some sources are not below the import roots (KNOWLEDGE_IMPORT_ROOTS); what clients bring in or ask for must be.",
            item_ids=[root.id for root in bad],
            sources=[root.source for root in bad],
        )


def may_read(rt: Runtime, root: Item) -> bool:
    path = origin.read_from(root)
    return path is None or origin.reach_of(rt, root).allows(path)


def require_settled(tx: Tx, base_id: BaseId, roots: Sequence[ItemId]) -> None:
    """Raises `ItemsUnfinished` if a row of these subtrees is neither completed nor failed."""
    counts = tree.status_counts(tx, base_id, roots)
    busy: Counter[ItemStatus] = Counter(counts.leaves) + Counter(counts.containers)
    for settled in (ItemStatus.COMPLETED, ItemStatus.FAILED):
        busy.pop(settled, None)
    if busy:
        listed = {state.value: busy[state] for state in sorted(busy)}
        raise ItemsUnfinished(base_id=base_id, statuses=listed, item_ids=list(tree.unsettled(tx, base_id, roots)))


def probe(rt: Runtime, root: Item) -> Probe:
    """Whether this root's source can be read again; a note's is its row, a member's is its archive.

    What became a link into the data directory is missing, and not opened: a live database would lose its locks.
    """
    path = origin.read_from(root)
    if path is None:
        return Probe.READABLE
    if rt.files.holds(path):
        return Probe.MISSING
    is_folder = root.type is ItemType.DIRECTORY and member_of(root.data) is None
    return probe_directory(str(path)) if is_folder else probe_file(str(path))


def run(rt: Runtime, run: Run) -> None:
    """One delivery of knowledge.reindex-subtree: fetch outside the lock, then one commit for all roots that are free.

    It comes back for those that are not: something below them is being deleted, and a delete always wins, or another reindex
    has some of them at work, and of two index jobs of one item the slower would win.

    Raises:
        PutBack: some roots are not free yet.
    """
    job = run.job
    with rt.db.read() as tx:
        free, is_all = _free_roots(tx, job)
        roots = [items.get(tx, root_id) for root_id in free]
    if not roots and not is_all:
        raise PutBack(_BUSY_SECONDS)
    acquired: dict[ItemId, Staged | None] = {}
    try:
        for root in roots:
            run.checkpoint()
            if root.type in CONTAINERS or root.type is ItemType.URL:
                if probe(rt, root) is Probe.READABLE:
                    acquired[root.id] = None
            elif (copy := _copied(rt, run, root)) is not None:
                acquired[root.id] = copy
        with rt.locks.base(job.base_id), rt.db.write(durable=True) as tx:
            jobs.require_ours(tx, job)
            is_all = _put_to_work(rt, tx, job, {root.id for root in roots}, acquired)
    finally:
        rt.files.discard(copy for copy in acquired.values() if copy)
    if not is_all:
        raise PutBack(_BUSY_SECONDS)


def _free_roots(tx: Tx, job: Job) -> tuple[list[ItemId], bool]:
    """The roots that are wanted, not done yet, and not held up; and whether those are all that are wanted and not done."""
    done = set(job.roots_done)
    wanted = [root_id for root_id in job.item_ids if root_id not in done and items.find_wanted(tx, root_id) is not None]
    if not tree.unsettled(tx, job.base_id, wanted, limit=1):
        return wanted, True
    return [root_id for root_id in wanted if not tree.unsettled(tx, job.base_id, [root_id], limit=1)], False


def _put_to_work(rt: Runtime, tx: Tx, job: Job, looked_at: Set[ItemId], acquired: Mapping[ItemId, Staged | None]) -> bool:
    """Those that were free when their sources were looked at, and still are. Whether the job is finished with that."""
    free, is_all = _free_roots(tx, job)
    chosen = [root_id for root_id in free if root_id in looked_at]
    _publish(rt, tx, job.base_id, {root_id: copy for root_id in chosen if (copy := acquired.get(root_id))})
    skipped = sum(not _restart(tx, job, root_id, is_acquired=root_id in acquired) for root_id in chosen)
    skipped += int(str(job.progress.get(SKIPPED, 0)))
    is_all &= len(chosen) == len(free)
    if is_all:
        jobs.finish(tx, job, **{SKIPPED: skipped})
    else:
        jobs.note(tx, job, {ROOTS_DONE: [*job.roots_done, *chosen], SKIPPED: skipped})
    return is_all


def _copied(rt: Runtime, run: Run, root: Item) -> Staged | None:
    """The source of a file or note, beside raw/; None if it has gone since admission."""
    if root.type is ItemType.NOTE:
        return rt.files.stage_text(root.base_id, note.snapshot(root.source, str(root.data.get(DataKey.CONTENT, "")), utc_now()))
    try:
        reach = origin.reach_of(rt, root, run.job)
        if member_of(root.data) is not None:
            with opened_member(rt, root, run.checkpoint, reach) as stream:
                return rt.files.stage_stream(root.base_id, stream)
        path = origin.path_of(root)
        if rt.files.holds(path):  # it became a link into the data directory
            return None
        return rt.files.stage_file(root.base_id, path, reach)
    except (PathNotFound, PathUnreadable, PathNotAllowed, SourceFault):
        return None


def _publish(rt: Runtime, tx: Tx, base_id: BaseId, copies: Mapping[ItemId, Staged]) -> None:
    """New bytes onto the stored paths; one sync for all, because everybody waits for this transaction."""
    placed: list[str] = []
    for root_id, staged in copies.items():
        root = items.get(tx, root_id)
        assert root.relative_path is not None  # it was stored when it was added
        rt.files.publish(staged, root.relative_path, overwrite=True)
        placed.append(root.relative_path)
    if placed:
        rt.files.sync(base_id, placed)


def _restart(tx: Tx, job: Job, root_id: ItemId, *, is_acquired: bool) -> bool:
    """Put one root back to work. False: its source has vanished; it keeps status and material.

    A backfill needs vectors, not news: there the stored bytes are indexed instead.
    """
    root = items.get(tx, root_id)
    is_behind_address = root.type in (ItemType.URL, ItemType.SITEMAP)
    if not is_acquired or (is_behind_address and job.input.get("backfill") and root.relative_path is not None):
        return _from_stored(tx, job, root)
    if root.type in CONTAINERS:
        status.restart_expansion(tx, root)
        asked = {name: bool(job.input.get(name)) for name in ("allow_empty", "only_changed", "confined")}
        spec = JobSpec.prepare_root(job.base_id, root.id, job.id, **asked)
    else:  # a page is fetched by its index job; a fetch that fails leaves what is stored
        status.begin(tx, root.id, ItemStatus.PROCESSING)
        spec = JobSpec.index_documents(job.base_id, root.id, job.id)
    jobs.enqueue(tx, spec, shard=job.shard)
    return True


def _from_stored(tx: Tx, job: Job, root: Item) -> bool:
    """Index again what is stored of a root whose source has vanished; False if that would bring nothing new."""
    if not job.input.get("backfill"):
        return False
    leaves = [leaf.id for leaf in tree.leaves(tx, job.base_id, [root.id]) if leaf.relative_path]
    for leaf_id in leaves:
        status.begin(tx, leaf_id, ItemStatus.PROCESSING)
    specs = [JobSpec.index_documents(job.base_id, leaf_id, job.id, stored=True) for leaf_id in leaves]
    jobs.enqueue_all(tx, specs, shard=job.shard)
    return True
