"""A disk without room for a new index: it is told, and base and index stay as they were. Found by schedule 21:35."""

import resource
import subprocess
from contextlib import contextmanager, suppress

import pytest

from knowledge.errors import StorageFailed, StorageFull
from knowledge.model.inputs import BasePatch

ROOMS = [0, 5_000, 20_000, 60_000, 130_000]
"""Bytes that are left: too few to make the file, to switch it to a log, to fill that, and to carry it over."""


@pytest.fixture
def disk(tmp_path):
    """The folder of all bases: a small file system where one may be mounted."""
    folder = tmp_path / "data" / "bases"
    folder.mkdir(parents=True)
    is_mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", folder], check=False, capture_output=True)
    yield _Disk(folder, is_own=is_mounted.returncode == 0)
    if is_mounted.returncode == 0:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture
def house(disk, make_house):
    return make_house()


class _Disk:
    def __init__(self, folder, *, is_own) -> None:
        self.folder, self._is_own = folder, is_own

    @contextmanager
    def only(self, room):
        """Leave that many bytes; where the disk is not ours, let no file of this process grow beyond them."""
        if not self._is_own:
            soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
            try:
                yield
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            return
        ballast = self.folder / "ballast"
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        with ballast.open("r+b") as file:
            file.truncate(ballast.stat().st_size - room)
        try:
            yield
        finally:
            ballast.unlink()

    def indexes(self):
        return sorted(path.name for path in self.folder.glob("*/.knowledge/*") if not path.name.endswith(("-wal", "-shm")))


@pytest.mark.parametrize("room", ROOMS)
def test_patch_without_room_changes_nothing(house, disk, room):
    """It was told as refused, with the new embedder in the row and a file without tables."""
    base = house.base()
    with disk.only(room), pytest.raises((StorageFull, StorageFailed)):
        house.service.patch_base(base.id, BasePatch(embedder=None))

    assert "hashing" == house.service.base(base.id).embedder
    assert ["index.sqlite"] == disk.indexes()
    assert house.rt.indexes.is_sound(base.id, base.dimensions)
    after = house.service.patch_base(base.id, BasePatch(embedder=None))
    assert house.rt.indexes.is_sound(base.id, after.dimensions)
    assert ["index.sqlite"] == disk.indexes()


@pytest.mark.parametrize("room", ROOMS)
def test_create_without_room_leaves_nothing(house, disk, room):
    house.base()
    with disk.only(room), pytest.raises((StorageFull, StorageFailed)):
        house.base()

    assert 1 == len(house.service.list_bases())
    assert ["index.sqlite"] == disk.indexes()


@pytest.mark.parametrize("room", ROOMS)
def test_damaged_index_on_a_full_disk_keeps_nothing_from_being_deleted(house, disk, room):
    """A delete makes the room by itself: what is damaged goes before the blank one is made."""
    base = house.base()
    (note,) = house.notes(base, "The lighthouse has a lamp.")
    house.work()
    house.rt.indexes.close()
    (file,) = disk.folder.glob("*/.knowledge/index.sqlite")
    file.write_bytes(b"\xa5" * 600_000)
    house.service.delete_items(base.id, [note.id])
    with disk.only(room):
        house.work(hurry=True, rounds=200)

    assert not house.exists(note)
    assert house.rt.indexes.is_sound(base.id, base.dimensions)
    assert ["index.sqlite"] == disk.indexes()
