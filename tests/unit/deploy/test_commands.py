"""`make up`, `make demo` and their like where what they print has no place to go."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.run import stack

ROOT = Path(__file__).parents[3]


def typed(command: str, data: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=ROOT, env=os.environ | {"KNOWLEDGE_DATA_DIR": str(data), "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False, timeout=250,
    )  # fmt: skip


@pytest.mark.parametrize(("expected", "redirected"), [(1, "> /dev/full"), (0, ">&-"), (0, "2>&-"), (1, "> /dev/full 2>&1")])
def test_streams_that_take_nothing_are_no_reason_for_a_traceback(tmp_path, expected, redirected):
    """A full disk is an error, a closed stream is not."""
    done = typed(f"{sys.executable} -m deploy.run.stack status {redirected}", tmp_path / "data")

    assert expected == done.returncode, done
    assert [] == [word for word in ("Traceback", "Exception ignored") if word in done.stderr]


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path):
    """`make up | head -1` ends quietly."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "deploy.run.stack", "down"],
            cwd=ROOT, env=os.environ | {"KNOWLEDGE_DATA_DIR": str(tmp_path / "data")},
            stdout=closed, stderr=subprocess.PIPE, text=True, check=False, timeout=250,
        )  # fmt: skip

    assert (0, "") == (done.returncode, done.stderr)


def test_a_demo_that_can_write_nowhere_says_so(tmp_path):
    """As in a checkout that is read-only: one line, code 1."""
    (tmp_path / "file").touch()

    done = typed(f"{sys.executable} deploy/demo.py {tmp_path / 'file' / 'demo'}", tmp_path / "data")

    assert 1 == done.returncode
    assert "demo: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    """With the data directory on it, because where logs have no place they cannot say it; with room there is nothing to say."""
    environ = {"KNOWLEDGE_DATA_DIR": str(tmp_path)}
    tmp_path.chmod(0o700)
    assert stack.short_of_space(environ) is None
    monkeypatch.setattr(stack, "LITTLE_BYTES", shutil.disk_usage(tmp_path).total + 1)

    assert f"the disk that holds {tmp_path} is full" in str(stack.short_of_space(environ))


def test_where_settings_are_wrong_nothing_is_said_of_the_disk():
    """The error has said it all."""
    assert stack.short_of_space({"KNOWLEDGE_NO_SUCH": "1"}) is None
