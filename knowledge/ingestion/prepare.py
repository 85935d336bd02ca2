"""knowledge.prepare-root: bring a directory's rows in step with its folder, and enqueue what is to be indexed.

The whole tree is done by one job, batch by batch: files are copied beside raw/ without a lock; then, under the lock, one
transaction renames them in, writes their rows and enqueues their jobs.

After an add there is nothing yet, and a second execution goes on where the first ended: what has a row is left alone, so
nothing is indexed, or paid for, twice. After a reindex (the job has a parent) it is a synchronisation: files that are still
there keep their rows and ids and are indexed again, new ones are added, and those that vanished are deleted. Vanished means
that their own folder was listed completely and they were not in it. What somebody deletes meanwhile stays deleted.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Final

from knowledge.catalog import bases, items, jobs, status, tree
from knowledge.db.engine import Tx
from knowledge.errors import NoIndexableFiles, PathNotAllowed, PathNotFound, PathUnreadable, SourcesUnverifiable, UnsafePath
from knowledge.files.paths import PATH_BYTES
from knowledge.files.reach import Reach
from knowledge.files.store import Staged
from knowledge.ingestion import origin
from knowledge.ingestion.placing import placing
from knowledge.ingestion.run import Run
from knowledge.model.ids import ItemId, new_item_id
from knowledge.model.jobs import JobSpec
from knowledge.model.names import folded, numbered, safe_name
from knowledge.model.status import ACTIVE, ItemStatus, ItemType, Notice
from knowledge.model.views import Item
from knowledge.pipeline.sources.directory import Skipped, SkipReason, scan, shown
from knowledge.runtime import Runtime

BATCH: Final = 64  #: files a commit; few enough that others get the lock in between
_ROOM_FOR_NUMBERS: Final = 64  #: bytes of a path that are kept free for what makes its parts unlike others
_SAMPLE: Final = 50  #: left-out entries that are named on the item
#: what a known file may become without having vanished; it keeps what it has in the index
_STILL_THERE: Final = frozenset({SkipReason.EMPTY, SkipReason.BINARY, SkipReason.UNREADABLE, SkipReason.UNSUPPORTED})


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
    reach: Reach  #: within which the folder and its files must lie
    children: dict[str, Item]  #: by the exact path they came from, as they were when this execution began
    blocked: set[str]  #: paths of rows that are being deleted
    folders: dict[str, tuple[ItemId, str]]  #: relative folder → its row and stored path
    taken: set[str] = field(default_factory=set)  #: folded stored paths
    deleted: set[str] = field(default_factory=set)  #: relative folders that somebody deleted meanwhile
    seen: set[ItemId] = field(default_factory=set)  #: files that are still there
    new: list[str] = field(default_factory=list)  #: relative paths of files that got a row
    unlisted: list[str] = field(default_factory=list)  #: folders of which nothing is known, with a closing slash
    leaves: int = 0
    unverified: int = 0  #: files in folders that could not be listed; they stay
    skipped: Counter[str] = field(default_factory=Counter)
    sample: list[dict[str, str]] = field(default_factory=list)

    @classmethod
    def of(cls, rt: Runtime, run: Run, root: Item) -> "_Expansion":
        prefix = root.relative_path or ""
        with rt.db.read() as tx:
            rows = items.below(tx, root.base_id, prefix)
        live = [row for row in rows if row.status is not ItemStatus.DELETING]
        children = {str(origin.path_of(row)): row for row in live}
        blocked = {str(origin.path_of(row)) for row in rows} - children.keys()
        folders = {"": (root.id, prefix)}
        for child in live:
            if child.type is ItemType.DIRECTORY and child.relative_path:
                folders[_inside(child.source, root.source)] = (child.id, child.relative_path)
        taken = {folded(row.relative_path) for row in rows if row.relative_path}
        reach = origin.reach_of(rt, root, run.job)
        return cls(run.job.parent_id is not None, reach, children, blocked, folders, taken)

    def above(self, found: Iterable[_Found]) -> dict[str, ItemId]:
        """The folders that have a row already, of those in which these files lie, at any depth."""
        wanted = {folder for one in found for folder in _folders_above(one.relative)}
        return {folder: self.folders[folder][0] for folder in wanted if folder in self.folders}

    def is_deleted(self, relative: str) -> bool:
        """Whether a folder above was deleted: then it gets no more children."""
        return not self.deleted.isdisjoint(_folders_above(relative))

    def child_at(self, relative: str, root: Item) -> list[Item]:
        """Rows that are shown under this path; more than one if they differ in bytes that are no text."""
        return self._by_source.get(f"{root.source}/{relative}", [])

    @cached_property
    def _by_source(self) -> dict[str, list[Item]]:
        rows: dict[str, list[Item]] = {}
        for child in self.children.values():
            rows.setdefault(child.source, []).append(child)
        return rows

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
        self.unverified = 0
        files = [child for child in self.children.values() if child.type is ItemType.FILE]
        for child in files:
            place = _inside(child.source, root.source)
            if child.id not in self.seen and not any(place.startswith(folder) for folder in self.unlisted):
                gone.append(child.id)
                continue
            kept.update(_folders_above(place))
            self.unverified += child.id not in self.seen
        kept.update(above for relative in self.new for above in _folders_above(relative))
        empty = [
            child.id
            for child in self.children.values()
            if child.type is ItemType.DIRECTORY and _inside(child.source, root.source) not in kept
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
    names = expansion.reach.names if expansion.reach.is_confined else None
    for entry in scan(origin.path_of(root), rt.readers.accepts, run.checkpoint, rt.files.holds, names):
        if isinstance(entry, Skipped):
            _leave_out(expansion, entry, root)
            continue
        child = expansion.children.get(str(entry.path))
        if child is None or child.type is not ItemType.FILE:
            if len(f"{root.relative_path}/{entry.relative}".encode()) > PATH_BYTES - _ROOM_FOR_NUMBERS:
                expansion.skip(entry.relative, UnsafePath.code)  # one file too deep must not fail the others
            elif str(entry.path) not in expansion.blocked:
                yield _Found(entry.path, entry.relative, entry.size, None)
            continue
        expansion.seen.add(child.id)
        if expansion.is_refresh and child.status not in ACTIVE:
            yield _Found(entry.path, entry.relative, entry.size, child)
        else:
            expansion.leaves += 1


def _leave_out(expansion: _Expansion, entry: Skipped, root: Item) -> None:
    if entry.reason is SkipReason.UNREADABLE:  # perhaps a folder: not even that can be told of all
        expansion.unlisted.append(f"{entry.relative}/")
    if entry.reason in _STILL_THERE:
        expansion.seen.update(child.id for child in expansion.child_at(entry.relative, root) if child.type is ItemType.FILE)
    expansion.skip(entry.relative, entry.reason)


def _import(rt: Runtime, run: Run, root: Item, expansion: _Expansion, batch: list[_Found]) -> bool:
    """One batch into raw/, rows and ledger. False if the directory is not wanted any more."""
    staged: list[tuple[_Found, Staged]] = []
    try:
        for entry in batch:
            if rt.files.holds(entry.path):  # a folder on the way became a link since it was listed
                expansion.skip(entry.relative, SkipReason.OWN)
                continue
            try:
                staged.append((entry, rt.files.stage_file(root.base_id, entry.path, expansion.reach)))
            except (PathNotFound, PathUnreadable, PathNotAllowed) as error:  # gone, locked or moved since it was listed
                expansion.skip(entry.relative, error.code)
            run.checkpoint()
        with rt.locks.base(root.base_id), placing(rt, root.base_id) as placed, rt.db.write(durable=True) as tx:
            jobs.require_ours(tx, run.job)
            if items.find_wanted(tx, root.id) is None:
                return False
            renewed = _refresh(rt, tx, staged)
            leaves = [*renewed, *_insert(rt, tx, root, expansion, staged, placed)]
            rt.files.sync(root.base_id, [*placed, *renewed.values()])
            base = bases.require_runnable(tx, root.base_id)
            parent = run.job.id if expansion.is_refresh else None
            specs = [JobSpec.index_documents(root.base_id, item_id, parent) for item_id in leaves]
            jobs.enqueue_all(tx, specs, shard=base.shard)
    finally:
        rt.files.discard(one for _, one in staged)
    expansion.leaves += len(leaves)
    run.tell("copying", files=expansion.leaves)
    return True


def _refresh(rt: Runtime, tx: Tx, staged: list[tuple[_Found, Staged]]) -> dict[ItemId, str]:
    """New bytes for files whose rows are kept, with their paths; one that was deleted meanwhile stays so."""
    renewed = {}
    for entry, bytes_ in staged:
        if entry.child is None or entry.child.relative_path is None:
            continue
        if status.begin(tx, entry.child.id, ItemStatus.PROCESSING) is not None:
            rt.files.publish(bytes_, entry.child.relative_path, overwrite=True)
            renewed[entry.child.id] = entry.child.relative_path
    return renewed


def _insert(
    rt: Runtime, tx: Tx, root: Item, expansion: _Expansion, staged: list[tuple[_Found, Staged]], placed: list[str]
) -> list[ItemId]:
    rows: list[items.NewItem] = []
    leaves: list[ItemId] = []
    folders = expansion.above(entry for entry, _ in staged if entry.child is None)
    visible = items.visible(tx, root.base_id, folders.values())
    expansion.deleted.update(folder for folder, folder_id in folders.items() if folder_id not in visible)
    for entry, bytes_ in staged:
        folder, _, name = entry.relative.rpartition("/")
        if entry.child is not None or expansion.is_deleted(entry.relative):
            continue
        parent_id = _folder(root, expansion, rows, folder, entry.path.parent)
        path = expansion.place(folder, name)
        placed.append(path)
        rt.files.publish(bytes_, path, overwrite=True)  # the prefix is ours alone; what lies there is a leftover
        data = {"size": entry.size, **origin.data_of(entry.path, confined=origin.is_confined(root))}
        row = items.NewItem(new_item_id(), ItemType.FILE, shown(str(entry.path)), ItemStatus.PROCESSING, parent_id, path, data)
        rows.append(row)
        leaves.append(row.id)
        expansion.new.append(entry.relative)
    items.insert(tx, root.base_id, rows)
    status.reconcile(tx, root.base_id, {row.group_id for row in rows})  # a completed folder is at work again with its new child
    return leaves


def _folder(root: Item, expansion: _Expansion, rows: list[items.NewItem], folder: str, place: Path) -> ItemId:
    """The row of a folder, made together with those above it if it is new."""
    known = expansion.folders.get(folder)
    if known is not None:
        return known[0]
    above, _, name = folder.rpartition("/")
    parent_id = _folder(root, expansion, rows, above, place.parent)
    path = expansion.place(above, name, directory=True)
    source, data = f"{root.source}/{folder}", origin.data_of(place, confined=origin.is_confined(root))
    row = items.NewItem(new_item_id(), ItemType.DIRECTORY, source, ItemStatus.PROCESSING, parent_id, path, data)
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
    has_files = bool(expansion.leaves or expansion.seen or expansion.unverified)
    if gone and not has_files and not run.job.input.get("allow_empty"):
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
    if has_files:
        status.finish_expansion(tx, root, expansion.notices)
    else:
        status.fail(tx, root, NoIndexableFiles.code, {"message": str(NoIndexableFiles()), "skipped": skipped})


def _folders_above(relative: str) -> Iterator[str]:
    while relative := relative.rpartition("/")[0]:
        yield relative


def _inside(source: str, root: str) -> str:
    return source.removeprefix(root).strip("/")
