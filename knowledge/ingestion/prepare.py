"""knowledge.prepare-root: bring a container's rows in step with its source, and enqueue what is to be indexed.

The whole tree is done by one job, batch by batch: files are copied beside raw/ without a lock; then, under the lock, one
transaction renames them in, writes their rows and enqueues their jobs. Memory holds one batch and the folders that are open.

After an add there is nothing yet, and a second execution goes on where the first ended: what has a row is left alone, so
nothing is indexed, or paid for, twice. After a reindex (the job has a parent) it is a synchronisation: files that are still
there keep their rows and ids and are indexed again, new ones are added, and those that vanished are deleted. Vanished means
that their own folder was listed completely, stayed in its place, and they were not in it. What somebody deletes meanwhile
stays deleted.

A container with nothing to index is `failed` with `no_indexable_files`, unless a reindex said that it may be empty.

Where children come from is the business of `pipeline.sources.children`.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from knowledge.catalog import bases, items, jobs, paths, status, tree
from knowledge.db.engine import Tx
from knowledge.errors import (
    NoIndexableFiles,
    PathNotAllowed,
    PathNotFound,
    PathUnreadable,
    SourceFault,
    SourcesUnverifiable,
    UnsafePath,
)
from knowledge.files.paths import PATH_BYTES, PATH_PARTS
from knowledge.files.store import Staged
from knowledge.ingestion import capture, expansion, origin
from knowledge.ingestion.left_out import LeftOut
from knowledge.ingestion.open_folders import Known, OpenFolder, OpenFolders
from knowledge.ingestion.placing import placing
from knowledge.ingestion.run import Run
from knowledge.model.ids import ItemId, new_item_id
from knowledge.model.item_data import DataKey
from knowledge.model.jobs import JobSpec
from knowledge.model.skip_reason import SkipReason
from knowledge.model.status import ACTIVE, ItemStatus
from knowledge.model.views import Item
from knowledge.pipeline.sources.children import Broken, Child, Entry, Folder, Left, Partial, Skipped
from knowledge.runtime import Runtime

BATCH: Final = 64  #: files a commit; few enough that others get the lock in between
_ROOM_FOR_NUMBERS: Final = 64  #: bytes of a path that are kept free for what makes its parts unlike others


def run(rt: Runtime, run: Run) -> None:
    with capture.place(rt, run):  # a sitemap has to be fetched, and its host has limits
        root = _begin(rt, run)
        is_done = root is not None and _Expansion(rt, run, root).done()
    if root is None or not is_done:
        with rt.db.write() as tx:
            jobs.require_ours(tx, run.job)
            jobs.finish(tx, run.job)
        return
    rt.dispatch.publish_due(root.base_id)


def _begin(rt: Runtime, run: Run) -> Item | None:
    with rt.db.write() as tx:
        jobs.require_ours(tx, run.job)
        return status.begin(tx, run.job.only_item, ItemStatus.PREPARING)


@dataclass(frozen=True, slots=True)
class _Taken:
    """A child whose bytes lie beside raw/, if it has any: a new one, or one whose row is kept."""

    child: Child
    folder: OpenFolder
    known: Known | None
    staged: Staged | None


class _Expansion:
    """What this container has become so far."""

    def __init__(self, rt: Runtime, run: Run, root: Item) -> None:
        self._rt, self._run, self._root = rt, run, root
        self._reach = origin.reach_of(rt, root, run.job)
        self._is_refresh = run.job.parent_id is not None
        self._only_changed = bool(run.job.input.get("only_changed"))
        self._folders = OpenFolders(rt.db, root, may_be_empty=bool(run.job.input.get("allow_empty")))
        self._batch: list[_Taken] = []
        self._broken: list[tuple[OpenFolder, Broken]] = []
        self._left_out = LeftOut()
        self._leaves = 0

    def done(self) -> bool:
        """Do all of it. False if the container is not wanted any more; then its job is still to be closed."""
        run, root = self._run, self._root
        children = expansion.children_of(self._rt, root, run.checkpoint, self._reach)
        try:
            with closing(children.scan(run.checkpoint)) as entries:
                for entry in entries:
                    self._take(entry)
                    if len(self._batch) >= BATCH and not self._commit():
                        return False
            if not self._commit():
                return False
        finally:
            self._rt.files.discard(one.staged for one in self._batch if one.staged)
        self._finish()
        return True

    # one entry ---------------------------------------------------------------------------------------------------------------

    def _take(self, entry: Entry) -> None:
        match entry:
            case Child():
                self._take_child(entry)
            case Folder():
                self._folders.enter(entry.relative, entry.type, entry.data)
            case Left():
                self._folders.leave(entry.relative)
            case Broken() if self._is_too_deep(entry.relative):
                self._left_out.add(entry.relative, UnsafePath.code)
            case Broken():
                folder = self._folders.enter(entry.relative, entry.type, entry.data)
                folder.is_unlisted = folder.is_kept = True
                self._broken.append((folder, entry))
            case Skipped():
                self._leave_out(entry)
            case Partial():
                self._folders.enter(entry.relative).is_unlisted = True

    def _take_child(self, child: Child) -> None:
        folder = self._folders.enter(child.relative.rpartition("/")[0])
        self._folders.said(child.relative)
        known = folder.known.get((child.type, child.key))
        if known is None:
            if self._is_too_deep(child.relative):
                return self._left_out.add(child.relative, UnsafePath.code)  # one file too deep must not fail the others
        elif known.status is ItemStatus.DELETING:
            return None
        else:
            folder.saw(known)
            if not self._is_refresh or known.status in ACTIVE or self._is_unchanged(child, known):
                self._leaves += 1
                return None
        if isinstance(child.content, Path) and self._rt.files.holds(child.content):
            # a folder on the way became a link since it was listed
            return self._left_out.add(child.relative, SkipReason.OWN)
        try:
            staged = self._staged(child)
        except (
            PathNotFound,
            PathUnreadable,
            PathNotAllowed,
            SourceFault,
        ) as error:  # gone, locked, moved, damaged: others go on
            return self._left_out.add(child.relative, error.code)
        folder.is_kept = True
        self._batch.append(_Taken(child, folder, known, staged))
        self._run.checkpoint()
        return None

    def _is_too_deep(self, relative: str) -> bool:
        path = f"{self._root.relative_path}/{relative}"
        return len(path.encode()) > PATH_BYTES - _ROOM_FOR_NUMBERS or path.count("/") >= PATH_PARTS

    def _is_unchanged(self, child: Child, known: Known) -> bool:
        """Whether its material is that of the bytes that are there now, as far as size and time can tell."""
        is_same = child.stamp is not None and child.stamp == known.data.get(DataKey.STAMP)
        return self._only_changed and is_same and known.status is ItemStatus.COMPLETED

    def _staged(self, child: Child) -> Staged | None:
        files, base_id = self._rt.files, self._root.base_id
        if child.content is None:
            return None
        if isinstance(child.content, Path):
            return files.stage_file(base_id, child.content, self._reach)
        with child.content() as stream:
            return files.stage_stream(base_id, stream)

    def _leave_out(self, entry: Skipped) -> None:
        self._left_out.add(entry.relative or ".", entry.reason)
        self._folders.left_out(entry)

    # one batch ---------------------------------------------------------------------------------------------------------------

    def _commit(self) -> bool:
        """The batch into raw/, rows and ledger. False if the container is not wanted any more."""
        rt, run, root = self._rt, self._run, self._root
        batch = self._batch
        if not batch:
            return True
        with rt.locks.base(root.base_id), placing(rt, root.base_id) as placed, rt.db.write(durable=True) as tx:
            jobs.require_ours(tx, run.job)
            if items.find_wanted(tx, root.id) is None:
                return False
            renewed = self._refresh(tx, batch)
            leaves = [*renewed, *self._insert(tx, batch, placed)]
            rt.files.sync(root.base_id, [*placed, *(path for path in renewed.values() if path)])
            base = bases.require_runnable(tx, root.base_id)
            parent = run.job.id if self._is_refresh else None
            jobs.enqueue_all(
                tx, [JobSpec.index_documents(root.base_id, item_id, parent) for item_id in leaves], shard=base.shard
            )
        self._batch = []
        rt.files.discard(one.staged for one in batch if one.staged)
        self._leaves += len(leaves)
        run.tell("copying", files=self._leaves)
        rt.dispatch.publish_due(root.base_id)
        return True

    def _refresh(self, tx: Tx, batch: Sequence[_Taken]) -> dict[ItemId, str | None]:
        """New bytes for files whose rows are kept, with their paths; one that was deleted meanwhile stays so."""
        renewed: dict[ItemId, str | None] = {}
        for one in batch:
            if one.known is None or status.begin(tx, one.known.id, ItemStatus.PROCESSING) is None:
                continue
            if one.staged is not None and one.known.path is not None:
                self._rt.files.publish(one.staged, one.known.path, overwrite=True)
            if one.known.data.get(DataKey.STAMP) != one.child.stamp:
                items.set_data(tx, one.known.id, **{DataKey.STAMP: one.child.stamp, DataKey.SIZE: one.child.size})
            renewed[one.known.id] = one.known.path if one.staged is not None else None
        return renewed

    def _insert(self, tx: Tx, batch: Sequence[_Taken], placed: list[str]) -> list[ItemId]:
        new = [one for one in batch if one.known is None]
        self._folders.find_deleted(tx, [one.folder for one in new])
        rows: list[items.NewItem] = []
        leaves: list[ItemId] = []
        claims = paths.Claims(tx, self._root.base_id)
        for one in new:
            if one.folder.is_deleted:
                continue
            parent_id = self._row_of(one.folder, rows, claims)
            item_id, path = new_item_id(), None
            if one.staged is not None:
                path = one.folder.place(claims, item_id, one.child.relative.rpartition("/")[2])
                placed.append(path)
                self._rt.files.publish(one.staged, path, overwrite=True)  # the prefix is ours alone; a leftover may lie there
            kept = {DataKey.SIZE: one.child.size, DataKey.STAMP: one.child.stamp, **one.child.data}
            data = self._data({name: value for name, value in kept.items() if value is not None})
            row = items.NewItem(item_id, one.child.type, one.child.source, ItemStatus.PROCESSING, parent_id, path, data)
            rows.append(row)
            leaves.append(row.id)
        items.insert(tx, self._root.base_id, rows)
        claims.hold()
        status.reconcile(tx, self._root.base_id, {row.group_id for row in rows})  # a completed folder is at work again
        return leaves

    def _row_of(self, folder: OpenFolder, rows: list[items.NewItem], claims: paths.Claims) -> ItemId:
        """The row of a folder, made together with those above it if it is new."""
        new = []
        step: OpenFolder | None = folder
        while step is not None and step.id is None:
            new.append(step)
            step = step.above
        for one in reversed(new):
            assert one.above is not None  # the root has its row
            one.id = new_item_id()
            one.path = one.above.place(claims, one.id, one.relative.rpartition("/")[2], directory=True)
            source = f"{self._root.source}/{one.relative}"
            data = self._data(one.data)
            rows.append(items.NewItem(one.id, one.type, source, ItemStatus.PROCESSING, one.above.id, one.path, data))
        assert folder.id is not None
        return folder.id

    def _data(self, data: Mapping[str, object]) -> dict[str, object]:
        """What a client's container brings in is a client's as well."""
        return origin.confined_data(data) if origin.is_confined(self._root) else dict(data)

    # the end -----------------------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Close the job and the expansion in one commit."""
        run = self._run
        is_kept = self._folders.leave_all()
        for relative in self._folders.unmounted:
            self._left_out.add(relative, SkipReason.UNMOUNTED)
        with self._rt.db.write() as tx:
            jobs.require_ours(tx, run.job)
            root = items.find_wanted(tx, self._root.id)
            if root is not None:
                self._settle(tx, root, is_kept)
            jobs.finish(tx, run.job)

    def _settle(self, tx: Tx, root: Item, is_kept: bool) -> None:
        gone = self._folders.gone if self._is_refresh else []
        notices = self._left_out.notices
        if gone and not is_kept and not self._run.job.input.get("allow_empty"):
            status.finish_expansion(tx, root, notices)  # the children stay as they were, and searchable
            told = f"The {root.type} is empty where it had files; nothing was removed. If that is meant: reindex --allow-empty."
            status.fail(tx, root, SourcesUnverifiable.code, {"message": told})
            return
        items.set_data(tx, root.id, **{DataKey.SKIPPED: self._left_out.stored})
        for folder in items.visible(tx, root.base_id, self._folders.mounts).values():
            items.set_data(tx, folder.id, **{DataKey.MOUNT: self._folders.mounts[folder.id] or None})
        if gone:
            self._delete(tx, gone)
        broken = self._rows_of_broken(tx)
        if is_kept or self._run.job.input.get("allow_empty"):
            status.finish_expansion(tx, root, notices)
        else:
            why = {"message": f"This {root.type} holds no file that can be read.", "skipped": self._left_out.reasons}
            status.fail(tx, root, NoIndexableFiles.code, why)
        for item_id, entry in broken:
            status.fail_expansion(
                tx, root.base_id, item_id, entry.error.code, {"message": str(entry.error), **entry.error.details}
            )

    def _delete(self, tx: Tx, gone: Sequence[ItemId]) -> None:
        """What has vanished; some of it somebody may have deleted while the folders were read."""
        base_id = self._root.base_id
        outermost = tree.outermost(tx, base_id, [item.id for item in items.visible(tx, base_id, gone).values()])
        if outermost:
            jobs.cancel_touching(tx, base_id, outermost)
            status.mark_deleting(tx, base_id, outermost)
            jobs.enqueue(tx, JobSpec.delete_subtree(base_id, outermost), shard=self._run.job.shard)

    def _rows_of_broken(self, tx: Tx) -> list[tuple[ItemId, Broken]]:
        """Containers that could not be read get their row even if nothing in them did."""
        self._folders.find_deleted(tx, [folder for folder, _ in self._broken])
        rows: list[items.NewItem] = []
        claims = paths.Claims(tx, self._root.base_id)
        found = [(self._row_of(folder, rows, claims), entry) for folder, entry in self._broken if not folder.is_deleted]
        items.insert(tx, self._root.base_id, rows)
        claims.hold()
        return found
