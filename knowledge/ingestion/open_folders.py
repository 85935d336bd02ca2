"""The folders that a scan is in, with the rows that are known of their children.

A folder's rows are loaded when it is entered and forgotten when it is left, so memory holds the folders on the way down only.
When it is left, what is known and was not seen is gone, unless nobody could look. A mount point that has become empty, or is
not there any more, is an unmounted one that nobody could look into, unless it is said that it may be empty.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from knowledge.catalog import items
from knowledge.catalog.items import Known
from knowledge.catalog.paths import Claims
from knowledge.db.engine import Database, Tx
from knowledge.model.ids import ItemId
from knowledge.model.item_data import DataKey
from knowledge.model.names import safe_name
from knowledge.model.skip_reason import STILL_THERE, SkipReason
from knowledge.model.status import CONTAINERS, ItemStatus, ItemType
from knowledge.model.views import Item
from knowledge.pipeline.sources.children import Skipped, key_of

__all__ = ["Known", "OpenFolder", "OpenFolders"]


@dataclass(slots=True, eq=False)
class OpenFolder:
    """One folder. `id` and `path` are empty until it has a row."""

    relative: str
    type: ItemType
    data: Mapping[str, object]
    above: "OpenFolder | None"
    id: ItemId | None = None
    path: str | None = None  #: below raw/
    known: dict[tuple[ItemType, str], Known] = field(default_factory=dict)  #: by type and key
    by_source: dict[str, list[Known]] = field(default_factory=dict)  #: `known`, by source
    seen: set[ItemId] = field(default_factory=set)
    is_kept: bool = False  #: something in it is there, or may be
    is_unlisted: bool = False  #: not all of it could be looked at
    was_mount: bool = False  #: as its row says
    is_lost: bool = False  #: nothing is mounted on it any more
    mount_points: dict[str, ItemId] = field(default_factory=dict)  #: known in it and not spoken of, by relative path
    gone_before: int = 0  #: how much was gone when it was entered
    _is_deleted: bool = False

    def saw(self, known: Known) -> None:
        self.seen.add(known.id)
        self.is_kept = True

    @property
    def is_mount(self) -> bool:
        return bool(self.data.get(DataKey.MOUNT))

    @property
    def is_deleted(self) -> bool:
        """Whether somebody deleted it, or a folder above: then it gets no more children."""
        folder: OpenFolder | None = self
        while folder is not None:
            if folder._is_deleted:
                return True
            folder = folder.above
        return False

    def place(self, claims: Claims, item_id: ItemId, name: str, *, directory: bool = False) -> str:
        """A stored path in this folder for an entry that is new in it."""
        assert self.path is not None
        return claims.claim(item_id, safe_name(name), folder=self.path, directory=directory)


class OpenFolders:
    """From the container that is expanded down to where the scan is.

    Args:
        root: the container; its own row and prefix are there.
        may_be_empty: what is not found has vanished, mount point or not.
    """

    def __init__(self, db: Database, root: Item, *, may_be_empty: bool = False) -> None:
        self._db, self._base_id, self._may_be_empty = db, root.base_id, may_be_empty
        self._source = root.source
        self._root = self._loaded(OpenFolder("", root.type, root.data, None, root.id, root.relative_path))
        self._open = {"": self._root}
        self.gone: list[ItemId] = []
        self.unmounted: list[str] = []  #: relative paths of folders
        self.mounts: dict[ItemId, bool] = {}  #: of folders whose row says something else

    def enter(
        self, relative: str, type_: ItemType = ItemType.DIRECTORY, data: Mapping[str, object] | None = None
    ) -> OpenFolder:
        """The folder, opened together with those above it if it is not yet.

        Args:
            type_: of a folder that is opened now.
            data: to be kept on its row, if it gets one; may come after the folder was opened for what was left out of it.
        """
        if (found := self._open.get(relative)) is not None:
            found.data = found.data or data or {}
            return found
        closed = []  # from here up to the first that is open; a path may have more parts than Python has frames
        above, place = None, relative
        while above is None:
            closed.append(place)
            place = place.rpartition("/")[0]
            above = self._open.get(place)
        for inner in reversed(closed[1:]):
            above = self._entered(inner, ItemType.DIRECTORY, {}, above)
        return self._entered(relative, type_, data or {}, above)

    def _entered(self, relative: str, type_: ItemType, data: Mapping[str, object], above: OpenFolder) -> OpenFolder:
        folder = OpenFolder(relative, type_, data, above, gone_before=len(self.gone))
        known = above.known.get((type_, key_of(f"{self._source}/{relative}", folder.data)))
        if known is not None:
            folder.id, folder.path, folder.was_mount = known.id, known.path, bool(known.data.get(DataKey.MOUNT))
            above.seen.add(known.id)
            folder._is_deleted = known.status is ItemStatus.DELETING
            self._loaded(folder)
        self._open[relative] = folder
        return folder

    def leave(self, relative: str) -> None:
        """This folder, and whatever is open below it, is done with."""
        below = f"{relative}/"
        for one in sorted((name for name in self._open if name == relative or name.startswith(below)), key=len, reverse=True):
            self._close(self._open.pop(one))

    def leave_all(self) -> bool:
        """Whether anything of the container is there, or may be."""
        for one in sorted(self._open, key=len, reverse=True):
            self._close(self._open[one])
        self._open.clear()
        return self._root.is_kept

    def left_out(self, entry: Skipped) -> None:
        """What was not taken: it may be there all the same, or hide what nobody could look at."""
        if not entry.relative:
            self._root.is_unlisted = True
            return
        self.said(entry.relative)
        if entry.reason not in STILL_THERE:
            return
        source = entry.source or f"{self._source}/{entry.relative}"
        above = self.enter(entry.relative.rpartition("/")[0])
        for known in above.by_source.get(source, ()):
            is_still_there = known.type not in CONTAINERS or entry.reason is SkipReason.UNREADABLE
            if is_still_there and known.status is not ItemStatus.DELETING:
                above.saw(known)

    def said(self, relative: str) -> None:
        """Something else lies there now, or is to be left out: no disk is missing."""
        above = self._open.get(relative.rpartition("/")[0])
        if above is not None:
            above.mount_points.pop(relative, None)

    def find_deleted(self, tx: Tx, folders: Iterable[OpenFolder]) -> None:
        """Note which of these folders, and of those above them, were deleted since they were entered."""
        chains: dict[ItemId, OpenFolder] = {}
        for folder in folders:
            step: OpenFolder | None = folder
            while step is not None:
                if step.id is not None:
                    chains[step.id] = step
                step = step.above
        visible = items.visible(tx, self._base_id, chains.keys())
        for item_id, folder in chains.items():
            folder._is_deleted |= item_id not in visible

    def _loaded(self, folder: OpenFolder) -> OpenFolder:
        assert folder.id is not None
        with self._db.read() as tx:
            for known in items.children(tx, self._base_id, folder.id):
                folder.known[known.type, key_of(known.source, known.data)] = known
                folder.by_source.setdefault(known.source, []).append(known)
                if known.data.get(DataKey.MOUNT):
                    folder.mount_points[known.source.removeprefix(f"{self._source}/")] = known.id
        return folder

    def _close(self, folder: OpenFolder) -> None:
        unseen = [
            known for known in folder.known.values() if known.id not in folder.seen and known.status is not ItemStatus.DELETING
        ]
        if not self._may_be_empty:
            unseen = self._without_lost_disks(folder, unseen)
        if folder.id is not None and not folder.is_lost and folder.was_mount is not folder.is_mount:
            self.mounts[folder.id] = folder.is_mount
        if self._is_unlisted(folder):
            folder.is_kept |= bool(unseen)
        else:
            self.gone += [known.id for known in unseen]
        if folder.above is None:
            return
        if folder.is_kept:
            folder.above.is_kept = True
        elif folder.id is not None and not folder._is_deleted:
            self.gone.append(folder.id)

    def _without_lost_disks(self, folder: OpenFolder, unseen: list[Known]) -> list[Known]:
        """What was not seen, and not because a disk is missing: that of this folder, or that of a mount point in it."""
        if folder.was_mount and not folder.is_mount and not folder.is_kept and folder.known:
            del self.gone[folder.gone_before :]  # whatever it holds: folders that were made beforehand, and nothing else
            self.unmounted.append(folder.relative)
            folder.is_lost = folder.is_kept = True
            return []
        missing = {item_id: relative for relative, item_id in folder.mount_points.items()}
        lost = {known.id for known in unseen if known.id in missing}
        self.unmounted += [missing[item_id] for item_id in lost]
        folder.is_kept |= bool(lost)
        return [known for known in unseen if known.id not in lost]

    def _is_unlisted(self, folder: OpenFolder) -> bool:
        step: OpenFolder | None = folder
        while step is not None:
            if step.is_unlisted:
                return True
            step = step.above
        return False
