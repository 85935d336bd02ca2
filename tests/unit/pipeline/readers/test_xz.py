"""XZ streams as `xz` writes them, and those that ask for memory."""

import io
import lzma
import os
import zipfile

import pytest

from knowledge.errors import CorruptSource, ReaderBudgetExceeded
from knowledge.model.budget import Meter
from knowledge.pipeline.readers.archive import members
from knowledge.pipeline.readers.xz import MEMORY_BYTES, open_xz
from tests.archives import tarred, written


def hungry(content, dictionary):
    return lzma.compress(content, filters=[{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": dictionary}])


def read_all(path):
    for member in members(path, Meter()):
        with member.open() as stream:
            stream.read()


@pytest.mark.parametrize("size", [0, 1, 65_536, 3_000_000])
@pytest.mark.parametrize("preset", [0, 9])
def test_what_xz_packs_is_unpacked(tmp_path, size, preset):
    """Also several streams with padding between and after them, as `xz` and `cat` make them."""
    data = os.urandom(size // 2) + b"a" * (size - size // 2)
    packed = lzma.compress(data, preset=preset) + bytes(8) + lzma.compress(b"more") + bytes(70_000)

    with open_xz(written(tmp_path / "a.xz", packed)) as opened:
        assert data + b"more" == opened.read()


@pytest.mark.parametrize("cut", [10, 100, 5_000])
def test_a_file_that_ends_too_early_is_damaged(tmp_path, cut):
    """It never looks whole."""
    packed = lzma.compress(os.urandom(10_000))
    with open_xz(written(tmp_path / "a.xz", packed[: len(packed) - cut])) as opened, pytest.raises((EOFError, lzma.LZMAError)):
        opened.read()


@pytest.mark.parametrize("kind", ["one file", "tar"])
def test_a_dictionary_that_is_too_large_is_refused(tmp_path, kind):
    """Before it is made; the figure is told."""
    packed = hungry(tarred({"a.md": "x"}) if kind == "tar" else b"x" * 5_000, 1 << 30)

    path = written(tmp_path / "a.xz", packed)
    with pytest.raises(ReaderBudgetExceeded) as refused:
        read_all(path)
    assert ("memory_bytes", MEMORY_BYTES) == (refused.value.details["figure"], refused.value.details["limit"])


def test_a_hungry_member_of_a_zip_is_refused_and_a_modest_one_read(tmp_path):
    """By what its properties say."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a.md", b"modest " * 1_000)
    data = bytearray(buffer.getvalue())
    at = 30 + len("a.md") + 5
    assert 1 << 16 < int.from_bytes(data[at : at + 4], "little") <= MEMORY_BYTES
    modest = members(written(tmp_path / "a.zip", bytes(data)), Meter())
    with next(modest).open() as stream:
        assert b"modest " * 1_000 == stream.read()
    data[at : at + 4] = (0xFFFF_FFFF).to_bytes(4, "little")
    greedy = members(written(tmp_path / "b.zip", bytes(data)), Meter())

    with pytest.raises(ReaderBudgetExceeded), next(greedy).open():
        pass


def test_rubbish_is_damaged(tmp_path):
    """With our own error, through the members."""
    with pytest.raises(CorruptSource):
        list(members(written(tmp_path / "a.xz", b"\xfd7zXZ\0" + os.urandom(500)), Meter()))
