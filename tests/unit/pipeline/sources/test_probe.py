"""Missing is not the same as unverifiable."""

import errno
import os

import pytest

from knowledge.pipeline.sources import probe
from knowledge.pipeline.sources.probe import Probe, probe_directory, probe_file


@pytest.fixture
def file(tmp_path):
    place = tmp_path / "a.txt"
    place.write_text("x")
    return place


def test_readable_sources(file, tmp_path):
    """What can be opened can be read again, through a link as well."""
    (tmp_path / "link").symlink_to(file)

    assert [Probe.READABLE] * 3 == [probe_file(str(file)), probe_file(str(tmp_path / "link")), probe_directory(str(tmp_path))]


@pytest.mark.parametrize("source", ["", "relative.txt", "/no/such/file", "/a\x00b", "/" + "a" * 300, "/caf\ud800"])
def test_what_does_not_exist_or_is_no_path_is_missing(source):
    """A malformed path is missing, not an error."""
    assert (Probe.MISSING, Probe.MISSING) == (probe_file(source), probe_directory(source))


def test_other_kind_is_missing(file, tmp_path):
    """A folder where a file was, and the reverse, a pipe, and a path through a file."""
    os.mkfifo(tmp_path / "pipe")

    assert [Probe.MISSING] * 4 == [
        probe_file(str(tmp_path)),
        probe_directory(str(file)),
        probe_file(str(tmp_path / "pipe")),
        probe_file(f"{file}/x"),
    ]


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO, errno.ESTALE, errno.EHOSTDOWN])
def test_any_other_trouble_is_unverifiable(file, monkeypatch, code):
    """A network drive that is away says nothing about the file."""

    def refuse(*_, **__):
        raise OSError(code, "refused")

    monkeypatch.setattr(probe.os, "open", refuse)

    assert (Probe.UNVERIFIABLE, Probe.UNVERIFIABLE) == (probe_file(str(file)), probe_directory(str(file)))


def test_dangling_link_is_missing(tmp_path):
    """What the link points to is gone."""
    (tmp_path / "link").symlink_to(tmp_path / "absent")

    assert Probe.MISSING == probe_file(str(tmp_path / "link"))
