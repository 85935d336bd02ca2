"""Raw files on a local disk: the contract, and what only a disk can do."""

import errno
import os
import resource
import subprocess
import sys
import threading

import pytest

from knowledge.errors import PathNotFound, PathUnreadable, SourceMissing, StorageFailed, StorageFull, UnsafePath
from knowledge.files import local
from knowledge.files.local import LocalRawFiles
from tests.contracts.raw_files_contract import BASE, RawFilesContract


@pytest.fixture
def files(tmp_path):
    return LocalRawFiles(tmp_path / "data")


@pytest.fixture
def raw(tmp_path):
    folder = tmp_path / "data" / "bases" / BASE / "raw"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text("secret")
    return folder


@pytest.fixture
def small_disk(tmp_path):
    """A folder that takes about a megabyte: a small file system where one may be mounted, else a limit on this process."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder], check=False, capture_output=True)
    if mounted.returncode == 0:
        yield folder
        subprocess.run(["umount", "-l", folder], check=True)
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    yield folder
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class TestLocalRawFiles(RawFilesContract):
    @pytest.fixture
    def files(self, tmp_path):
        return LocalRawFiles(tmp_path / "data")


def test_full_disk_is_told_and_leaves_nothing(small_disk, tmp_path):
    """When the disk is full the half copy goes, so that what did fit can still be used."""
    files = LocalRawFiles(small_disk)
    source = tmp_path / "big.bin"
    os.truncate(os.open(source, os.O_CREAT | os.O_WRONLY), 3_000_000)

    with pytest.raises(StorageFull):
        files.stage_file(BASE, source)
    with pytest.raises(StorageFull):
        files.stage_text(BASE, "x" * 3_000_000)

    assert [] == files.leftovers(BASE, 0)
    assert 200_000 == files.stage_text(BASE, "y" * 200_000).size


@pytest.mark.parametrize(
    "way",
    ["data", "data/broker/endpoint.json", "outside/../data/run", "link", "link/new", "outside/inner-link", "catalogue.db-wal"],
)
@pytest.mark.parametrize("named", ["real", "linked"])
def test_own_files_are_known_whatever_leads_there(tmp_path, outside, way, named):
    """Below the directory, through `..`, through links; also if the directory was configured by a link to it."""
    (tmp_path / "data" / "broker").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "data")
    (outside / "inner-link").symlink_to("../data/broker")
    files = LocalRawFiles(tmp_path / ("data" if named == "real" else "link"), own=[tmp_path / "catalogue.db"])

    assert files.holds(tmp_path / way)


@pytest.mark.parametrize(
    "way", [".", "outside", "data-of-others/a.md", "data/../outside/secret.txt", "catalogue", "no\x00where"]
)
def test_other_files_are_not_own(tmp_path, outside, way):
    """A folder above is not, nor one whose name begins alike."""
    files = LocalRawFiles(tmp_path / "data", own=[tmp_path / "catalogue.db"])

    assert not files.holds(tmp_path / way)


def test_disk_that_refuses_is_a_storage_failure(tmp_path):
    """Any other answer of the operating system becomes our own error."""
    (tmp_path / "bases").write_text("in the way")

    with pytest.raises(StorageFailed):
        LocalRawFiles(tmp_path).stage_text(BASE, "x")


class _Meddler:
    """Changes the source right after its first chunk was read."""

    def __init__(self, monkeypatch, change):
        real = os.read

        def read(descriptor, size):
            data = real(descriptor, size)
            if not self.done and data:
                self.done = True
                change()
            return data

        self.done = False
        monkeypatch.setattr(local.os, "read", read)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda source: source.write_bytes(b"b" * 3_000_000), PathUnreadable),
        (lambda source: source.open("ab").write(b"more"), PathUnreadable),
        (lambda source: os.truncate(source, 10), PathUnreadable),
        (lambda source: source.unlink(), PathNotFound),
    ],
    ids=["rewritten", "appended", "truncated", "removed"],
)
def test_source_that_changes_while_copied_is_refused(files, tmp_path, monkeypatch, change, error):
    """A copy that mixes two states of a file is worse than none."""
    source = tmp_path / "a.log"
    source.write_bytes(b"a" * 3_000_000)
    os.utime(source, (1, 1))
    meddler = _Meddler(monkeypatch, lambda: change(source))

    with pytest.raises(error):
        files.stage_file(BASE, source)

    assert meddler.done
    assert [] == files.leftovers(BASE, 0)


def test_link_as_last_part_is_not_read(files, raw, outside):
    """What lies in raw/ as a link is not ours."""
    (raw / "a.txt").symlink_to(outside / "secret.txt")

    with pytest.raises(UnsafePath):
        files.local(BASE, "a.txt").__enter__()


def test_link_on_the_way_is_not_followed(files, raw, outside):
    """Behind a link nothing is found, nothing is written and nothing is removed."""
    (raw / "docs").symlink_to(outside)

    assert not files.exists(BASE, "docs/secret.txt")
    with pytest.raises(SourceMissing):
        files.local(BASE, "docs/secret.txt").__enter__()
    with pytest.raises(UnsafePath):
        files.publish(files.stage_text(BASE, "x"), "docs/new.txt")
    files.remove(BASE, ["docs/secret.txt"], ["docs"])

    assert "secret" == (outside / "secret.txt").read_text()
    assert ["secret.txt"] == [entry.name for entry in outside.iterdir()]
    assert not files.exists(BASE, "docs")


def test_tree_with_links_inside_loses_the_links_only(files, raw, outside):
    """Removing a tree stops at links."""
    (raw / "docs").mkdir()
    (raw / "docs" / "out").symlink_to(outside)
    (raw / "docs" / "loop").symlink_to("..")

    files.remove(BASE, [], ["docs"])

    assert (outside / "secret.txt").exists()
    assert not files.exists(BASE, "docs")


def test_listing_does_not_follow_links(files, raw, outside):
    """A loop cannot make the listing endless."""
    (raw / "loop").symlink_to(".")
    (raw / "out").symlink_to(outside)

    assert {"loop", "out"} == {path for path, _ in files.listing(BASE)}


def test_file_in_place_of_a_folder_is_refused(files):
    """A stored file is not silently turned into a folder."""
    files.publish(files.stage_text(BASE, "x"), "a")

    with pytest.raises(UnsafePath):
        files.publish(files.stage_text(BASE, "y"), "a/b")


def test_token_that_is_no_token_is_refused(files):
    """A token comes back from rows and messages; it cannot name another place."""
    forged = local.Staged(BASE, "../raw/a.txt", 1)

    with pytest.raises(UnsafePath):
        files.publish(forged, "b.txt")


def test_files_are_private(files, raw):
    """Only the owner of the process may read what people add."""
    files.publish(files.stage_text(BASE, "x"), "d/a.txt")

    assert (0o700, 0o600) == ((raw / "d").stat().st_mode & 0o777, (raw / "d" / "a.txt").stat().st_mode & 0o777)


def test_many_threads_stage_at_once(files):
    """Staging needs no lock."""
    tokens = []
    threads = [threading.Thread(target=lambda: tokens.append(files.stage_text(BASE, "x").token)) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 16 == len(set(tokens)) == len(files.leftovers(BASE, 0))


def test_bytes_of_a_dead_process_are_left_over_at_once(files, tmp_path):
    """It was killed between copying and placing; nobody else's are."""
    copy = (
        "import os, sys; from pathlib import Path; from knowledge.files.local import LocalRawFiles\n"
        f"LocalRawFiles(Path(sys.argv[1])).stage_text({BASE!r}, 'lost'); os.kill(os.getpid(), 9)"
    )
    files.stage_text(BASE, "kept")
    subprocess.run([sys.executable, "-c", copy, tmp_path / "data"], check=False)

    assert [4] == [staged.size for staged in files.leftovers(BASE, 3600)]
    files.discard(files.leftovers(BASE, 3600))
    assert 1 == len(files.leftovers(BASE, 0))


def test_listing_of_an_unknown_base_is_empty(files):
    """A base without files has none."""
    assert ([], []) == (list(files.listing("nobody")), files.leftovers("nobody", 0))


def test_bytes_are_copied_where_there_are_no_hard_links(files, monkeypatch):
    """Some network file systems know none; the second path is as good."""

    def refused(*_, **__):
        raise OSError(errno.EPERM, "no links here")

    files.publish(files.stage_text(BASE, "words"), "a.txt")
    monkeypatch.setattr(os, "link", refused)
    files.link(BASE, "a.txt", "b.txt")
    files.remove(BASE, ["a.txt"])

    with files.local(BASE, "b.txt") as place:
        assert "words" == place.read_text()


def late(monkeypatch, files, times):
    """Somebody who stages bytes puts a file into the folder just before it is removed, so many times."""
    real, left = os.rmdir, [times]

    def rmdir(path, **where):
        if path == "staging" and left[0]:
            left[0] -= 1
            (files.path(BASE, "x").parent.parent / "staging" / f"{left[0]:032x}").write_bytes(b"late")
        return real(path, **where)

    monkeypatch.setattr(os, "rmdir", rmdir)


def test_base_that_is_filled_while_it_is_removed_is_removed(files, monkeypatch):
    """An import, restore or add stages files meanwhile: they go as well."""
    files.publish(files.stage_text(BASE, "x"), "a.txt")
    late(monkeypatch, files, times=3)

    files.remove_base(BASE)

    assert [] == files.base_ids()


def test_base_that_is_filled_for_ever_is_not_waited_for(files, monkeypatch):
    """After a second it is an error, and what is there can be removed later."""
    files.publish(files.stage_text(BASE, "x"), "a.txt")
    with monkeypatch.context() as busy:
        late(busy, files, times=1_000)
        with pytest.raises(StorageFailed):
            files.remove_base(BASE)

    files.remove_base(BASE)
    assert [] == files.base_ids()


def test_base_that_may_not_be_removed_is_not_tried_again(files, monkeypatch):
    """Only what fills up is emptied again; a disk that refuses is told at once."""
    files.publish(files.stage_text(BASE, "x"), "a.txt")
    tried = []

    def refuse(path, **_where):
        tried.append(path)
        raise PermissionError(13, "Permission denied", path)

    with monkeypatch.context() as refusing:
        refusing.setattr(os, "rmdir", refuse)
        with pytest.raises(StorageFailed):
            files.remove_base(BASE)

    assert 1 == len(tried)
