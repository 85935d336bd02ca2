"""What every `RawFiles` must do. A subclass names the fixture `files`."""

import os
from itertools import islice

import pytest

from knowledge.errors import PathNotFound, PathUnreadable, SourceMissing, StorageFailed, UnsafePath
from knowledge.files.store import RawFiles, Staged

BASE = "base-1"
UNSAFE = ["", "/etc/passwd", "..", "a/../../b", "a\x00b", ".knowledge/index.sqlite"]


class RawFilesContract:
    """Subclass it and provide `files`."""

    @pytest.fixture
    def files(self) -> RawFiles:
        raise NotImplementedError

    def put(self, files: RawFiles, path: str, text: str = "words") -> None:
        files.publish(files.stage_text(BASE, text), path)

    def read(self, files: RawFiles, path: str) -> bytes:
        with files.local(BASE, path) as place:
            return place.read_bytes()

    def paths(self, files: RawFiles) -> set[str]:
        return {path for path, _ in files.listing(BASE)}

    def test_staged_file_is_not_yet_part_of_the_base(self, files, tmp_path):
        """Copying needs no lock, because nobody sees the copy."""
        source = tmp_path / "a.bin"
        source.write_bytes(b"\x00\xff" * 700_000)

        staged = files.stage_file(BASE, source)

        assert (1_400_000, set()) == (staged.size, self.paths(files))

    def test_published_file_has_the_bytes_of_its_source(self, files, tmp_path):
        """A rename puts the copy in its place, parents included."""
        source = tmp_path / "a.bin"
        source.write_bytes(b"\x00\xff" * 700_000)

        files.publish(files.stage_file(BASE, source), "deep/er/a.bin")
        files.sync(BASE, ["deep/er/a.bin"])

        assert source.read_bytes() == self.read(files, "deep/er/a.bin")
        assert [] == files.leftovers(BASE, 0)

    def test_text_is_stored_as_utf8(self, files):
        """Notes round-trip; a lone surrogate cannot be stored and becomes the replacement character."""
        self.put(files, "n.md", "長 🧑‍🚀\r\nend\ud800")

        assert "長 🧑‍🚀\r\nend\ufffd".encode() == self.read(files, "n.md")

    def test_taken_path_is_refused_unless_overwritten(self, files):
        """Publishing never loses bytes by accident."""
        self.put(files, "a.txt", "old")
        staged = files.stage_text(BASE, "new")

        with pytest.raises(StorageFailed):
            files.publish(staged, "a.txt")
        assert b"old" == self.read(files, "a.txt")

        files.publish(staged, "a.txt", overwrite=True)
        assert b"new" == self.read(files, "a.txt")

    def test_second_path_of_the_same_bytes(self, files):
        """Either stays when the other is removed; a path that is taken is refused, and so are bytes that are not there."""
        self.put(files, "deep/a.txt")
        files.link(BASE, "deep/a.txt", "b.txt")
        files.remove(BASE, ["deep/a.txt"])

        assert (b"words", {"b.txt"}) == (self.read(files, "b.txt"), self.paths(files))
        self.put(files, "c.txt", "other")
        with pytest.raises(StorageFailed):
            files.link(BASE, "b.txt", "c.txt")
        with pytest.raises(SourceMissing):
            files.link(BASE, "deep/a.txt", "d.txt")
        assert b"other" == self.read(files, "c.txt")

    @pytest.mark.parametrize("path", UNSAFE)
    def test_unsafe_path_is_refused_everywhere(self, files, path):
        """No method takes a path that leaves raw/."""
        staged = files.stage_text(BASE, "x")

        with pytest.raises(UnsafePath):
            files.publish(staged, path)
        with pytest.raises(UnsafePath):
            files.exists(BASE, path)
        with pytest.raises(UnsafePath):
            files.remove(BASE, [path])
        with pytest.raises(UnsafePath):
            files.remove(BASE, [], [path])
        with pytest.raises(UnsafePath):
            files.local(BASE, path).__enter__()
        files.publish(staged, "here.txt")
        with pytest.raises(UnsafePath):
            files.link(BASE, "here.txt", path)
        with pytest.raises(UnsafePath):
            files.link(BASE, path, "there.txt")

    @pytest.mark.parametrize("base_id", ["..", "a/b", ""])
    def test_unsafe_base_id_is_refused(self, files, base_id):
        """A base id names a folder, so it is guarded as well."""
        with pytest.raises(UnsafePath):
            files.stage_text(base_id, "x")
        with pytest.raises(UnsafePath):
            files.remove_base(base_id)

    def test_source_that_is_not_there_keeps_nothing(self, files, tmp_path):
        """A missing source is the caller's mistake and leaves no trace."""
        with pytest.raises(PathNotFound):
            files.stage_file(BASE, tmp_path / "absent")

        assert [] == files.leftovers(BASE, 0)

    @pytest.mark.parametrize("kind", ["folder", "pipe"])
    def test_source_that_is_no_plain_file_is_refused(self, files, tmp_path, kind):
        """A folder has no bytes, and a pipe would be waited for without end."""
        source = tmp_path / kind
        if kind == "folder":
            source.mkdir()
        else:
            os.mkfifo(source)

        with pytest.raises(PathUnreadable):
            files.stage_file(BASE, source)

    def test_discarded_bytes_are_gone(self, files):
        """Discarding twice, or what was published, is fine."""
        staged = files.stage_text(BASE, "x")

        files.discard([staged, staged])

        assert [] == files.leftovers(BASE, 0)

    def test_leftovers_are_old_staged_bytes(self, files):
        """The sweep sees what nobody published, not what is on its way."""
        staged = files.stage_text(BASE, "xy")

        assert [] == files.leftovers(BASE, 3600)
        assert [Staged(BASE, staged.token, 2)] == files.leftovers(BASE, 0)

    def test_empty_folders_are_found_and_removed(self, files):
        """A crash between making a folder and renaming a file into it leaves one; a folder with a file stays."""
        self.put(files, "kept/a.txt")
        self.put(files, "kept/inner/b.txt")
        self.put(files, "gone/deep/c.txt")
        files.path(BASE, "kept/inner/b.txt").unlink()
        files.path(BASE, "gone/deep/c.txt").unlink()

        empty = files.empty_folders(BASE)
        files.remove_empty(BASE, [*empty, "kept", "no such"])

        assert ["gone/deep", "kept/inner"] == sorted(empty)
        assert (True, False, False) == tuple(files.exists(BASE, path) for path in ("kept/a.txt", "kept/inner", "gone"))

    def test_absent_file_is_missing(self, files):
        """Reading what is not there has its own error."""
        with pytest.raises(SourceMissing):
            files.local(BASE, "no/such.txt").__enter__()

        assert not files.exists(BASE, "no/such.txt")

    def test_exists_sees_files_and_folders(self, files):
        """A folder takes a name as much as a file does."""
        self.put(files, "docs/a.txt")

        assert [True, True, False] == [files.exists(BASE, path) for path in ("docs", "docs/a.txt", "docs/b.txt")]

    def test_remove_takes_files_and_the_folders_they_leave_empty(self, files):
        """Neighbours and their folders stay."""
        for path in ("a/b/c.txt", "a/keep.txt", "x/y/z.txt", "top.txt"):
            self.put(files, path)

        files.remove(BASE, ["a/b/c.txt", "x/y/z.txt", "never/was.txt"])

        assert {"a/keep.txt", "top.txt"} == self.paths(files)
        assert [False, False, True] == [files.exists(BASE, path) for path in ("a/b", "x", "a")]

    def test_remove_takes_whole_trees(self, files):
        """A directory item owns everything below its prefix; doing it again is fine."""
        for path in ("docs/a.txt", "docs/deep/b.txt", "docs_1/c.txt"):
            self.put(files, path)

        for _ in range(2):
            files.remove(BASE, [], ["docs"])

        assert {"docs_1/c.txt"} == self.paths(files)

    def test_remove_base_takes_everything_of_one_base(self, files):
        """Other bases are untouched; a base that is gone is fine."""
        self.put(files, "a.txt")
        files.publish(files.stage_text("base-2", "x"), "b.txt")

        for _ in range(2):
            files.remove_base(BASE)

        assert set() == self.paths(files)
        assert files.exists("base-2", "b.txt")

    def test_listing_names_every_file_with_its_age(self, files):
        """Paths are relative to raw/ and have POSIX separators."""
        for path in ("a.txt", "b/c/d.txt"):
            self.put(files, path)

        listed = dict(islice(files.listing(BASE), 10))

        assert {"a.txt", "b/c/d.txt"} == set(listed)
        assert all(changed > 1_600_000_000 for changed in listed.values())

    def test_bases_that_have_anything_are_listed(self, files):
        """Whatever is stored can be found again without knowing whose it is."""
        before = files.base_ids()
        self.put(files, "a.md")
        after = files.base_ids()
        files.remove_base(BASE)

        assert ([], [BASE], []) == (before, after, files.base_ids())

    def test_work_folder_is_there_until_it_is_removed(self, files):
        """Another process works in it; it is neither staged nor listed, and goes with all that is in it."""
        work = files.work_folder(BASE, "conversion-1")
        (work / "inner").mkdir()
        (work / "inner" / "page.tif").write_bytes(b"dots")

        assert work == files.work_folder(BASE, "conversion-1")
        assert ["conversion-1"] == files.work_folders(BASE)
        assert ([], set()) == (files.leftovers(BASE, -1), self.paths(files))
        for _ in range(2):
            files.remove_work_folder(BASE, "conversion-1")
        assert (False, []) == (work.exists(), files.work_folders(BASE))

    def test_staged_bytes_are_no_work_folder(self, files):
        """They lie beside each other."""
        files.stage_text(BASE, "x")

        assert [] == files.work_folders(BASE)

    @pytest.mark.parametrize("name", ["", ".", "..", "../raw", "a/b", "A", "a b", "0" * 32])
    def test_name_of_a_work_folder_is_plain(self, files, name):
        """Nothing leads out of the place where work folders are, and none is taken for staged bytes."""
        with pytest.raises(UnsafePath):
            files.work_folder(BASE, name)
