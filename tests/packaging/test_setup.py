"""`make setup` on hosts that lack something; the host's own commands are stand-ins, the script is the real one."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


class Host:
    """A fresh checkout, and a PATH that begins with this host's own commands."""

    def __init__(self, folder: Path) -> None:
        self.checkout, self.commands = folder / "checkout", folder / "bin"
        self.commands.mkdir()
        (self.checkout / "deploy" / "run").mkdir(parents=True)
        for name in ("pyproject.toml", "constraints.txt", "deploy/run/setup.sh"):
            shutil.copy(ROOT / name, self.checkout / name)

    def command(self, name: str, script: str) -> None:
        path = self.commands / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def setup(self) -> subprocess.CompletedProcess[str]:
        environ = {**os.environ, "PATH": f"{self.commands}:{os.environ['PATH']}", "PYTHON": "python3"}
        return subprocess.run(
            ["bash", "deploy/run/setup.sh"],
            cwd=self.checkout,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=250,
        )


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """Has this Python, which finds libmagic as soon as a file `magic` lies in the checkout, and cannot make environments."""
    host = Host(tmp_path)
    host.command(
        "python3",
        f"""case "$*" in
  *ctypes*) test -e magic ;;
  *venv*) exit 1 ;;
  *) exec {sys.executable} "$@" ;;
esac""",
    )
    return host


def test_old_python_is_refused_with_its_version(host):
    """An interpreter below 3.11 ends the set-up with what is there and what to do."""
    host.command("python3", """case "$*" in *print*) echo 3.9 ;; *) exit 1 ;; esac""")

    done = host.setup()
    assert 1 == done.returncode
    assert "python3 is Python 3.9, but 3.11 or newer is needed" in done.stderr


def test_missing_libmagic_names_the_command_to_people_who_are_not_root(host):
    """Without the right to install, set-up changes nothing and says exactly what to run."""
    host.command("id", "echo 1000")
    host.command("apt-get", "touch called")

    done = host.setup()
    assert 1 == done.returncode
    assert "run: sudo apt-get install -y libmagic1" in done.stderr
    assert not (host.checkout / "called").exists()
    assert not (host.checkout / ".venv").exists()


def test_missing_libmagic_is_installed_by_root(host):
    """As root the library is fetched, and set-up goes on to the environment."""
    host.command("id", "echo 0")
    host.command("apt-get", """case "$*" in *libmagic1*) touch magic ;; esac""")

    done = host.setup()
    assert (host.checkout / "magic").exists()
    assert "installing libmagic1" in done.stdout
    assert "cannot make virtual environments; on Debian and Ubuntu run: sudo apt-get install -y python3-venv" in done.stderr


def test_python_that_is_not_there_is_named(host, monkeypatch):
    """A wrong PYTHON= is an error of its own."""
    host.command("python3", "exit 127")

    assert "python3 does not start" in host.setup().stderr
