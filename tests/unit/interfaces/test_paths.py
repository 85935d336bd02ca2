"""Commands that take a path, given what is none of theirs: the path is named, and what was expected is said."""

import os
import re
import socket

import pytest

from knowledge.interfaces.cli import ExitCode
from tests.modes import modes_bind_us
from tests.unit.interfaces.test_lifecycle_commands import cli  # noqa: F401 - a fixture

SAID = {
    "directory": "directory",
    "file": "not a directory",
    "pipe": "pipe|plain file|not a",
    "socket": "socket|plain file|not a|no such device",
    "dangling link": "no such file",
    "missing": "no such file",
    "loop of links": "symbolic links|no such file",
    "device": "device|plain file|not a",
    "below a file": "no such file|not a directory",
}
COMMANDS = {  # and what they take: a note may come from a pipe, as `<(…)` makes them, or from a device like the standard input
    ("base", "import"): {"file"},
    ("item", "add", "b"): {"file", "directory"},
    ("item", "add", "b", "--note-file"): {"file", "pipe", "device"},
    ("item", "watch", "b"): {"directory"},
    ("extract",): {"file", "directory"},
}
WRONG = [(words, kind) for words, taken in COMMANDS.items() for kind in SAID if kind not in taken]


@pytest.fixture
def places(tmp_path, monkeypatch):
    """One of each kind; short names, because a socket's is short."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a-directory").mkdir()
    (tmp_path / "a-file").write_text("text")
    os.mkfifo(tmp_path / "a-pipe")
    (tmp_path / "a-link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "a-loop").symlink_to(tmp_path / "a-loop")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("a-socket")
        yield {
            "directory": "a-directory", "file": "a-file", "pipe": "a-pipe", "socket": "a-socket", "dangling link": "a-link",
            "missing": "a-hole", "loop of links": "a-loop", "device": "/dev/null", "below a file": "a-file/below",
        }  # fmt: skip


@pytest.mark.parametrize(("words", "kind"), WRONG, ids=lambda part: part if isinstance(part, str) else " ".join(part))
def test_a_path_of_another_kind_is_named_and_said(cli, places, words, kind):  # noqa: F811
    """No traceback, no number of a descriptor, no wait; nothing is added."""
    cli.base()
    done = cli.run(*words, places[kind])

    said = done.stderr + done.stdout
    assert done.returncode in (ExitCode.FAILED, ExitCode.USAGE), said
    assert places[kind] in said
    assert re.search(SAID[kind], said, re.IGNORECASE), said
    assert not re.search(r"Errno|: '?\d+'?$", said, re.MULTILINE), said
    assert 0 == cli.json("base", "show", "b")["item_count"]


def test_a_note_from_a_pipe(cli, tmp_path):  # noqa: F811
    """As a shell gives it for `<(…)`."""
    cli.base()
    reading, writing = os.pipe()
    os.write(writing, b"The goat belongs to nobody.")
    os.close(writing)

    assert ExitCode.OK == cli.run("item", "add", "b", "--note-file", f"/dev/fd/{reading}").returncode
    os.close(reading)


@pytest.mark.parametrize("words", [("base", "import"), ("item", "add", "b"), ("item", "add", "b", "--note-file")], ids=" ".join)
def test_what_may_not_be_read_is_named(cli, tmp_path, words):  # noqa: F811
    """A file of somebody else."""
    cli.base()
    closed = tmp_path / "closed"
    closed.write_text("text")
    closed.chmod(0)
    with modes_bind_us():
        done = cli.run(*words, closed)

    assert done.returncode in (ExitCode.FAILED, ExitCode.USAGE)
    assert str(closed) in done.stderr
    assert re.search("may not be read|permission denied", done.stderr, re.IGNORECASE), done.stderr
    assert "Errno" not in done.stderr
