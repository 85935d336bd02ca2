"""`make demo` without the set-up: the real script, as a newcomer runs it."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.demo import has_tesseract
from deploy.run import stack
from knowledge.interfaces.cli import ExitCode

ROOT = Path(__file__).parents[2]
SCRIPT = [sys.executable, str(ROOT / "deploy" / "demo.py")]
PROMISED_SECONDS = 120  #: of the whole demo on two cores


@pytest.fixture
def environ():
    """As in a shell where somebody has settings of their own, which the demo must not use."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "KNOWLEDGE_BROKER_URL": "redis://nowhere.invalid:1/0"}


def is_up(directory):
    return stack.status({"KNOWLEDGE_DATA_DIR": str(directory)}) is not None


def test_the_demo_imports_searches_and_stops(tmp_path, environ):
    """Twenty-odd real documents become searchable; hits name file, page and passage; nothing runs afterwards."""
    directory = tmp_path / "demo"

    done = subprocess.run(
        [*SCRIPT, directory], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False, timeout=PROMISED_SECONDS
    )

    assert 0 == done.returncode, done.stdout + done.stderr
    completed = re.search(r"done in .*: (\d+) completed$", done.stderr, re.MULTILINE)
    assert completed, done.stderr
    assert 24 <= int(completed[1])
    assert "failed:" not in done.stderr
    climb, link, fog, scanned = done.stdout.split("$ knowledge search")[1:]
    assert "1. examples/handbook/02-safety-on-the-tower.md" in climb
    assert "1. examples/weather/station-manual.pdf, page 4" in link
    assert "1. examples/松屿/" in fog
    assert "雾号" in fog
    assert "1. examples/letters/1911-notice-to-mariners.pdf, page 1" in scanned
    assert re.search(r"Flower: http://127\.0\.0\.1:\d+", done.stdout)
    assert re.search(r"time: clean .* start .* index .* search .* stop .* together", done.stdout)
    assert not is_up(directory)


def test_without_tesseract_the_demo_goes_on(monkeypatch, tmp_path):
    """Where it is not there and cannot be installed, nobody is asked and nothing fails."""
    monkeypatch.setenv("PATH", str(tmp_path))

    assert not has_tesseract()


def test_a_directory_of_somebody_is_left_alone(tmp_path, environ):
    """The demo empties only what a demo has made."""
    (tmp_path / "thesis.md").write_text("years of work")

    done = subprocess.run([*SCRIPT, tmp_path], env=environ, capture_output=True, text=True, check=False, timeout=250)

    assert 1 == done.returncode
    assert "left alone" in done.stderr
    assert "years of work" == (tmp_path / "thesis.md").read_text()


def test_a_demo_that_fails_says_so_with_the_logs(tmp_path, environ):
    """Without a `knowledge` to run, nothing starts: code 1, the ends of the logs, nothing left running."""
    directory = tmp_path / "demo"
    broken = environ | {"PYTHONPATH": f"{broken_model(tmp_path)}:{ROOT}"}

    done = subprocess.run(
        [*SCRIPT, directory], env=broken, capture_output=True, text=True, check=False, timeout=PROMISED_SECONDS
    )

    assert 1 == done.returncode, done.stdout
    assert "demo: " in done.stderr
    assert "--- end of" in done.stderr
    assert not is_up(directory)


def broken_model(tmp_path):
    """A path on which the runtime of the local model cannot be imported, as after a damaged installation."""
    package = tmp_path / "broken" / "onnxruntime"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('libonnxruntime.so: wrong ELF class')\n")
    return package.parent


def test_ctrl_c_leaves_nothing_running(tmp_path, environ):
    """Stopped while it indexes, the demo takes everything down and ends with 130."""
    directory = tmp_path / "demo"
    running = subprocess.Popen(
        [*SCRIPT, directory], env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    seen = ""
    for line in running.stdout:
        seen += line
        if "$ knowledge item add" in seen and "%" in line:  # its first report: it is waiting for the workers now
            break
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does: to the demo and to the command it runs
    rest, _ = running.communicate(timeout=250)

    assert ExitCode.STOPPED == running.returncode, seen + rest
    assert "demo: stopped" in rest
    assert "Traceback" not in rest
    assert not is_up(directory)
