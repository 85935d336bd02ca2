"""The operations of the lifecycle as a person types them: real service, real broker, real workers, one of them killed."""

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from config.settings import load
from deploy.run import stack
from knowledge.interfaces.cli import ExitCode
from tests.fleet import START_SECONDS
from tests.integration.test_cli import COMMAND, ROOT, Cli, new_cli
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """A house with everything running, that looks for lost work each second; who stands still for a while has lost none."""
    cli = new_cli(tmp_path_factory.mktemp("house") / "data")
    cli.environ.update(KNOWLEDGE_SWEEP_SECONDS="1", KNOWLEDGE_LEASE_SECONDS="60")
    stack.up(cli.environ, wait_seconds=START_SECONDS)
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
    worker = int(stack.state(load(house.environ))["processes"]["worker"]["pid"])

    def is_struck_at_work():
        os.killpg(worker, signal.SIGSTOP)  # it must not be done before it has been looked at
        is_at_work = "embedding" in leaves(house, "killed")
        os.killpg(worker, signal.SIGKILL if is_at_work else signal.SIGCONT)
        return is_at_work

    wait_until(lambda: leaves(house, "killed").get("completed", 0) >= 4, 120)
    wait_until(is_struck_at_work, 120)
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
    root = house.json("item", "add", "followed", folder, "--wait", "--timeout", "200")["items"][0]["id"]
    before = {item["relative_path"]: item["id"] for item in house.json("item", "list", "followed", "--in", root)["items"]}
    (folder / "fog.txt").unlink()
    (folder / "new.txt").write_text("The supply boat comes on Tuesdays.")

    again = house.json("item", "reindex", "followed", root, "--wait", "--timeout", "200")

    assert ("completed", {"completed": 2}) == (again["wait"]["job"]["status"], again["wait"]["counts"]["leaves"])
    after = {item["relative_path"]: item["id"] for item in house.json("item", "list", "followed", "--in", root)["items"]}
    assert {"docs/keeper.md", "docs/new.txt"} == set(after)
    assert before["docs/keeper.md"] == after["docs/keeper.md"]
    assert [] == [hit for hit in house.json("search", "followed", "fog signal")["hits"] if "fog" in hit["text"]]


def test_a_folder_that_became_empty_empties_nothing_unasked(house, folder):
    """Without --allow-empty the directory keeps what it has, and the command tells of it; with it, it follows."""
    house.base(name="emptied")
    root = house.json("item", "add", "emptied", folder, "--wait", "--timeout", "200")["items"][0]["id"]
    for file in folder.iterdir():
        file.unlink()

    refused = house.run("item", "reindex", "emptied", "--all", "--wait", "--timeout", "200")
    assert ExitCode.OK != refused.returncode, refused
    assert 2 == len(house.json("item", "list", "emptied", "--in", root)["items"])

    house.run("item", "reindex", "emptied", root, "--allow-empty", "--wait", "--timeout", "200")
    assert [] == house.json("item", "list", "emptied", "--in", root)["items"]


def test_what_is_behind_an_item(house, folder):
    """Its passages with their place, the beginning of its text, its stored copy, and what explains it."""
    house.base(name="read")
    item = house.json("item", "add", "read", folder / "keeper.md", "--wait", "--timeout", "200")["items"][0]["id"]

    (chunk,) = house.json("item", "chunks", item)["chunks"]
    assert (0, 0, "completed") == (chunk["chunk_index"], chunk["char_start"], chunk["item_status"])
    assert "clockwork" in house.run("item", "chunks", item).stdout
    preview = house.json("item", "preview", item, "--characters", "12")
    assert ("# The keeper", True) == (preview["text"], preview["truncated"])
    assert (folder / "keeper.md").read_text() == Path(house.run("item", "path", item).stdout.strip()).read_text()
    why = house.json("jobs", "why", item)
    assert ("completed", "It is done.") == (why["job"]["status"], why["explanation"])
    assert "invalid_operation" == house.json("jobs", "cancel", why["job"]["id"], expect=ExitCode.FAILED)["code"]


def test_a_base_gets_its_first_model(house, folder):
    """Everything in it is indexed again with vectors; a second time is refused."""
    house.base(name="enabled")
    house.json("item", "add", "enabled", folder, "--wait", "--timeout", "200")

    enabled = house.json("base", "enable-embedder", "enabled", "local/hashing", "--wait", "--timeout", "60")
    assert ("hybrid", "settled", "completed") == (
        enabled["mode"], enabled["wait"]["outcome"], enabled["wait"]["job"]["status"],
    )  # fmt: skip
    assert {"completed": 2} == leaves(house, "enabled")
    assert no_job_left(house, "enabled")
    assert "hybrid" == house.json("search", "enabled", "clockwork")["mode"]
    assert (
        "invalid_operation" == house.json("base", "enable-embedder", "enabled", "local/hashing", expect=ExitCode.FAILED)["code"]
    )


def test_a_restored_base_is_waited_for(house, folder):
    """With the same ending as an add: what failed is named, and the exit code says it."""
    house.base(name="older")
    house.json("item", "add", "older", folder, "--wait", "--timeout", "60")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 and nothing else")

    restored = house.run("base", "restore", "older", "newer", "--wait", "--timeout", "60")

    assert ExitCode.PARTIAL == restored.returncode, restored
    assert re.search(r"failed: docs/broken.pdf: ", restored.stderr)
    assert {"completed": 2, "failed": 1} == leaves(house, "newer")
    again = house.json("base", "restore", "older", "newest")
    assert (None, 1) == (again["wait"], len(again["items"]))


def no_job_left(cli: Cli, base: str) -> bool:
    return {"completed"} == {job["status"] for job in cli.json("jobs", "list", "--base", base)["jobs"]}
