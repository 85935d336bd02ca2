"""knowledge.prepare-root: bring a directory's rows in step with its folder, and enqueue what is to be indexed.

The whole tree is done by one job, batch by batch: files are copied beside raw/ without a lock; then, under the lock, one
transaction renames them in, writes their rows and enqueues their jobs.

After an add there is nothing yet, and a second execution goes on where the first ended: what has a row is left alone, so
nothing is indexed, or paid for, twice. After a reindex (the job has a parent) it is a synchronisation: files that are still
there keep their rows and ids and are indexed again, new ones are added, and those that vanished are deleted. Vanished means
that their own folder was listed completely and they were not in it.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from knowledge.catalog import bases, items, jobs, status, tree
from knowledge.db.engine import Tx
from knowledge.errors import NoIndexableFiles, PathNotFound, PathUnreadable, SourcesUnverifiable
from knowledge.files.store import Staged
from knowledge.ingestion.run import Run
from knowledge.model.ids import ItemId, new_item_id
from knowledge.model.jobs import JobSpec
from knowledge.model.names import folded, numbered, safe_name
from knowledge.model.status import ACTIVE, ItemStatus, ItemType, Notice
from knowledge.model.views import Item
from knowledge.pipeline.sources.directory import Skipped, SkipReason, scan, shown
from knowledge.runtime import Runtime

BATCH: Final = 64  #: files a commit; few enough that others get the lock in between
_SAMPLE: Final = 50  #: left-out entries that are named on the item
_STILL_THERE: Final = frozenset({SkipReason.EMPTY, SkipReason.BINARY, SkipReason.UNREADABLE})  #: what a known file may become


def run(rt: Runtime, run: Run) -> None:
    root = _begin(rt, run)
    if root is None:
        return _finish(rt, run, None)
    expansion = _Expansion.of(rt, run, root)
    found = _files(rt, run, root, expansion)
    while batch := list(islice(found, BATCH)):
        if not _import(rt, run, root, expansion, batch):
            return _finish(rt, run, None)
        rt.dispatch.publish_due(root.base_id)
    _finish(rt, run, expansion)
    rt.dispatch.publish_due(root.base_id)
    return None


@dataclass(frozen=True, slots=True)
class _Found:
    """A file to copy in: a new one, or one whose row is kept."""

    path: Path
    relative: str
    size: int
    child: Item | None


@dataclass
class _Expansion:
    """What this directory has become so far."""

    is_refresh: bool
    children: dict[str, Item]  #: by source, as they were when this execution began
    folders: dict[str, tuple[ItemId, str]]  #: relative folder → its row and stored path
    taken: set[str] = field(default_factory=set)  #: folded stored paths
    seen: set[ItemId] = field(default_factory=set)  #: files that are still there
    new: list[str] = field(default_factory=list)  #: relative paths of files that got a row
    unlisted: list[str] = field(default_factory=list)  #: folders of which nothing is known, with a closing slash
    leaves: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    sample: list[dict[str, str]] = field(default_factory=list)

    @classmethod
    def of(cls, rt: Runtime, run: Run, root: Item) -> "_Expansion":
        prefix = root.relative_path or ""
        with rt.db.read() as tx:
            children = items.below(tx, root.base_id, prefix)
        folders = {"": (root.id, prefix)}
        for source, child in children.items():
            if child.type is ItemType.DIRECTORY and child.relative_path and child.status is not ItemStatus.DELETING:
                folders[_inside(source, root.source)] = (child.id, child.relative_path)
        taken = {folded(child.relative_path) for child in children.values() if child.relative_path}
        return cls(run.job.parent_id is not None, children, folders, taken)

    def skip(self, relative: str, reason: str) -> None:
        self.skipped[reason] += 1
        if reason != SkipReason.HIDDEN and len(self.sample) < _SAMPLE:
            self.sample.append({"path": relative, "reason": reason})

    def place(self, folder: str, name: str, *, directory: bool = False) -> str:
        """A stored path below a folder that no other entry has, also on a disk that ignores case."""
        parent, number, wanted = self.folders[folder][1], 0, safe_name(name)
        while folded(path := f"{parent}/{numbered(wanted, number, directory=directory)}") in self.taken:
            number += 1
        self.taken.add(folded(path))
        return path

    def vanished(self, root: Item) -> list[ItemId]:
        """Files that were in a folder and are not there any more, and folders with no file left."""
        kept: set[str] = set()
        gone: list[ItemId] = []
        files = [child for child in self.children.values() if child.type is ItemType.FILE]
        for child in files:
            place = _inside(child.source, root.source)
            if child.status is ItemStatus.DELETING:
                continue
            if child.id in self.seen or any(place.startswith(folder) for folder in self.unlisted):
                kept.update(_folders_above(place))
            else:
                gone.append(child.id)
        kept.update(above for relative in self.new for above in _folders_above(relative))
        empty = [
            child.id
            for source, child in self.children.items()
            if child.type is ItemType.DIRECTORY
            and child.status is not ItemStatus.DELETING
            and _inside(source, root.source) not in kept
        ]
        return gone + empty

    @property
    def notices(self) -> set[Notice]:
        return {Notice.FILES_SKIPPED} if any(reason != SkipReason.HIDDEN for reason in self.skipped) else set()


def _begin(rt: Runtime, run: Run) -> Item | None:
    with rt.db.write() as tx:
        jobs.require_ours(tx, run.job)
        return status.begin(tx, run.job.only_item, ItemStatus.PREPARING)


def _files(rt: Runtime, run: Run, root: Item, expansion: _Expansion) -> Iterator[_Found]:
    """What is to be copied in, in the order of the scan."""

    def refusal(name: str, path: Path) -> SkipReason | None:
        return SkipReason.OWN if rt.files.holds(path) else rt.readers.accepts(name, path)

    for entry in scan(Path(root.source), refusal, run.checkpoint):
        child = expansion.children.get(f"{root.source}/{entry.relative}")
        if child is not None and child.type is not ItemType.FILE:
            child = None
        if isinstance(entry, Skipped):
            if entry.is_directory and entry.reason is SkipReason.UNREADABLE:
                expansion.unlisted.append(f"{entry.relative}/")
            if child is not None and entry.reason in _STILL_THERE:
                expansion.seen.add(child.id)
            expansion.skip(entry.relative, entry.reason)
        elif child is None:
            yield _Found(entry.path, entry.relative, entry.size, None)
        else:
            expansion.seen.add(child.id)
            is_free = child.status is not ItemStatus.DELETING and child.status not in ACTIVE
            if expansion.is_refresh and is_free:
                yield _Found(entry.path, entry.relative, entry.size, child)
            elif child.status is not ItemStatus.DELETING:
                expansion.leaves += 1


def _import(rt: Runtime, run: Run, root: Item, expansion: _Expansion, batch: list[_Found]) -> bool:
    """One batch into raw/, rows and ledger. False if the directory is not wanted any more."""
    staged: list[tuple[_Found, Staged]] = []
    placed: list[str] = []
    try:
        for entry in batch:
            try:
                staged.append((entry, rt.files.stage_file(root.base_id, entry.path)))
            except (PathNotFound, PathUnreadable) as error:  # gone or locked since it was listed: the others go on
                expansion.skip(entry.relative, error.code)
            run.checkpoint()
        with rt.locks.base(root.base_id):
            try:
                with rt.db.write(durable=True) as tx:
                    jobs.require_ours(tx, run.job)
                    if items.find_wanted(tx, root.id) is None:
                        return False
                    leaves = [*_refresh(rt, tx, staged), *_insert(rt, tx, root, expansion, staged, placed)]
                    rt.files.sync(root.base_id, placed)
                    base = bases.require_runnable(tx, root.base_id)
                    parent = run.job.id if expansion.is_refresh else None
                    specs = [JobSpec.index_documents(root.base_id, item_id, parent) for item_id in leaves]
                    jobs.enqueue_all(tx, specs, shard=base.shard)
            except BaseException:
                rt.files.remove(root.base_id, placed)
                raise
    finally:
        rt.files.discard(one for _, one in staged)
    expansion.leaves += len(leaves)
    run.tell("copying", files=expansion.leaves)
    return True


def _refresh(rt: Runtime, tx: Tx, staged: list[tuple[_Found, Staged]]) -> list[ItemId]:
    """New bytes for files whose rows are kept; one that was deleted meanwhile stays so."""
    leaves = []
    for entry, bytes_ in staged:
        if entry.child is None or entry.child.relative_path is None:
            continue
        if status.begin(tx, entry.child.id, ItemStatus.PROCESSING) is not None:
            rt.files.publish(bytes_, entry.child.relative_path, overwrite=True)
            leaves.append(entry.child.id)
    return leaves


def _insert(
    rt: Runtime, tx: Tx, root: Item, expansion: _Expansion, staged: list[tuple[_Found, Staged]], placed: list[str]
) -> list[ItemId]:
    rows: list[items.NewItem] = []
    leaves: list[ItemId] = []
    for entry, bytes_ in staged:
        if entry.child is not None:
            continue
        folder, _, name = entry.relative.rpartition("/")
        parent_id = _folder(root, expansion, rows, folder)
        path = expansion.place(folder, name)
        placed.append(path)
        rt.files.publish(bytes_, path, overwrite=True)  # the prefix is ours alone; what lies there is a leftover
        row = items.NewItem(
            new_item_id(), ItemType.FILE, shown(str(entry.path)), ItemStatus.PROCESSING, parent_id, path, {"size": entry.size}
        )
        rows.append(row)
        leaves.append(row.id)
        expansion.new.append(entry.relative)
    items.insert(tx, root.base_id, rows)
    return leaves


def _folder(root: Item, expansion: _Expansion, rows: list[items.NewItem], folder: str) -> ItemId:
    """The row of a folder, made together with those above it if it is new."""
    known = expansion.folders.get(folder)
    if known is not None:
        return known[0]
    above, _, name = folder.rpartition("/")
    parent_id = _folder(root, expansion, rows, above)
    path = expansion.place(above, name, directory=True)
    row = items.NewItem(new_item_id(), ItemType.DIRECTORY, f"{root.source}/{folder}", ItemStatus.PROCESSING, parent_id, path)
    rows.append(row)
    expansion.folders[folder] = (row.id, path)
    return row.id


def _finish(rt: Runtime, run: Run, expansion: _Expansion | None) -> None:
    """Close the job and the expansion in one commit."""
    with rt.db.write() as tx:
        jobs.require_ours(tx, run.job)
        root = items.find_wanted(tx, run.job.only_item)
        if root is not None and expansion is not None:
            _settle(tx, run, root, expansion)
        jobs.finish(tx, run.job)


def _settle(tx: Tx, run: Run, root: Item, expansion: _Expansion) -> None:
    skipped = {"count": expansion.skipped.total(), "reasons": dict(expansion.skipped), "sample": expansion.sample}
    gone = expansion.vanished(root) if expansion.is_refresh else []
    if gone and not expansion.leaves and not expansion.seen and not run.job.input.get("allow_empty"):
        status.finish_expansion(tx, root, expansion.notices)  # the children stay as they were, and searchable
        status.fail(
            tx, root, SourcesUnverifiable.code, {"message": "The folder is empty where it had files; nothing was removed."}
        )
        return
    items.set_data(tx, root.id, skipped=skipped if expansion.skipped else None)
    if gone:
        outermost = tree.outermost(tx, root.base_id, gone)
        jobs.cancel_touching(tx, root.base_id, outermost)
        status.mark_deleting(tx, root.base_id, outermost)
        jobs.enqueue(tx, JobSpec.delete_subtree(root.base_id, outermost), shard=run.job.shard)
    if expansion.leaves or expansion.seen:
        status.finish_expansion(tx, root, expansion.notices)
    else:
        status.fail(tx, root, NoIndexableFiles.code, {"message": str(NoIndexableFiles()), "skipped": skipped})


def _folders_above(relative: str) -> Iterator[str]:
    while relative := relative.rpartition("/")[0]:
        yield relative


def _inside(source: str, root: str) -> str:
    return source.removeprefix(root).strip("/")
