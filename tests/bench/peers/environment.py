"""The environment of the peers: made by the bench itself, below .bench/ in the checkout."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
HOME: Final = ROOT / ".bench" / "peers"
REQUIREMENTS: Final = Path(__file__).with_name("requirements.txt")
INSTALL_SECONDS: Final = 900.0


class PeerMissing(Exception):
    """A peer could not be installed or run, so there is nothing to compare with."""


def python() -> Path:
    """The interpreter that has the peers; the first call installs them, which takes a minute.

    Raises:
        PeerMissing: with how the installation ended.
    """
    found, stamp = HOME / "bin" / "python", HOME / ".made-from"
    wanted = f"{sys.version}\n{REQUIREMENTS.read_text()}"
    if stamp.is_file() and stamp.read_text() == wanted:
        return found
    print("bench: installing the peers", file=sys.stderr, flush=True)
    shutil.rmtree(HOME, ignore_errors=True)
    _run(sys.executable, "-m", "venv", HOME)
    _run(found, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", REQUIREMENTS)
    stamp.write_text(wanted)
    return found


def _run(*command: str | Path) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerMissing(f"peer missing: {error}") from error
    if done.returncode:
        last = [line for line in done.stderr.splitlines() if line.strip()][-1:] or [f"status {done.returncode}"]
        raise PeerMissing(f"peer missing: {last[0]}")
