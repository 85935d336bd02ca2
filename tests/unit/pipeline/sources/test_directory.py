"""What a directory import takes, in which order, and what it says about the rest."""

import errno
import os
import socket
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import pytest

from knowledge.errors import CancelRequested, PathNotFound, PathUnreadable
from knowledge.model.skip_reason import SkipReason
from knowledge.model.status import ItemType
from knowledge.pipeline.sources import directory
from knowledge.pipeline.sources.children import Child, Skipped
from knowledge.pipeline.sources.directory import DirectoryChildren


def take_all(name, path):
    return None


def found(root, accepts=take_all, checkpoint=lambda: None):
    return list(DirectoryChildren(root, accepts).scan(checkpoint))


def relatives(entries):
    return [entry.relative for entry in entries if isinstance(entry, Child)]


def skipped(entries):
    return {entry.relative: entry.reason for entry in entries if isinstance(entry, Skipped)}


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    for path in ("b.md", "a/z.md", "a/b/c.md", "c/d.md", "A.md"):
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("words")
    return root


def test_files_come_sorted_and_depth_first(tree):
    """Two scans of one tree agree."""
    assert ["A.md", "a/b/c.md", "a/z.md", "b.md", "c/d.md"] == relatives(found(tree))


def test_entry_has_absolute_path_and_size(tree):
    """What the copy needs."""
    first = found(tree)[0]
    state = (tree / "A.md").stat()

    assert Child(ItemType.FILE, "A.md", str(tree / "A.md"), tree / "A.md", 5, f"5:{state.st_mtime_ns}") == first


def test_each_kind_of_entry_is_skipped_with_its_reason(tree, tmp_path):
    """Nothing is left out silently, and nothing after it is lost."""
    (tree / ".hidden").write_text("x")
    (tree / ".git").mkdir()
    (tree / ".git" / "config").write_text("x")
    (tree / "a" / "dangling").symlink_to("missing")
    (tree / "a" / "loop").symlink_to("..")
    os.mkfifo(tree / "pipe.md")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tree / "s.sock"))
    (tree / "none.md").touch()
    (tree / "x.bin").write_text("x")

    entries = found(tree, lambda name, path: SkipReason.UNSUPPORTED if name.endswith(".bin") else None)

    assert {
        ".hidden": SkipReason.HIDDEN,
        ".git": SkipReason.HIDDEN,
        "a/dangling": SkipReason.DANGLING,
        "a/loop": SkipReason.SYMLINK,
        "pipe.md": SkipReason.SPECIAL,
        "s.sock": SkipReason.SPECIAL,
        "none.md": SkipReason.EMPTY,
        "x.bin": SkipReason.UNSUPPORTED,
    } == skipped(entries)
    assert ["A.md", "a/b/c.md", "a/z.md", "b.md", "c/d.md"] == relatives(entries)


def test_unlistable_folder_is_reported_and_the_rest_goes_on(tree):
    """One folder without rights costs its own files only."""

    def opens(path, flags):
        if path.name == "a":
            raise PermissionError(errno.EACCES, "denied")
        return os.open(path, flags)

    entries = list(DirectoryChildren(tree, take_all, opens=opens).scan(lambda: None))

    assert Skipped("a", SkipReason.UNREADABLE, is_directory=True) in entries
    assert ["A.md", "b.md", "c/d.md"] == relatives(entries)


def test_file_that_cannot_be_looked_into_is_reported(tree):
    """A file whose bytes are refused is skipped, not fatal."""

    def accepts(name, path):
        if name == "z.md":
            raise PermissionError(errno.EACCES, "denied")

    assert {"a/z.md": SkipReason.UNREADABLE} == skipped(found(tree, accepts))


def test_what_vanishes_during_the_scan_is_left_out(tree):
    """A file or folder removed after its folder was listed is no error."""
    seen = []
    for entry in DirectoryChildren(tree, take_all).scan(lambda: None):
        if isinstance(entry, Child):
            seen.append(entry.relative)
        if entry.relative == "A.md":
            (tree / "b.md").unlink()
            (tree / "c" / "d.md").unlink()
            (tree / "c").rmdir()

    assert ["A.md", "a/b/c.md", "a/z.md"] == seen


def test_name_that_is_not_utf8_is_shown_and_can_be_opened(tree):
    """The path opens the file; the relative path can be stored."""
    Path(os.fsdecode(os.fsencode(tree) + b"/caf\xe9.txt")).write_bytes(b"x")

    entry = next(entry for entry in found(tree) if entry.relative.startswith("caf"))

    assert "caf\ufffd.txt" == entry.relative
    assert b"x" == entry.content.read_bytes()


@pytest.mark.parametrize("name", ["two\nlines.md", "🧑‍🚀.md", "長" * 84 + ".md", "C# notes.md", "back\\slash.md"])
def test_unusual_names_come_through(tree, name):
    """Any name that the disk allows is found."""
    (tree / name).write_text("x")

    assert name in relatives(found(tree))


def test_absent_root_is_not_found(tmp_path):
    """A root that does not exist, or is a file, is the caller's mistake."""
    (tmp_path / "file").write_text("x")

    for root in (tmp_path / "absent", tmp_path / "file"):
        with pytest.raises(PathNotFound):
            found(root)


def test_unlistable_root_is_unreadable(tmp_path, monkeypatch):
    """Without rights on the root nothing is known about it."""

    def scandir(path):
        raise PermissionError(errno.EACCES, "denied")

    monkeypatch.setattr(directory.os, "scandir", scandir)

    with pytest.raises(PathUnreadable):
        found(tmp_path)


def test_checkpoint_is_called_for_each_entry_and_stops_the_scan(tree):
    """A cancelled job stops at the next entry."""
    calls = []

    def checkpoint():
        calls.append(None)
        if len(calls) == 4:
            raise CancelRequested

    seen = []
    with pytest.raises(CancelRequested):
        seen.extend(DirectoryChildren(tree, take_all).scan(checkpoint))

    assert ["A.md"] == relatives(seen)


def test_deep_tree_needs_no_recursion(tmp_path):
    """A path of 900 folders is walked like a short one."""
    with chdir(tmp_path):
        for _ in range(900):
            Path("d").mkdir()
            os.chdir("d")
        Path("end.md").write_text("x")

    assert ["d/" * 900 + "end.md"] == relatives(found(tmp_path))


MEASURED = """
import sys
import tracemalloc
from pathlib import Path
from knowledge.pipeline.sources.children import Child
from knowledge.pipeline.sources.directory import DirectoryChildren

def count_all():
    entries = DirectoryChildren(Path(sys.argv[1]), lambda name, path: None).scan(lambda: None)
    return sum(isinstance(entry, Child) for entry in entries)

count_all()  # grows the interpreter's own tables, once
tracemalloc.start()
count = count_all()
print(count, tracemalloc.get_traced_memory()[1])
"""


def test_memory_does_not_grow_with_the_tree(tmp_path):
    """Only the listings of the open folders are held; measured in a process of its own, where nothing else allocates."""
    for number in range(40):
        folder = tmp_path / f"{number:02}"
        folder.mkdir()
        for file in range(50):
            (folder / f"{file:02}.md").write_text("x")

    told = subprocess.run([sys.executable, "-c", MEASURED, tmp_path], stdout=subprocess.PIPE, text=True, check=True).stdout
    count, peak = (int(number) for number in told.split())

    assert 2000 == count
    assert peak < 200_000
