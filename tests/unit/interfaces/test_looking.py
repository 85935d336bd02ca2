"""Whoever only looks leaves nothing behind: no data directory where there is none, no other modes where there is one."""

import pytest

from deploy.run import stack
from knowledge.interfaces.cli import ExitCode
from knowledge.interfaces.cli.root import run
from tests.unit.interfaces.test_command_line import COMMANDS

FOUNDERS = {"base create", "base import", "group create", "db upgrade", "broker"}  #: what may be the first thing done anywhere
TYPED = {
    "base list": [],
    "base show": ["b"],
    "base delete": ["b", "--yes"],
    "base patch": ["b", "--name", "c"],
    "base enable-embedder": ["b", "local/hashing"],
    "base restore": ["b", "c"],
    "group list": [],
    "group rename": ["g", "h"],
    "group delete": ["g"],
    "item add": ["b", "."],
    "item list": ["b"],
    "item show": ["i"],
    "item reindex": ["b", "--all"],
    "item delete": ["b", "--all"],
    "item chunks": ["i"],
    "item preview": ["i"],
    "item path": ["i"],
    "item watch": ["b", "."],
    "search": ["b", "q"],
    "extract": ["."],
    "jobs list": [],
    "jobs show": ["j"],
    "jobs cancel": ["j"],
    "jobs requeue": ["j"],
    "jobs why": ["i"],
    "config": [],
    "model list": [],
}
DONE = {"base list", "group list", "jobs list", "extract", "config", "model list"}


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """An empty folder to stand in, and a data directory below it that is not there, told as a relative path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KNOWLEDGE_DATA_DIR", "some/data")
    monkeypatch.setenv("KNOWLEDGE_APP", "config.wiring:service")
    return tmp_path


def test_every_command_is_looked_at_here():
    """A new one says whether it may be the first."""
    assert FOUNDERS | set(TYPED) == {" ".join(words) for words, _ in COMMANDS}


@pytest.mark.parametrize("command", TYPED)
def test_no_command_but_founders_makes_a_data_directory(nowhere, command, capsys):
    """It answers as an empty house would, and nothing is there afterwards."""
    code = run([*command.split(), *TYPED[command]])

    assert (ExitCode.OK if command in DONE else ExitCode.FAILED) == code, capsys.readouterr().err
    assert [] == list(nowhere.iterdir())


@pytest.mark.parametrize("command", [stack.say_status, stack.say_down])
def test_asking_what_runs_makes_none_either(nowhere, command):
    """`make down` where nothing was ever up."""
    assert len(list(command())) == 1
    assert [] == list(nowhere.iterdir())


def test_founders_make_it(nowhere):
    """The first base; from then on others find it."""
    assert ExitCode.OK == run(["base", "create", "b", "--no-embedder"])
    assert ExitCode.OK == run(["base", "show", "b"])
    assert 0o700 == (nowhere / "some" / "data").stat().st_mode & 0o777


def test_a_look_changes_no_modes(nowhere):
    """A directory that others can read is closed by who works in it."""
    (nowhere / "some" / "data").mkdir(parents=True)
    (nowhere / "some" / "data").chmod(0o755)
    run(["config"])

    assert 0o755 == (nowhere / "some" / "data").stat().st_mode & 0o777
    assert [] == list((nowhere / "some" / "data").iterdir())


def test_a_look_still_refuses_what_is_no_directory(nowhere, capsys):
    """A file in its place, and a folder of other things."""
    (nowhere / "some").mkdir()
    (nowhere / "some" / "data").touch()
    assert ExitCode.FAILED == run(["config"])

    (nowhere / "some" / "data").unlink()
    (nowhere / "some" / "data" / "letters").mkdir(parents=True)
    (nowhere / "some" / "data").chmod(0o755)
    assert ExitCode.FAILED == run(["config"])
    assert "chmod 700" in capsys.readouterr().err
