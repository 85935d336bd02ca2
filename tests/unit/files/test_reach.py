"""How far a caller reaches: judged by where things really lie, and read without a gap between the look and the reading."""

import os
from pathlib import Path

import pytest

from knowledge.errors import PathNotAllowed
from knowledge.files import reach as reaching
from knowledge.files.reach import ANYWHERE, Reach


@pytest.fixture
def inbox(tmp_path):
    folder = tmp_path / "inbox"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "a.md").write_text("allowed")
    return folder


@pytest.fixture
def outside(tmp_path):
    """A folder laid out as the inbox is, whose files nobody may see."""
    folder = tmp_path / "outside"
    (folder / "er").mkdir(parents=True)
    (folder / "er" / "a.md").write_text("secret")
    return folder


@pytest.fixture
def reach(inbox):
    return Reach((inbox.resolve(),))


def read(reach, path):
    with os.fdopen(reach.open(path, os.O_RDONLY)) as opened:
        return opened.read()


def test_without_roots_everything_is_in_reach(outside):
    """The command line may have read what its user may read."""
    assert ANYWHERE.allows(outside)
    assert "secret" == read(ANYWHERE, outside / "er" / "a.md")
    assert ["a.md"] == ANYWHERE.names(str(outside / "er"))


def test_what_lies_below_a_root_is_read(reach, inbox):
    """Also through links that stay below it, and if the folders on the way may be passed and not listed."""
    (inbox / "latest").symlink_to("deep/er")
    (inbox / "deep").chmod(0o111)

    assert ["allowed"] * 2 == [read(reach, inbox / way / "a.md") for way in ("deep/er", "latest")]
    assert ["a.md"] == reach.names(str(inbox / "latest"))
    assert ["deep", "latest"] == sorted(reach.names(str(inbox)))


@pytest.mark.parametrize("way", ["../outside/er/a.md", "link", "linked/a.md", "loop", "a\0b", "/etc/passwd", "/"])
def test_what_leads_out_is_neither_opened_nor_listed(reach, inbox, outside, way):
    """Dots, links to a file and to a folder, loops, and other places."""
    (inbox / "link").symlink_to(outside / "er" / "a.md")
    (inbox / "linked").symlink_to(outside / "er")
    (inbox / "loop").symlink_to(inbox / "loop")

    assert not reach.allows(inbox / way)
    for ask in (lambda: reach.require(inbox / way), lambda: read(reach, inbox / way), lambda: reach.names(str(inbox / way))):
        with pytest.raises(PathNotAllowed):
            ask()


def test_relative_paths_are_in_nobodys_reach(reach, inbox, monkeypatch):
    """They would depend on where a worker was started."""
    monkeypatch.chdir(inbox)

    assert not reach.allows(Path("deep/er/a.md"))


def test_what_is_our_own_is_not_opened(reach, inbox):
    """Even where the data directory lies below an import root: closing a live database would cost its locks."""
    with pytest.raises(PathNotAllowed):
        reach.open(inbox / "deep" / "er" / "a.md", os.O_RDONLY, lambda real: real.is_relative_to(inbox / "deep"))


@pytest.mark.parametrize("swapped", ["deep", "deep/er", "deep/er/a.md"])
def test_a_link_that_comes_after_the_look_is_not_followed(reach, inbox, outside, monkeypatch, swapped):
    """Whatever part of the path it replaces, nothing of what it leads to is read or listed."""
    place = inbox / swapped
    target = {"deep": outside, "deep/er": outside / "er", "deep/er/a.md": outside / "er" / "a.md"}[swapped]
    opens = reaching._open_unfollowed

    def swap_first(real, flags):
        if not place.is_symlink():
            place.rename(inbox / "aside")
            place.symlink_to(target)
        return opens(real, flags)

    monkeypatch.setattr(reaching, "_open_unfollowed", swap_first)
    with pytest.raises(OSError):
        read(reach, inbox / "deep" / "er" / "a.md")
    (place.unlink(), (inbox / "aside").rename(place))
    if swapped != "deep/er/a.md":
        with pytest.raises(OSError):
            reach.names(str(inbox / "deep" / "er"))
