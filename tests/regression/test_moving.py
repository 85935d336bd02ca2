"""A folder that is moved, unmounted or replaced while its directory is expanded: nothing is removed, and the directory says so.

Found by an attacker: `mv` during a reindex, an `item watch` or an add lost most of a directory, and told nobody.
"""

import shutil
from contextlib import closing

import pytest

from knowledge.errors import SourcesMissing
from knowledge.ingestion import prepare
from knowledge.model.jobs import JobStatus
from knowledge.model.status import ItemStatus, ItemType, Notice
from knowledge.pipeline.sources.directory import DirectoryChildren
from tests.archives import written, zipped
from tests.regression.faults import hooked

ENTRIES = 7  #: of a scan of `docs`: three files, and two folders on its way in and out


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch):
    """What comes before the move is committed, as it is in a large directory."""
    monkeypatch.setattr(prepare, "BATCH", 1)


@pytest.fixture
def moving(monkeypatch):
    """`moving(after, change)`: once, when so many entries of a scan were taken, the change is made."""
    scan = DirectoryChildren.scan

    def moving(after, change):
        changes = [change]

        def scan_and_change(children, checkpoint):
            with closing(scan(children, checkpoint)) as entries:
                for count in range(ENTRIES + 1):
                    if count == after and changes:
                        changes.pop()()
                    if (entry := next(entries, None)) is None:
                        return
                    yield entry
                yield from entries

        monkeypatch.setattr(DirectoryChildren, "scan", scan_and_change)

    return moving


def away(folder):
    return folder.rename(folder.with_name("away"))


def emptied(folder):
    away(folder)
    folder.mkdir()


def copied(folder):
    shutil.copytree(away(folder), folder)


def _put_back(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.with_name("away").rename(folder)


def _rows(house, root):
    return {item.relative_path: (item.id, item.status) for item in house.items(root.base_id) if item.id != root.id}


def _texts(house, base):
    return {hit.text.split()[1] for hit in house.service.search(base.id, "lighthouse signal keeper", limit=9).hits}


@pytest.mark.parametrize("options", [{}, {"only_changed": True, "allow_empty": True}], ids=["all", "changed, may be empty"])
@pytest.mark.parametrize("after", range(1, ENTRIES + 1))
@pytest.mark.parametrize(
    ("change", "error"),
    [(away, "path_not_found"), (emptied, "sources_unverifiable"), (copied, "sources_unverifiable")],
)
def test_directory_that_moves_keeps_all_it_has(house, base, root, docs, moving, options, after, change, error):
    """Whenever it moves; it fails, its files stay searchable, and it is whole again when the folder is back."""
    before = _rows(house, root)
    house.service.reindex_items(base.id, [root.id], **options)
    moving(after, lambda: change(docs))
    house.work(hurry=True)
    state = house.item(root)

    assert (ItemStatus.FAILED, error) == (state.status, state.error)
    assert before == _rows(house, root)
    assert {"lighthouse", "fog", "keeper"} == _texts(house, base)
    assert 0 == house.staged(base)
    _put_back(docs)
    house.service.reindex_items(base.id, [root.id], **options)
    house.work(hurry=True)
    assert ItemStatus.COMPLETED is house.item(root).status
    assert before == _rows(house, root)


@pytest.mark.parametrize("after", range(1, ENTRIES + 1))
@pytest.mark.parametrize("change", [away, emptied, copied])
def test_directory_that_moves_while_it_is_added_is_not_completed(house, base, docs, moving, after, change):
    """What was taken stays; it tells that it is not whole, and one reindex makes it whole."""
    (root,) = house.add(base, docs)
    moving(after, lambda: change(docs))
    house.work(hurry=True)
    state = house.item(root)
    taken = {item.id for item in house.items(base) if item.type is ItemType.FILE}

    assert ItemStatus.FAILED is state.status
    assert state.error in {"path_not_found", "sources_unverifiable"}
    _put_back(docs)
    house.service.reindex_items(base.id, [root.id])
    house.work(hurry=True)
    assert {ItemStatus.COMPLETED} == {item.status for item in house.items(base)}
    assert ["docs/a.md", "docs/inner/b.md", "docs/inner/deep/c.md"] == house.raw(base)
    assert taken <= {item.id for item in house.items(base)}


@pytest.mark.parametrize("options", [{}, {"only_changed": True}], ids=["all", "changed"])
@pytest.mark.parametrize("after", range(1, 6))
@pytest.mark.parametrize("change", [away, emptied, copied, shutil.rmtree])
def test_folder_inside_that_moves_keeps_all_it_has(house, base, root, docs, moving, options, after, change):
    """From the moment it is gone into until it is left; the rest is synchronised, and the next reindex sees what it is now."""
    before = _rows(house, root)
    (docs / "new.md").write_text("The new rock.")
    (docs / "a.md").unlink()
    moving(after, lambda: change(docs / "inner"))
    house.service.reindex_items(base.id, [root.id], **options)
    house.work(hurry=True)
    now, state = _rows(house, root), house.item(root)

    assert (ItemStatus.COMPLETED, (Notice.FILES_SKIPPED,)) == (state.status, state.notices)
    assert {"path": "inner", "reason": "unreadable"} in state.data["skipped"]["sample"]
    assert {path: row for path, row in before.items() if path != "docs/a.md"}.items() <= now.items()
    assert "docs/a.md" not in now
    assert {"fog", "keeper"} <= _texts(house, base)


def test_listed_file_that_cannot_be_copied_keeps_its_row(house, base, root, docs, moving):
    """Its folder was away for the moment of the copy: nobody can say that the file has vanished, and the rest goes on."""
    before = _rows(house, root)
    house.service.reindex_items(base.id, [root.id])
    house.deliver(house.sender.waiting.popleft())

    def stage_file(_base_id, source, *_):
        if source.name == "a.md":
            away(docs)

    moving(1, lambda: _put_back(docs))
    with hooked(house, files={"stage_file": stage_file}):
        house.deliver(house.sender.waiting.popleft())
    house.work(hurry=True)
    state = house.item(root)

    assert (ItemStatus.COMPLETED, {"path_not_found": 1}) == (state.status, state.data["skipped"]["reasons"])
    assert before == _rows(house, root)
    assert {"lighthouse", "fog", "keeper"} == _texts(house, base)


def test_archive_that_is_swapped_while_it_is_read_keeps_its_members(house, base, docs, monkeypatch):
    """It is not the file any more that was begun; its size and time may be the same."""
    place = docs / "z.zip"
    written(place, zipped({"x.md": "the first member", "y.md": "the second member"}))
    (root,) = house.add(base, docs)
    house.work()
    before = _rows(house, root)
    take = prepare._Expansion._take

    def swap(expansion, entry):
        take(expansion, entry)
        if entry.relative == "z.zip/x.md":
            away(place)
            place.write_bytes(place.with_name("away").read_bytes())

    monkeypatch.setattr(prepare._Expansion, "_take", swap)
    house.service.reindex_items(base.id, [root.id])
    house.work(hurry=True)

    assert {path: row[0] for path, row in before.items()} == {
        path: row[0] for path, row in _rows(house, root).items() if path in before
    }
    assert "path_unreadable" in {item.error for item in house.items(base) if item.type is ItemType.ARCHIVE}


def test_watched_directory_that_moves_is_looked_at_again_when_it_is_back(house, base, root, docs, moving):
    """What the watch asks for while it is away is refused; nothing is removed meanwhile."""
    before = _rows(house, root)
    moving(3, lambda: away(docs))
    house.service.reindex_items(base.id, [root.id], only_changed=True)
    house.work(hurry=True)

    with pytest.raises(SourcesMissing):
        house.service.reindex_items(base.id, [root.id], only_changed=True)
    assert before == _rows(house, root)
    _put_back(docs)
    house.service.reindex_items(base.id, [root.id], only_changed=True)
    house.work(hurry=True)
    assert (ItemStatus.COMPLETED, before) == (house.item(root).status, _rows(house, root))
    assert [] == house.jobs(JobStatus.PENDING, JobStatus.RUNNING)
