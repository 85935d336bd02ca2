"""A disk below a directory that is not mounted when the directory is looked at again: what lies on it has not vanished.

A mount point without its disk is an empty folder, or none at all where it is made for each mount.
"""

import shutil

import pytest

from knowledge.model.status import ItemStatus, Notice
from tests.mounts import lay_over, take_away

ALL = {"lighthouse", "fog", "keeper"}


@pytest.fixture
def disk(docs):
    """docs/inner, with what it holds, on a file system of its own."""
    inner = docs / "inner"
    away = inner.rename(docs.parent / "away")
    inner.mkdir()
    lay_over(inner)
    shutil.copytree(away, inner, dirs_exist_ok=True)
    yield inner
    take_away(inner)


@pytest.fixture
def root(house, base, docs, disk):
    """Indexed with the disk in its place."""
    (root,) = house.add(base, docs)
    house.work()
    return house.item(root)


def emptied(disk):
    take_away(disk)


def removed(disk):
    take_away(disk)
    disk.rmdir()


def reindex(house, root, **options):
    house.service.reindex_items(root.base_id, [root.id], **options)
    house.work(hurry=True)
    return house.item(root)


def rows(house, root):
    return {item.relative_path: item.id for item in house.items(root.base_id) if item.id != root.id}


def texts(house, base):
    return {hit.text.split()[1] for hit in house.service.search(base.id, "lighthouse signal keeper", limit=9).hits}


@pytest.mark.parametrize("options", [{}, {"only_changed": True}], ids=["all", "changed"])
@pytest.mark.parametrize("change", [emptied, removed])
def test_what_lies_on_it_is_kept_and_the_rest_is_synchronised(house, base, docs, root, disk, change, options):
    """However often it is looked at; the directory tells which folder it could not look into."""
    before = rows(house, root)
    change(disk)
    (docs / "new.md").write_text("The new rock.")
    states = [reindex(house, root, **options) for _ in range(2)]

    for state in states:
        assert (ItemStatus.COMPLETED, (Notice.FILES_SKIPPED,)) == (state.status, state.notices)
        assert [{"path": "inner", "reason": "unmounted"}] == state.data["skipped"]["sample"]
    assert before.items() <= rows(house, root).items()
    assert "docs/new.md" in rows(house, root)
    assert ALL <= texts(house, base)


@pytest.mark.parametrize("change", [emptied, removed])
def test_it_is_followed_again_when_it_is_back(house, base, docs, root, disk, change):
    """With the rows it had; what has vanished from it meanwhile goes."""
    before = rows(house, root)
    change(disk)
    reindex(house, root)
    disk.mkdir(exist_ok=True)
    lay_over(disk)
    (disk / "b.md").write_text("The fog signal sounds every minute.")
    state = reindex(house, root)

    assert (ItemStatus.COMPLETED, ()) == (state.status, state.notices)
    assert {path: before[path] for path in ("docs/a.md", "docs/inner", "docs/inner/b.md")} == rows(house, root)
    assert ["docs/a.md", "docs/inner/b.md"] == house.raw(base)


def test_disk_that_was_emptied_is_empty(house, base, docs, root, disk):
    """It is there, and holds nothing: what lay on it has vanished."""
    for entry in list(disk.iterdir()):
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    reindex(house, root)

    assert ["docs/a.md"] == house.raw(base)


@pytest.mark.parametrize("change", [emptied, removed])
def test_whoever_says_that_it_may_be_empty_has_it_removed(house, base, docs, root, disk, change):
    """The disk is gone for good."""
    change(disk)
    state = reindex(house, root, allow_empty=True)

    assert (ItemStatus.COMPLETED, ()) == (state.status, state.notices)
    assert ["docs/a.md"] == house.raw(base)
    assert {"lighthouse"} == texts(house, base)


def test_plain_folder_in_its_place_is_a_plain_folder(house, base, docs, root, disk):
    """Its files were copied beside the disk: from now on it is followed like any other, emptied or not."""
    take_away(disk)
    (disk / "b.md").write_text("The fog signal sounds every minute.")
    reindex(house, root)
    kept = house.raw(base)
    (disk / "b.md").unlink()
    reindex(house, root)

    assert ["docs/a.md", "docs/inner/b.md"] == kept
    assert ["docs/a.md"] == house.raw(base)


def test_disk_that_is_laid_over_a_known_folder_is_kept_as_well(house, base, tmp_path):
    """It was a plain folder when the directory was added."""
    docs = tmp_path / "shelf"
    (docs / "inner").mkdir(parents=True)
    (docs / "a.md").write_text("The lighthouse stands on the northern rock.")
    (docs / "inner" / "b.md").write_text("The fog signal sounds every ninety seconds.")
    (root,) = house.add(base, docs)
    house.work()
    lay_over(docs / "inner")
    try:
        (docs / "inner" / "b.md").write_text("The fog signal sounds every minute.")
        reindex(house, root)
    finally:
        take_away(docs / "inner")
    (docs / "inner" / "b.md").unlink()
    reindex(house, root)

    assert ["shelf/a.md", "shelf/inner/b.md"] == house.raw(base)


def ignored(disk):
    (disk.parent / ".knowledgeignore").write_text("inner/\n")


def linked(disk):
    take_away(disk)
    disk.rmdir()
    disk.symlink_to(disk.parent.parent)


def replaced(disk):
    take_away(disk)
    disk.rmdir()
    disk.write_text("The lamp stood on the shelf.")


@pytest.mark.parametrize("change", [ignored, linked, replaced])
def test_what_somebody_has_put_out_or_replaced_is_removed(house, base, docs, root, disk, change):
    """It is not missing: the folder says what is to become of it. A private disk must not be found any more."""
    change(disk)
    state = reindex(house, root)

    assert ItemStatus.COMPLETED is state.status
    assert not {"fog", "keeper"} & texts(house, base)
    assert "unmounted" not in state.data.get("skipped", {}).get("reasons", {})
    assert not [path for path in house.raw(base) if path.startswith("docs/inner/")]


@pytest.mark.parametrize("only_below", [False, True], ids=["files on top", "files below only"])
def test_folders_that_were_made_beforehand_are_empty_too(house, base, docs, root, disk, only_below):
    """Services make the folders of a share at boot, before, or without, the disk."""
    if only_below:
        (disk / "b.md").unlink()
        reindex(house, root)
    before = rows(house, root)
    take_away(disk)
    (disk / "deep").mkdir()
    state = reindex(house, root)

    assert [{"path": "inner", "reason": "unmounted"}] == state.data["skipped"]["sample"]
    assert before == rows(house, root)
    assert "keeper" in texts(house, base)
    assert ItemStatus.COMPLETED is state.status
