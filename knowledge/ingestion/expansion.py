"""Which source of children belongs to a container; see `pipeline.sources.children` for how to add a kind."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import IO

from knowledge.catalog import tree
from knowledge.errors import InvalidOperation, PathNotFound, PathUnreadable
from knowledge.files.reach import Reach
from knowledge.ingestion import origin, readable
from knowledge.model.documents import Checkpoint
from knowledge.model.item_data import DataKey
from knowledge.model.status import ItemType
from knowledge.model.views import Item
from knowledge.pipeline.sources import archive
from knowledge.pipeline.sources.archive import ArchiveChildren
from knowledge.pipeline.sources.children import Child, Children, Entry, Pinned, key_of
from knowledge.pipeline.sources.directory import Accepts, DirectoryChildren, shown
from knowledge.pipeline.sources.ignore import Selection
from knowledge.pipeline.sources.sitemap import SitemapChildren
from knowledge.runtime import Runtime


def children_of(rt: Runtime, root: Item, checkpoint: Checkpoint, reach: Reach) -> Children:
    """What to ask for the children of this container.

    Args:
        reach: within which folders and archives are looked into.

    Raises:
        InvalidOperation: nothing is known that lists containers of this type.
        PathUnreadable: the archive has become Knowledge's own file.
    """
    selection, above = _selection(rt, root)
    accepts = readable.accepts(rt, root.base_id)
    if (place := archive.member_of(root.data)) is not None:
        path, member = place
        return _archive(rt, accepts, path, root.source, member, selection, reach)
    match root.type:
        case ItemType.DIRECTORY:
            pinned = _pinned(rt, reach)

            def inside(child: Child) -> Iterator[Entry] | None:
                return archive.inside(child, accepts, selection, checkpoint, pinned)

            folder = origin.path_of(root)
            return DirectoryChildren(folder, accepts, rt.files.holds, selection, inside, above, reach.open, pinned)
        case ItemType.ARCHIVE:
            return _archive(rt, accepts, origin.path_of(root), root.source, "", selection, reach)
        case ItemType.SITEMAP:
            return SitemapChildren(root.source, rt.web)
        case _:
            raise InvalidOperation(f"A {root.type} cannot be expanded here.", item_id=root.id)


@contextmanager
def opened_member(rt: Runtime, item: Item, checkpoint: Checkpoint, reach: Reach) -> Iterator[IO[bytes]]:
    """The bytes of a file that came out of an archive, from the archive again.

    Raises:
        PathNotFound: the archive, or the file in it, is gone.
        PathUnreadable, PathNotAllowed, SourceFault: the archive cannot be read.
    """
    place = archive.member_of(item.data)
    assert place is not None
    path, member = place
    folder, _, name = member.rpartition("/")
    source = item.source.removesuffix(f"/{name}")
    wanted = key_of(item.source, item.data)
    accepts = readable.accepts(rt, item.base_id)
    with closing(_archive(rt, accepts, path, source, folder, Selection(), reach).scan(checkpoint)) as entries:
        found = next((one for one in entries if isinstance(one, Child) and one.key == wanted), None)
        if found is None or not callable(found.content):
            raise PathNotFound(path=item.source)
        opened: AbstractContextManager[IO[bytes]] = found.content()
        with opened as stream:
            yield stream


def _archive(
    rt: Runtime, accepts: Accepts, path: Path, source: str, place: str, selection: Selection, reach: Reach
) -> Children:
    if rt.files.holds(path):  # it became a link into the data directory
        raise PathUnreadable(path=shown(str(path)), reason="it belongs to Knowledge itself")
    return ArchiveChildren(path, source, accepts, place, "", selection, _pinned(rt, reach))


def _pinned(rt: Runtime, reach: Reach) -> Pinned:
    return partial(reach.pinned, is_own=rt.files.holds)


def _selection(rt: Runtime, root: Item) -> tuple[Selection, str]:
    """What the person wants of the tree that this container is a part of, and where in that tree it lies."""
    with rt.db.read() as tx:
        top = tree.top(tx, root)
    inside = root.source.removeprefix(top.source).strip("/")
    above = f"{inside}/" if inside else ""
    return Selection(patterns(top, DataKey.INCLUDE), patterns(top, DataKey.EXCLUDE), above), above


def patterns(item: Item, which: DataKey) -> list[str]:
    """The patterns that a directory was added with."""
    kept = item.data.get(which)
    return [one for one in kept if isinstance(one, str)] if isinstance(kept, list) else []
