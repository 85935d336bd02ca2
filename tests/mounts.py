"""Empty file systems laid over folders, and taken away at once, whoever is in them."""

import subprocess
from pathlib import Path

import pytest


def lay_over(folder: Path) -> None:
    """A test that needs it is skipped where nothing may be mounted."""
    if subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=False, capture_output=True).returncode:
        pytest.skip("nothing may be mounted here")


def take_away(folder: Path) -> None:
    """Fine if there is none; what is open on it stays open."""
    subprocess.run(["umount", "-l", folder], check=False, capture_output=True)
