"""The supervisor on a disk that takes nothing: it goes on, and catches up."""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from config.settings import Settings
from deploy.run import supervisor as module
from deploy.run.supervisor import Supervisor, log_file, open_log, shorten, state_file


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path / "data")


@pytest.fixture
def supervisor(settings: Settings, tmp_path: Path) -> Iterator[Supervisor]:
    """One that keeps two sleepers running, as soon as it is told to tend."""
    (tmp_path / "Procfile").write_text("first: sleep 60\nsecond: sleep 60\n")
    made = Supervisor(settings, tmp_path / "Procfile", os.environ)
    yield made
    made.end(made.children, 5)


def test_a_state_that_cannot_be_written_is_written_later(supervisor, settings):
    """The processes are started all the same; the state follows when there is a place for it."""
    (state_file(settings) / "in the way").mkdir(parents=True)
    supervisor.tend()
    running = [child.pid for child in supervisor.children]
    (state_file(settings) / "in the way").rmdir()
    state_file(settings).rmdir()

    supervisor.tend()

    assert None not in running
    written = json.loads(state_file(settings).read_text())
    assert running == [process["pid"] for process in written["processes"].values()]


def test_a_process_whose_log_cannot_be_opened_is_tried_again(supervisor, settings):
    """The other one runs meanwhile."""
    log_file(settings, "first").mkdir(parents=True)
    supervisor.tend()
    first, second = supervisor.children
    assert (None, True) == (first.pid, second.pid is not None)
    log_file(settings, "first").rmdir()
    deadline = time.monotonic() + 30
    while first.pid is None and time.monotonic() < deadline:
        supervisor.tend()
        time.sleep(0.01)

    assert 1 == first.starts


def test_a_log_of_its_own_that_is_full_does_not_end_it(supervisor, monkeypatch):
    """What it has to say is lost; what it has to do is done."""
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        supervisor.tend()
        monkeypatch.undo()
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())

    assert [1, 1] == [child.starts for child in supervisor.children]


def test_a_log_that_has_grown_is_put_aside_under_its_process(settings, monkeypatch):
    """The open log goes on from the start of the file; one older log is kept, private like the log."""
    monkeypatch.setattr(module, "LARGEST_LOG_BYTES", 10)
    path = log_file(settings, "worker")
    with open_log(path) as log:
        log.write(b"a long old line\n")
        log.flush()
        shorten(path)
        log.write(b"new\n")

    aside = path.with_suffix(".log.1")
    assert ("new\n", "a long old line\n", 0o600) == (path.read_text(), aside.read_text(), aside.stat().st_mode & 0o777)
