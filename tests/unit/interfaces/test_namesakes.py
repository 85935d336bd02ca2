"""Names that two have: allowed, told when it happens, and refused with the ids where one is meant."""

import pytest

from knowledge.interfaces.cli import ExitCode
from tests.unit.interfaces.test_lifecycle_commands import cli  # noqa: F401 - a fixture


def test_a_base_of_a_taken_name_is_told(cli):  # noqa: F811
    """By the id of each other base, on stderr; with --json nothing is said there."""
    ids = [cli.base(name="twin"), cli.base(name="twin")]
    cli.base(name="twin 2")
    done = cli.run("base", "create", "twin", "--no-embedder")

    assert ExitCode.OK == done.returncode
    (line,) = [line for line in done.stderr.splitlines() if "twin" in line]
    assert all(one in line for one in ids)
    assert "commands need the id" in line
    assert "" == cli.run("base", "create", "twin", "--no-embedder", "--json").stderr


def test_a_name_of_its_own_is_not_remarked_on(cli):  # noqa: F811
    """Nor one that is a part of another's."""
    cli.base(name="handbook")

    assert "another base" not in cli.run("base", "create", "hand", "--no-embedder").stderr


def test_a_new_name_that_is_taken_is_told(cli):  # noqa: F811
    """By `base patch`, which can make namesakes as well; other changes say nothing of it."""
    first, second = cli.base(name="twin"), cli.base(name="other")

    assert first in cli.run("base", "patch", second, "--name", "twin").stderr
    assert "" == cli.run("base", "patch", second, "--document-count", "3").stderr


def test_groups_have_namesakes_too(cli):  # noqa: F811
    """Created or renamed."""
    first = cli.json("group", "create", "g")["id"]
    said = cli.run("group", "create", "g").stderr
    other = cli.json("group", "create", "h")["id"]

    assert first in said
    assert "commands need the id" in said
    assert first in cli.run("group", "rename", other, "g").stderr


@pytest.mark.parametrize("number", [2, 7])
def test_a_name_of_several_lists_every_id(cli, number):  # noqa: F811
    """For people and programs; each id still works."""
    ids = [cli.base(name="twin") for _ in range(number)]
    people, machine = cli.run("base", "show", "twin"), cli.json("base", "show", "twin", expect=ExitCode.FAILED)

    assert ExitCode.FAILED == people.returncode
    assert all(one in people.stderr for one in ids)
    assert ("invalid_input", sorted(ids)) == (machine["code"], sorted(machine["details"]["ids"]))
    assert ids[-1] == cli.json("base", "show", ids[-1])["id"]
