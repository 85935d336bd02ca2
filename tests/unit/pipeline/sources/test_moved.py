"""A folder that is moved away, unmounted or replaced while it is scanned: nothing in it has vanished, and that is told.

Found by an attacker: a `mv` during a reindex deleted three quarters of a directory, which was `completed`.
"""

import errno
import os
import shutil
from pathlib import Path

import pytest

from knowledge.errors import PathNotAllowed, PathNotFound, PathUnreadable, SourcesUnverifiable
from knowledge.files.reach import Reach
from knowledge.model.skip_reason import SkipReason
from knowledge.pipeline.sources.children import Child, Folder, Left, Partial, Skipped
from knowledge.pipeline.sources.directory import DirectoryChildren
from tests.mounts import lay_over, take_away

FILES = ["a/b/c.md", "a/z.md", "b.md", "c/d.md"]
ENTRIES = 10  #: of a scan: each of those files, and each of the three folders on its way in and out
OTHER = (SourcesUnverifiable,)
GONE = (PathNotFound,)


def take_all(_name, _path):
    return None


def opening(name, path):
    """As for a file that is judged by its bytes."""
    path.read_bytes()


@pytest.fixture
def tree(tmp_path):
    """above/tree/…"""
    root = tmp_path / "above" / "tree"
    for path in FILES:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("words")
    return root


@pytest.fixture
def mount():
    """Lay an empty file system over a folder; not where that is not allowed."""
    mounted = []

    def mount(folder):
        lay_over(folder)
        mounted.append(folder)

    yield mount
    for folder in mounted:
        take_away(folder)


def scanned(children, after, change):
    """All entries; when `after` of them have come, the change is made."""
    entries = []
    for entry in children.scan(lambda: None):
        entries.append(entry)
        if len(entries) == after:
            change()
    return entries


def away(folder):
    return folder.rename(folder.with_name("away"))


def swapped(folder, *, copy):
    moved = away(folder)
    shutil.copytree(moved, folder) if copy else folder.mkdir()


def on_a_disk_of_its_own(folder, mount):
    """The mount point below is empty."""
    kept = away(folder)
    folder.mkdir()
    mount(folder)
    shutil.copytree(kept, folder, dirs_exist_ok=True)
    shutil.rmtree(kept)


@pytest.mark.parametrize("accepts", [take_all, opening])
@pytest.mark.parametrize("after", range(1, ENTRIES + 1))
@pytest.mark.parametrize(
    ("change", "errors"),
    [
        (away, GONE),
        (lambda root: away(root.parent), GONE),
        (lambda root: swapped(root, copy=False), OTHER),
        (lambda root: swapped(root, copy=True), OTHER),
        (lambda root: swapped(root.parent, copy=False), GONE),
        (lambda root: away(root).with_name("tree").write_text("a file"), GONE),
        (lambda root: root.symlink_to(away(root).parent), OTHER),
    ],
    ids=["moved", "moved with what is above", "empty one", "copy", "above emptied", "now a file", "now a link"],
)
def test_root_that_moves_fails_the_scan(tree, accepts, after, change, errors):
    """Whenever it moves, and whatever lies in its place then."""
    with pytest.raises(errors):
        scanned(DirectoryChildren(tree, accepts), after, lambda: change(tree))


@pytest.mark.parametrize("after", range(1, ENTRIES + 1))
@pytest.mark.parametrize("is_confined", [True, False])
def test_link_that_is_led_elsewhere_fails_the_scan(tree, tmp_path, after, is_confined):
    """A root may be a link, such as the latest of several copies."""
    shutil.copytree(tree, tree.with_name("other"))
    link = tmp_path / "latest"
    link.symlink_to(tree)

    def retarget():
        link.unlink()
        link.symlink_to(tree.with_name("other"))

    reach = Reach((tmp_path.resolve(),) if is_confined else None)
    with pytest.raises(OTHER):
        scanned(DirectoryChildren(link, take_all, opens=reach.open, pinned=reach.pinned), after, retarget)


@pytest.mark.parametrize("after", range(1, ENTRIES + 1))
def test_link_that_is_led_out_of_reach_fails_the_scan(tree, tmp_path, after):
    """What it led to cannot be looked at any more; the files have not become links."""
    link = tmp_path / "latest"
    link.symlink_to(tree)
    (tmp_path / "secret").mkdir()

    def retarget():
        link.unlink()
        link.symlink_to(tmp_path / "secret")

    reach = Reach((tree.resolve(),))
    with pytest.raises(PathNotAllowed):
        scanned(DirectoryChildren(link, take_all, opens=reach.open, pinned=reach.pinned), after, retarget)


@pytest.mark.parametrize("after", range(1, ENTRIES + 1))
@pytest.mark.parametrize("how", ["unmounted", "mounted over"])
def test_root_that_is_unmounted_fails_the_scan(tree, mount, after, how):
    """The empty mount point below, or the empty disk above, is another folder."""
    if how == "unmounted":
        on_a_disk_of_its_own(tree, mount)
    change = {"unmounted": take_away, "mounted over": mount}[how]

    with pytest.raises(OTHER):
        scanned(DirectoryChildren(tree, take_all), after, lambda: change(tree))


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ENOTCONN])
@pytest.mark.parametrize("after", range(7))
def test_root_whose_disk_goes_away_fails_the_scan(tree, monkeypatch, number, after):
    """As a network drive does: from some moment on the system refuses every look."""
    look, is_gone = os.lstat, []

    def refused(*_, **__):
        raise OSError(number, os.strerror(number))

    def lstat(path, **options):
        return refused() if is_gone else look(path, **options)

    def opens(path, flags):
        return refused() if is_gone else os.open(path, flags)

    def checkpoint():
        calls.append(1)
        is_gone.extend([1] * (len(calls) > after + 1))

    calls = []
    monkeypatch.setattr(os, "lstat", lstat)
    entries = []
    with pytest.raises(PathUnreadable):
        entries.extend(DirectoryChildren(tree, take_all, opens=opens).scan(checkpoint))


def test_root_that_is_away_for_a_moment_fails_the_scan(tree):
    """What was not looked at meanwhile is not taken for vanished when it is back."""

    def opens(path, flags):
        try:
            return os.open(path, flags)
        except FileNotFoundError:
            tree.with_name("away").rename(tree)
            raise

    with pytest.raises(OTHER):
        scanned(DirectoryChildren(tree, take_all, opens=opens), 6, lambda: away(tree))
    assert tree.exists()


def test_entry_that_was_away_for_a_moment_is_not_taken_for_vanished(tree):
    """The path led nowhere, and leads to the same folder again at the next look."""

    def opens(path, flags):
        if not tree.exists():
            tree.with_name("away").rename(tree)
        return os.open(path, flags)

    entries = scanned(DirectoryChildren(tree, take_all, opens=opens), 7, lambda: away(tree))

    assert Left("a") == entries[5]
    assert isinstance(entries[6], Child), "b.md"
    assert Skipped("c", SkipReason.UNREADABLE) == entries[7]


@pytest.mark.parametrize("accepts", [take_all, opening])
@pytest.mark.parametrize("after", range(1, 6))
@pytest.mark.parametrize(
    "change",
    [
        away,
        lambda folder: away(folder).rename(folder.parent / "c" / "deeper"),
        shutil.rmtree,
        lambda folder: swapped(folder, copy=False),
        lambda folder: swapped(folder, copy=True),
        lambda folder: folder.symlink_to(away(folder)),
    ],
    ids=["moved", "moved deeper", "removed", "empty one", "copy", "now a link"],
)
def test_folder_that_moves_counts_as_not_listed(tree, accepts, after, change):
    """From its announcement to its end; the rest of the tree is scanned."""
    entries = scanned(DirectoryChildren(tree, accepts), after, lambda: change(tree / "a"))
    end = entries.index(Left("a"))

    assert [Partial("a"), Skipped("a", SkipReason.UNREADABLE, is_directory=True)] == entries[end - 2 : end]
    assert {"b.md", "c/d.md"} <= {entry.relative for entry in entries[end:] if isinstance(entry, Child)}


@pytest.mark.parametrize("after", range(1, 6))
def test_folder_that_is_unmounted_counts_as_not_listed(tree, mount, after):
    """The rest of the tree is scanned."""
    on_a_disk_of_its_own(tree / "a", mount)

    entries = scanned(DirectoryChildren(tree, take_all), after, lambda: take_away(tree / "a"))

    assert entries.index(Partial("a")) < entries.index(Left("a"))
    assert {"b.md", "c/d.md"} <= {entry.relative for entry in entries if isinstance(entry, Child)}


def test_what_is_removed_before_its_turn_has_vanished(tree):
    """Its folder is there, and it is not in it; nothing is told of it."""

    def remove():
        shutil.rmtree(tree / "c")
        (tree / "b.md").unlink()
        (tree / "a" / "z.md").unlink()

    entries = scanned(DirectoryChildren(tree, take_all), 1, remove)

    assert [Folder, Folder, Child, Left, Left] == [type(entry) for entry in entries]


def opened():
    """How many files this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize("is_whole", [True, False])
def test_no_folder_stays_open(tree, is_whole):
    """Whether the scan ends or is closed early; what was held could not be unmounted."""
    before = opened()
    scan = DirectoryChildren(tree, take_all).scan(lambda: None)
    for _ in scan if is_whole else zip(range(4), scan, strict=False):
        assert opened() <= before + 1
    scan.close()

    assert before == opened()
