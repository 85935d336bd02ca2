"""The operations of the lifecycle as a person types them: real service, real broker, real workers, one of them killed."""

import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from config.settings import load
from deploy.run import stack
from knowledge.interfaces.cli import ExitCode
from tests.integration.test_cli import COMMAND, ROOT, Cli, new_cli, wait_until


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """A house with neither broker nor workers."""
    return new_cli(tmp_path / "data")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """A house with everything running, that looks for lost work every second."""
    cli = new_cli(tmp_path_factory.mktemp("house") / "data")
    cli.environ.update(KNOWLEDGE_SWEEP_SECONDS="1", KNOWLEDGE_LEASE_SECONDS="10")
    stack.up(cli.environ)
    yield cli
    stack.down(cli.environ)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "keeper.md").write_text("# The keeper\n\nThe keeper winds the clockwork every fifty-five minutes.\n")
    (folder / "fog.txt").write_text("The fog signal sounds twice a minute.\n")
    return folder


# a killed worker -------------------------------------------------------------------------------------------------------------


def test_one_command_finishes_what_a_killed_worker_left(house, tmp_path):
    """`item add --wait` shows what was interrupted and the command that finishes it; typed as it stands, it does."""
    house.base("--embedder", "local/minilm", name="killed")
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(60):
        (folder / f"{number:03}.txt").write_text(f"Lighthouse number {number} stands on a rock. " * 40)
    adding = subprocess.Popen(
        [*COMMAND, "item", "add", "killed", folder, "--wait", "--timeout", "200"],
        cwd=ROOT, env=house.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_until(lambda: leaves(house, "killed").get("completed", 0) >= 4 and "embedding" in leaves(house, "killed"), 120)
    os.killpg(int(stack.state(load(house.environ))["processes"]["worker"]["pid"]), signal.SIGKILL)
    _, said = adding.communicate(timeout=250)

    assert ExitCode.PARTIAL == adding.returncode, said
    assert re.search(r"failed: many/\d+\.txt: indexing_interrupted", said)
    counts = leaves(house, "killed")
    assert counts["completed"] + counts["failed"] == 60
    (typed,) = re.findall(r"finish them with: knowledge (.*)", said)

    finished = house.run(*shlex.split(typed))
    assert ExitCode.OK == finished.returncode, finished
    assert {"completed": 60} == leaves(house, "killed")
    assert ("completed", None) == (lambda root: (root["status"], root["error"]))(
        house.json("item", "list", "killed", "--roots")["items"][0]
    )
    again = house.run(*shlex.split(typed))
    assert (ExitCode.OK, True) == (again.returncode, "nothing to index again" in again.stderr)


def leaves(cli: Cli, base: str) -> dict[str, int]:
    return dict(cli.json("base", "show", base)["counts"]["leaves"])


# items -----------------------------------------------------------------------------------------------------------------------


def test_a_directory_follows_its_folder(house, folder):
    """Reindex: what is still there keeps its id, what is new is found, what is gone is not; progress and counts are told."""
    house.base("--embedder", "local/hashing", name="followed")
    root = house.json("item", "add", "followed", folder, "--wait", "--timeout", "60")["items"][0]["id"]
    before = {item["relative_path"]: item["id"] for item in house.json("item", "list", "followed", "--in", root)["items"]}
    (folder / "fog.txt").unlink()
    (folder / "new.txt").write_text("The supply boat comes on Tuesdays.")

    again = house.json("item", "reindex", "followed", root, "--wait", "--timeout", "60")

    assert ("completed", {"completed": 2}) == (again["wait"]["job"]["status"], again["wait"]["counts"]["leaves"])
    after = {item["relative_path"]: item["id"] for item in house.json("item", "list", "followed", "--in", root)["items"]}
    assert {"docs/keeper.md", "docs/new.txt"} == set(after)
    assert before["docs/keeper.md"] == after["docs/keeper.md"]
    assert [] == [hit for hit in house.json("search", "followed", "fog signal")["hits"] if "fog" in hit["text"]]


def test_a_folder_that_became_empty_empties_nothing_unasked(house, folder):
    """Without --allow-empty the directory keeps what it has, and the command tells of it; with it, it follows."""
    house.base(name="emptied")
    root = house.json("item", "add", "emptied", folder, "--wait", "--timeout", "60")["items"][0]["id"]
    for file in folder.iterdir():
        file.unlink()

    refused = house.run("item", "reindex", "emptied", "--all", "--wait", "--timeout", "60")
    assert ExitCode.OK != refused.returncode, refused
    assert 2 == len(house.json("item", "list", "emptied", "--in", root)["items"])

    house.run("item", "reindex", "emptied", root, "--allow-empty", "--wait", "--timeout", "60")
    assert [] == house.json("item", "list", "emptied", "--in", root)["items"]


def test_what_is_behind_an_item(house, folder):
    """Its passages with their place, the beginning of its text, its stored copy, and what explains it."""
    house.base(name="read")
    item = house.json("item", "add", "read", folder / "keeper.md", "--wait", "--timeout", "60")["items"][0]["id"]

    (chunk,) = house.json("item", "chunks", item)["chunks"]
    assert (0, 0, "completed") == (chunk["chunk_index"], chunk["char_start"], chunk["item_status"])
    assert "clockwork" in house.run("item", "chunks", item).stdout
    preview = house.json("item", "preview", item, "--characters", "12")
    assert ("# The keeper", True) == (preview["text"], preview["truncated"])
    assert (folder / "keeper.md").read_text() == Path(house.run("item", "path", item).stdout.strip()).read_text()
    why = house.json("jobs", "why", item)
    assert ("completed", "It is done.") == (why["job"]["status"], why["explanation"])
    assert "invalid_operation" == house.json("jobs", "cancel", why["job"]["id"], expect=ExitCode.FAILED)["code"]


def test_adding_what_is_there_already(cli, folder):
    """Rename adds beside it, detect refuses and says why, replace takes its place and its name."""
    cli.base()
    keeper = folder / "keeper.md"
    first = cli.json("item", "add", "b", keeper)["items"][0]

    second = cli.json("item", "add", "b", keeper)["items"][0]
    assert first["relative_path"] != second["relative_path"]
    refused = cli.json("item", "add", "b", keeper, "--on-conflict", "detect", expect=ExitCode.FAILED)
    assert ([], [{"type": "file", "title": "keeper.md"}]) == (refused["items"], refused["conflicts"])
    assert "nothing was added" in cli.run("item", "add", "b", keeper, "--on-conflict", "detect").stderr
    replaced = cli.json("item", "add", "b", keeper, "--on-conflict", "replace")["items"][0]
    assert "keeper.md" == replaced["relative_path"]
    assert {second["id"], replaced["id"]} == {item["id"] for item in cli.json("item", "list", "b")["items"]}


def test_the_same_key_adds_once(cli, folder):
    """A script that is run again adds nothing again, and reads the same answer."""
    cli.base()
    command = ["item", "add", "b", folder / "keeper.md", "--idempotency-key", "nightly-1"]

    assert cli.json(*command)["items"][0]["id"] == cli.json(*command)["items"][0]["id"]
    assert 1 == cli.json("item", "list", "b")["total"]


def test_items_that_are_worked_on_are_not_indexed_again(cli, folder):
    """The error names the items; nothing has changed."""
    cli.base()
    item = cli.json("item", "add", "b", folder / "keeper.md")["items"][0]["id"]

    assert [item] == cli.json("item", "reindex", "b", item, expect=ExitCode.FAILED)["details"]["item_ids"]
    assert "nothing to index again" in cli.run("item", "reindex", "b", "--interrupted").stderr


def test_stepping_in_between(cli, folder):
    """A waiting job can be hurried and stopped; its item is parked, says why, and counts as interrupted."""
    cli.base()
    item = cli.json("item", "add", "b", folder / "keeper.md")["items"][0]["id"]
    (job,) = cli.json("jobs", "list")["jobs"]

    assert "It waits" in cli.run("jobs", "why", item).stdout
    assert "pending" == cli.json("jobs", "requeue", job["id"])["status"]
    assert "cancelled" == cli.json("jobs", "cancel", job["id"])["status"]
    assert "indexing_interrupted" in cli.run("jobs", "why", item).stdout
    assert [item] == cli.json("item", "reindex", "b", "--interrupted")["root_ids"]


# bases -----------------------------------------------------------------------------------------------------------------------


def test_settings_of_a_base_change_and_clear(cli):
    """What is given changes, what is cleared is gone, the rest stays; together they must make sense."""
    cli.base("--no-embedder", "--chunk-size", "300", "--chunk-overlap", "20")
    group = cli.json("group", "create", "rocks")["id"]

    patched = cli.json("base", "patch", "b", "--name", "light", "--group", "rocks", "--document-count", "7", "--fail-on-empty")
    assert ("light", group, 7, True, 300) == tuple(
        patched[field] for field in ("name", "group_id", "document_count", "fail_on_empty", "chunk_size")
    )
    cleared = cli.json("base", "patch", "light", "--no-group", "--no-fail-on-empty")
    assert (None, False, 7) == (cleared["group_id"], cleared["fail_on_empty"], cleared["document_count"])
    assert "invalid_input" == cli.json("base", "patch", "light", "--chunk-overlap", "300", expect=ExitCode.FAILED)["code"]
    assert "group_not_found" == cli.json("base", "patch", "light", "--group", "none", expect=ExitCode.FAILED)["code"]


def test_groups_by_id_and_by_name(cli):
    """A name that two groups have is refused with both ids; deleting a group ungroups its bases."""
    first, second = (cli.json("group", "create", "twin")["id"] for _ in range(2))

    assert {first, second} == set(cli.json("group", "rename", "twin", "x", expect=ExitCode.FAILED)["details"]["ids"])
    assert "rocks" == cli.json("group", "rename", first, "rocks")["name"]
    cli.base("--no-embedder", "--group", "rocks")
    assert first == cli.json("base", "show", "b")["group_id"]
    assert cli.json("group", "delete", "rocks")["deleted"]
    assert None is cli.json("base", "show", "b")["group_id"]
    assert [second] == [group["id"] for group in cli.json("group", "list")["groups"]]


def test_bases_are_searched_sorted_and_paged(cli):
    """Part of the name in any case, an order, and a cursor that leads to the end, each base once."""
    for name in ("Anchor", "buoy", "BUOYANT", "cable"):
        cli.base(name=name)

    found = cli.json("base", "list", "--search", "uoy", "--sort", "name", "--order", "asc")
    assert {"buoy", "BUOYANT"} == {base["name"] for base in found["bases"]}
    first = cli.json("base", "list", "--limit", "3", "--sort", "name")
    rest = cli.json("base", "list", "--limit", "3", "--sort", "name", "--cursor", first["next_cursor"])
    assert (4, None) == (first["total"], rest["next_cursor"])
    assert 4 == len({base["id"] for base in first["bases"] + rest["bases"]})
    assert [] == cli.json("base", "list", "--updated-from", "2999-01-01")["bases"]


def test_a_base_gets_its_first_model(house, folder):
    """Everything in it is indexed again with vectors; a second time is refused."""
    house.base(name="enabled")
    house.json("item", "add", "enabled", folder, "--wait", "--timeout", "60")

    assert "hybrid" == house.json("base", "enable-embedder", "enabled", "local/hashing")["mode"]
    wait_until(lambda: not set(leaves(house, "enabled")) - {"completed"} and no_job_left(house, "enabled"))
    assert "hybrid" == house.json("search", "enabled", "clockwork")["mode"]
    assert (
        "invalid_operation" == house.json("base", "enable-embedder", "enabled", "local/hashing", expect=ExitCode.FAILED)["code"]
    )


def no_job_left(cli: Cli, base: str) -> bool:
    return {"completed"} == {job["status"] for job in cli.json("jobs", "list", "--base", base)["jobs"]}


def test_a_base_is_rebuilt_into_another(cli, folder):
    """Settings and roots are carried over; a root whose folder is gone is left out and counted."""
    cli.base("--no-embedder", "--chunk-size", "300", "--chunk-overlap", "20")
    cli.run("item", "add", "b", folder, folder / "keeper.md", "--note", "a note")
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()

    restored = cli.json("base", "restore", "b", "b2")

    assert (300, "lexical", 1) == (
        restored["base"]["chunk_size"],
        restored["base"]["mode"],
        restored["skipped_missing_sources"],
    )
    assert ["file", "note"] == sorted(item["type"] for item in restored["items"])
    assert "left out: the source is gone" in cli.run("base", "restore", "b", "b3").stderr


def test_a_bundle_whose_model_is_not_declared_arrives_failed_and_can_be_restored(cli, tmp_path):
    """It is listed with its reason, refuses work, and the hint that leads out of it works as typed."""
    item = {"id": "1", "type": "note", "source": "n", "relative_path": "n.md", "data": {"content": "a note"}}
    with ZipFile(tmp_path / "bundle.zip", "w") as bundle:
        bundle.writestr(
            "base.json", json.dumps({"format": 1, "base": {"name": "old", "embedder": "gone/model"}, "items": [item]})
        )
        bundle.writestr("raw/n.md", "a note")

    imported = cli.run("base", "import", tmp_path / "bundle.zip")
    assert ExitCode.OK == imported.returncode, imported
    assert "failed (missing_embedding_model)" in cli.run("base", "list").stdout
    assert "base_failed" == cli.json("search", "old", "note", expect=ExitCode.FAILED)["code"]
    (typed,) = re.findall(r"restored: knowledge (.*)", imported.stderr)
    restored = cli.json(*shlex.split(typed.replace("NAME", "new")))
    assert ("completed", 1) == (restored["base"]["status"], len(restored["items"]))
    assert "bundle_unreadable" == cli.json("base", "import", "no.zip", expect=ExitCode.FAILED)["code"]
