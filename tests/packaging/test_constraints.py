"""The pinned versions: complete, exact, and those that are installed."""

import re
from importlib.metadata import distribution, distributions
from pathlib import Path

from packaging.markers import default_environment
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]

#: belong to the environment itself or to the project
NOT_PINNED = {"pip", "setuptools", "knowledge-pipeline"}
PYTHONS = ("3.11.0", "3.11.2", "3.11.9", "3.12.0", "3.13.0")  #: some libraries need others below a patch version


def pinned() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_line_is_a_name_and_a_version():
    """No index address, no range, no path: the file works with whatever index the host uses."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()

    assert [] == [line for line in lines if not re.fullmatch(r"#.*|[A-Za-z0-9._-]+==[A-Za-z0-9.!+]+", line)]


def test_every_installed_package_is_pinned_at_its_version():
    """What the tests ran with is what set-up installs elsewhere."""
    wanted = {normal(name): version for name, version in pinned().items()}
    installed = {normal(found.name): found.version for found in distributions()}

    assert {} == {
        name: (version, wanted.get(name))
        for name, version in installed.items()
        if name not in NOT_PINNED and wanted.get(name) != version
    }


def test_what_other_pythons_need_is_pinned_as_well():
    """What is installed under this Python needs more under others that we support: it is pinned too."""
    environments = [
        {**default_environment(), "python_full_version": python, "python_version": python.rpartition(".")[0], "extra": ""}
        for python in PYTHONS
    ]
    needed = {
        normal(requirement.name)
        for found in distributions()
        if normal(found.name) not in NOT_PINNED
        for requirement in map(Requirement, found.requires or [])
        if any(requirement.marker is None or requirement.marker.evaluate(environment) for environment in environments)
    }

    assert set() == needed - {normal(name) for name in pinned()} - NOT_PINNED


def test_transport_is_pinned_in_the_metadata_as_well():
    """Constraints do not travel with a wheel; the pins that matter do."""
    needed = distribution("knowledge-pipeline").requires or []

    assert {"celery==5.6.3", "kombu==5.6.2", "redis<6.5,>=6.2"} <= set(needed)
