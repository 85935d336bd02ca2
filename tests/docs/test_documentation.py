"""What the documentation lists is what there is."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from config.settings import effective, load
from knowledge.errors import KnowledgeError, all_errors
from knowledge.interfaces.cli.root import app
from knowledge.model.jobs import KINDS

ROOT = Path(__file__).parents[2]


def read(name: str) -> str:
    return (ROOT / name).read_text()


@pytest.mark.parametrize("setting", effective(load({})), ids=lambda setting: setting.variable)
def test_setting_is_in_the_table_with_its_meaning(setting):
    """config/README.md has a row for each setting."""
    assert re.search(rf"^\| `{setting.variable}` \| .* \| {re.escape(setting.description)} \|$", read("config/README.md"), re.M)


def test_table_of_settings_has_no_row_too_many():
    """A setting that is gone is gone from the table."""
    listed = set(re.findall(r"^\| `(KNOWLEDGE_\w+)`", read("config/README.md"), re.M))

    assert {setting.variable for setting in effective(load({}))} == listed


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.type.value)
def test_job_is_described(kind):
    """tasks/README.md names each of the five jobs."""
    assert f"`{kind.type}`" in read("tasks/README.md")


def test_error_tree_is_drawn_as_it_is():
    """The head of errors.py has one line for each class, with its HTTP status and code, and no other line."""
    drawn = set(re.findall(r"^[│├└─ ]*(\w+) +(\d{3})  (\w+)", read("knowledge/errors.py").split('"""')[1], re.M))

    assert {(kind.__name__, str(kind.http_status), code) for code, kind in all_errors().items()} == drawn


def test_each_error_says_what_happened():
    """The docstring is the default message: one sentence that ends."""
    assert [] == [kind for kind in all_errors().values() if not (kind.__doc__ or "").strip().endswith((".", ";"))]


def test_error_codes_are_distinct():
    """A caller branches on the code."""
    classes: list[type[KnowledgeError]] = [KnowledgeError]
    for kind in classes:
        classes.extend(kind.__subclasses__())

    assert len({kind.code for kind in classes}) == len(classes)


def commands(command: Any, path: str) -> Iterator[Any]:
    """Every command below a group, with the words that call it."""
    for name, child in getattr(command, "commands", {}).items():
        words = f"{path} {name}"
        yield from commands(child, words) if hasattr(child, "commands") else [pytest.param(words, child, id=words)]


@pytest.mark.parametrize(("path", "command"), list(commands(typer.main.get_command(app), "knowledge")))
def test_command_has_an_example(path, command):
    """Each command's help shows one call of it."""
    assert f"Example: {path}" in f"{command.help}{command.epilog}".replace("\n", " ")


@pytest.mark.parametrize(
    "page", ["README.md", "deploy/OPERATING.md", "config/README.md", "tasks/README.md", "knowledge/README.md"]
)
def test_links_lead_somewhere(page):
    """Relative links name files of the checkout."""
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", read(page))

    assert [] == [target for target in targets if not ((ROOT / page).parent / target).exists()]


def test_make_targets_of_the_readme_exist():
    """Every `make x` that the README shows is a target."""
    named = set(re.findall(r"make (\w+)", read("README.md")))
    targets = set(re.findall(r"^(\w+):", read("Makefile"), re.M))

    assert set() == named - targets - {"and"}
