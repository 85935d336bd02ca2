"""knowledge.prepare-root: expand a directory into child rows and enqueue its leaves.

The whole tree is expanded by one job, batch by batch: files are copied beside raw/ without a lock; then, under the lock, one
transaction renames them in, inserts their rows and enqueues their jobs. A second execution goes on where the first ended: what
has a row already is left alone, so nothing is indexed, or paid for, twice.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Final

from knowledge.catalog import bases, items, jobs, paths, status
from knowledge.db.engine import Tx
from knowledge.errors import NoIndexableFiles, PathNotFound, PathUnreadable
from knowledge.files.store import Staged
from knowledge.ingestion import origin
from knowledge.ingestion.placing import placing
from knowledge.ingestion.run import Run
from knowledge.model.ids import ItemId, new_item_id
from knowledge.model.jobs import JobSpec
from knowledge.model.names import folded, numbered, safe_name
from knowledge.model.status import ItemStatus, ItemType, Notice
from knowledge.model.views import Item
from knowledge.pipeline.sources.directory import FoundFile, Skipped, SkipReason, scan, shown
from knowledge.runtime import Runtime

BATCH: Final = 64  #: files a commit; few enough that others get the lock in between
_SAMPLE: Final = 50  #: left-out entries that are named on the item


def run(rt: Runtime, run: Run) -> None:
    root = _begin(rt, run)
    if root is None:
        return _finish(rt, run, None)
    expansion = _Expansion.of(rt, root)
    found = _files(rt, run, root, expansion)
    while batch := list(islice(found, BATCH)):
        if not _import(rt, run, root, expansion, batch):
            return _finish(rt, run, None)
        rt.dispatch.publish_due(root.base_id)
    return _finish(rt, run, expansion)


@dataclass
class _Expansion:
    """What this directory has become so far."""

    prefix: str
    children: dict[str, Item]  #: by source, from an earlier execution
    folders: dict[str, tuple[ItemId, str]]  #: relative folder → its row and stored path
    taken: set[str] = field(default_factory=set)  #: folded stored paths
    deleted: set[str] = field(default_factory=set)  #: relative folders
    leaves: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    sample: list[dict[str, str]] = field(default_factory=list)

    @classmethod
    def of(cls, rt: Runtime, root: Item) -> "_Expansion":
        prefix = root.relative_path or ""
        with rt.db.read() as tx:
            children = items.below(tx, root.base_id, prefix)
        folders = {"": (root.id, prefix)}
        for source, child in children.items():
            if child.type is ItemType.DIRECTORY and child.relative_path:
                folders[_inside(source, root.source)] = (child.id, child.relative_path)
        taken = {folded(child.relative_path) for child in children.values() if child.relative_path}
        leaves = sum(child.type is ItemType.FILE and child.status is not ItemStatus.DELETING for child in children.values())
        return cls(prefix, children, folders, taken, leaves=leaves)

    def forget_deleted(self, visible: Collection[str]) -> None:
        """Folders that somebody deleted meanwhile get no more children, neither they nor what is below them."""
        self.deleted.update(folder for folder, (folder_id, _) in self.folders.items() if folder_id not in visible)

    def is_deleted(self, folder: str) -> bool:
        return any(str(place) in self.deleted for place in (PurePosixPath(folder), *PurePosixPath(folder).parents))

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

    @property
    def notices(self) -> set[Notice]:
        return {Notice.FILES_SKIPPED} if any(reason != SkipReason.HIDDEN for reason in self.skipped) else set()


def _begin(rt: Runtime, run: Run) -> Item | None:
    """The root with its prefix pinned, before anything is copied, so that a crash leaves a tree that can be found."""
    with rt.locks.base(run.job.base_id), rt.db.write() as tx:
        jobs.require_ours(tx, run.job)
        root = status.begin(tx, run.job.only_item, ItemStatus.PREPARING)
        if root is None or root.relative_path:
            return root
        name = safe_name(PurePosixPath(root.source).name, fallback="root")
        return items.set_path(tx, root.id, paths.reserve(tx, root.base_id, root.id, name, directory=True))


def _files(rt: Runtime, run: Run, root: Item, expansion: _Expansion) -> Iterator[FoundFile]:
    """Files that have no row yet, in the order of the scan."""

    def refusal(name: str, path: Path) -> SkipReason | None:
        is_own = rt.files.holds(path) or rt.files.holds(real / path.relative_to(top))
        return SkipReason.OWN if is_own else rt.readers.accepts(name, path)

    top = origin.path_of(root)
    real = top.resolve()  # the scan follows no link below, but the directory itself may be one
    for entry in scan(top, refusal, run.checkpoint):
        if isinstance(entry, Skipped):
            expansion.skip(entry.relative, entry.reason)
        elif shown(str(entry.path)) not in expansion.children:
            yield entry


def _import(rt: Runtime, run: Run, root: Item, expansion: _Expansion, batch: list[FoundFile]) -> bool:
    """One batch into raw/, rows and ledger. False if the directory is not wanted any more."""
    staged: list[tuple[FoundFile, Staged]] = []
    try:
        for entry in batch:
            try:
                staged.append((entry, rt.files.stage_file(root.base_id, entry.path)))
            except (PathNotFound, PathUnreadable) as error:  # gone or locked since it was listed: the others go on
                expansion.skip(entry.relative, error.code)
            run.checkpoint()
        with rt.locks.base(root.base_id), placing(rt, root.base_id) as placed, rt.db.write(durable=True) as tx:
            jobs.require_ours(tx, run.job)
            if items.find_wanted(tx, root.id) is None:
                return False
            _insert(rt, tx, root, expansion, staged, placed)
            rt.files.sync(root.base_id, placed)
    finally:
        rt.files.discard(one for _, one in staged)
    expansion.leaves += len(placed)
    run.tell("copying", files=expansion.leaves)
    return True


def _insert(
    rt: Runtime, tx: Tx, root: Item, expansion: _Expansion, staged: list[tuple[FoundFile, Staged]], placed: list[str]
) -> None:
    rows: list[items.NewItem] = []
    leaves: list[ItemId] = []
    known = [folder_id for folder_id, _ in expansion.folders.values()]
    expansion.forget_deleted(items.visible(tx, root.base_id, known).keys())
    for entry, bytes_ in staged:
        folder, _, name = entry.relative.rpartition("/")
        if expansion.is_deleted(folder):
            continue
        parent_id = _folder(root, expansion, rows, folder)
        path = expansion.place(folder, name)
        placed.append(path)
        rt.files.publish(bytes_, path, overwrite=True)  # the prefix is ours alone; what lies there is a leftover
        row = items.NewItem(
            new_item_id(), ItemType.FILE, shown(str(entry.path)), ItemStatus.PROCESSING, parent_id, path, {"size": entry.size}
        )
        rows.append(row)
        leaves.append(row.id)
    items.insert(tx, root.base_id, rows)
    base = bases.require_runnable(tx, root.base_id)
    jobs.enqueue_all(tx, [JobSpec.index_documents(root.base_id, item_id) for item_id in leaves], shard=base.shard)


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
    with rt.db.write() as tx:
        jobs.require_ours(tx, run.job)
        root = items.find_wanted(tx, run.job.only_item)
        if root is not None and expansion is not None:
            skipped = {"count": expansion.skipped.total(), "reasons": dict(expansion.skipped), "sample": expansion.sample}
            items.set_data(tx, root.id, skipped=skipped if expansion.skipped else None)
            if expansion.leaves:
                status.finish_expansion(tx, root, expansion.notices)
            else:
                status.fail(tx, root, NoIndexableFiles.code, {"message": str(NoIndexableFiles()), "skipped": skipped})
        jobs.finish(tx, run.job)


def _inside(source: str, root: str) -> str:
    return source.removeprefix(root).strip("/")
