"""The operations of the lifecycle as they are typed, on a real runtime in this process; nothing works behind it."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from zipfile import ZipFile

import pytest

from knowledge.interfaces.cli import ExitCode
from knowledge.interfaces.cli.output import Output
from knowledge.interfaces.cli.root import run
from knowledge.interfaces.cli.watching import _Keeper
from knowledge.model.documents import EmbedderSpec
from knowledge.model.inputs import DirectoryInput
from tests.house import House

SMALL_MODELS = (EmbedderSpec(id="hashing", kind="hashing", dimensions=16, max_input_tokens=100),)


class Typed:
    """Runs commands in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        code = run([str(argument) for argument in arguments])
        said = self.capsys.readouterr()
        assert "Traceback" not in said.err
        return subprocess.CompletedProcess(arguments, code, said.out, said.err)

    def json(self, *arguments: str | Path, expect: int = ExitCode.OK) -> dict[str, Any]:
        """The JSON of a command that ends with this exit code: from stdout, or from stderr if that is where it is."""
        done = self.run(*arguments, "--json")
        assert expect == done.returncode, done
        answer: dict[str, Any] = json.loads(done.stdout or done.stderr)
        return answer

    def base(self, *options: str, name: str = "b") -> str:
        return str(self.json("base", "create", name, *(options or ("--no-embedder",)))["id"])


@pytest.fixture
def cli(house: House, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    """The command line of an application that is this house."""
    application = ModuleType("house_application")
    vars(application).update(
        service=lambda: house.service,
        default_embedder=lambda: None,
        list_models=lambda: SMALL_MODELS,
        log_directory=lambda: house.root,
    )
    monkeypatch.setitem(sys.modules, "house_application", application)
    monkeypatch.setenv("KNOWLEDGE_APP", "house_application:service")
    return Typed(capsys)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "keeper.md").write_text("The keeper winds the clockwork every fifty-five minutes.\n")
    (folder / "fog.txt").write_text("The fog signal sounds twice a minute.\n")
    return folder


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
    assert "It waits for " in cli.run("jobs", "requeue", job["id"]).stderr
    assert "cancelled" == cli.json("jobs", "cancel", job["id"])["status"]
    assert "indexing_interrupted" in cli.run("jobs", "why", item).stdout
    assert [item] == cli.json("item", "reindex", "b", "--interrupted")["root_ids"]


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


# items -----------------------------------------------------------------------------------------------------------------------


def test_each_note_of_a_command_is_added(cli):
    """None of several --note is lost."""
    cli.base()

    added = cli.json("item", "add", "b", "--note", "first", "--note", "second")

    assert ["first", "second"] == [item["source"] for item in added["items"]]


def test_an_unknown_directory_is_not_an_empty_one(cli):
    """`--in` of an id that does not exist, or of another base, is refused."""
    cli.base()
    cli.base(name="other")
    there = cli.json("item", "add", "other", "--note", "text")["items"][0]["id"]

    assert "item_not_found" == cli.json("item", "list", "b", "--in", "nothing", expect=ExitCode.FAILED)["code"]
    assert "item_not_in_base" == cli.json("item", "list", "b", "--in", there, expect=ExitCode.FAILED)["code"]


def test_a_cursor_that_is_none_of_ours_gives_the_first_page(cli):
    """As the catalogue promises."""
    cli.base()
    cli.run("item", "add", "b", "--note", "text")

    assert 1 == len(cli.json("item", "list", "b", "--cursor", "garbage")["items"])


def test_the_name_is_the_last_column(cli):
    """A very long one widens no row but its own."""
    cli.base()
    cli.run("item", "add", "b", "--note", "x", "--title", "n" * 150)
    cli.run("item", "add", "b", "--note", "x", "--title", "short")

    heading, *rows = cli.run("item", "list", "b").stdout.splitlines()
    assert heading.endswith("NAME")
    assert 100 > min(len(row) for row in rows)


def test_a_base_says_how_long_its_passages_really_are(cli):
    """What the model takes counts where it is less than what the base says."""
    cli.base("--embedder", "hashing", name="small")

    assert "at most 100 tokens (all that hashing takes; the base says 1024 tokens, 200 shared)" in (
        cli.run("base", "show", "small").stdout
    )


def test_an_application_without_models_says_so(cli, monkeypatch):
    """An empty answer is explained."""
    monkeypatch.setattr(sys.modules["house_application"], "list_models", lambda: ())

    assert "no models are declared" in cli.run("model", "list").stderr


@pytest.mark.parametrize(
    "blank", [["--note", ""], ["--note", " \n"], ["--note", "text", "--note", ""], ["--note-file", "blank.md"]]
)
def test_a_blank_note_is_refused_before_anything_is_added(cli, folder, blank, monkeypatch):
    """The option is named; what was given beside it is not added either."""
    monkeypatch.chdir(folder)
    Path("blank.md").write_text(" \n\n")
    cli.base()
    done = cli.run("item", "add", "b", folder / "keeper.md", *blank)

    assert ExitCode.USAGE == done.returncode
    assert f"{blank[-2]}" in done.stderr
    assert "is blank" in done.stderr
    assert 0 == cli.json("item", "list", "b")["total"]


# what is said ----------------------------------------------------------------------------------------------------------------


def test_a_base_that_is_changed_says_how_much_it_holds(cli):
    """To people and to programs."""
    cli.base()
    cli.run("item", "add", "b", "--note", "one", "--note", "two")

    assert 2 == cli.json("base", "patch", "b", "--document-count", "7")["item_count"]
    assert re.search(r"^items +2$", cli.run("base", "patch", "b", "--document-count", "8").stdout, re.M)


@pytest.mark.parametrize("number", ["99999999999999999999999", "9223372036854775808", "5000001", "0", "-1"])
@pytest.mark.parametrize("option", ["--chunk-size", "--chunk-overlap", "--document-count"])
@pytest.mark.parametrize("command", [["base", "create", "c", "--no-embedder"], ["base", "patch", "b"]])
def test_a_size_that_cannot_be_meant_is_wrong_use(cli, command, option, number):
    """The field is named, whatever its size."""
    if (option, number) == ("--chunk-overlap", "0"):
        return
    cli.base()

    refused = cli.json(*command, option, number, expect=ExitCode.USAGE)
    assert ("usage", True) == (refused["code"], option[2:].replace("-", "_") in refused["message"])


def test_what_a_setting_does_not_do_is_said(cli):
    """There is no reranker; a file processor that is not there cannot be chosen."""
    cli.base()

    assert "kept for later" in cli.run("base", "patch", "b", "--rerank-model", "nosuch").stderr
    assert "Kept for later" in cli.run("base", "patch", "--help").stdout
    refused = cli.json("base", "patch", "b", "--file-processor", "nosuch", expect=ExitCode.FAILED)
    assert ("invalid_input", "file_processor") == (refused["code"], refused["details"]["field"])


def test_an_emptied_folder_has_done_what_was_asked_for(cli, folder, house):
    """`--allow-empty` ends well, and nothing is inside."""
    cli.base()
    root = cli.json("item", "add", "b", folder)["items"][0]["id"]
    house.work()
    assert re.search(r"^inside +2 completed$", cli.run("item", "show", root).stdout, re.M)
    for file in folder.iterdir():
        file.unlink()
    cli.run("item", "reindex", "b", root, "--allow-empty")
    house.work(hurry=True)

    shown = cli.run("item", "show", root).stdout
    assert re.search(r"^status +completed$", shown, re.M)
    assert "inside" not in shown


def test_a_folder_that_failed_by_itself_is_not_inside_itself(cli, folder, house):
    """What is inside are its files; it says its own failure as its own."""
    (folder / "empty").mkdir()
    cli.base()
    root = cli.json("item", "add", "b", folder / "empty")["items"][0]["id"]
    house.work()

    shown = cli.run("item", "show", root).stdout
    assert "failed" in shown
    assert "inside" not in shown


def test_what_is_gone_of_a_request_is_named(cli, house):
    """An add that is asked again never says that it accepted nothing."""
    cli.base()
    command = ["item", "add", "b", "--note", "one", "--idempotency-key", "k"]
    (one,) = [item["id"] for item in cli.json(*command)["items"]]
    cli.run("item", "delete", "b", one)
    house.work()

    again = cli.json(*command)
    assert ([], [one]) == (again["items"], again["gone"])
    said = cli.run(*command)
    assert (ExitCode.OK, f"accepted, and deleted or replaced meanwhile: {one}\n") == (
        said.returncode,
        said.stderr.replace("accepted; no worker is running: start one with `make up`\n", ""),
    )
    assert 1 == cli.json(*command, "--wait", expect=ExitCode.FAILED)["wait"]["gone"]


CHOICES = [
    ["base", "list", "--sort", "bogus"],
    ["item", "list", "b", "--status", "bogus"],
    ["item", "add", "b", "--note", "x", "--on-conflict", "bogus"],
    ["jobs", "list", "--status", "bogus"],
]


@pytest.mark.parametrize("typed", CHOICES, ids=lambda typed: " ".join(typed[:2]))
def test_a_choice_that_there_is_not_is_told_in_our_words(cli, typed):
    """Without those of the library that found it."""
    cli.base()

    for said in (cli.json(*typed, expect=ExitCode.USAGE)["message"], cli.run(*typed).stderr):
        assert "'bogus' is not one of" in said
        assert "Value error" not in said


def test_what_excludes_each_other_is_said(cli):
    """Ids and all of them; a list of what is hidden."""
    cli.base()

    assert "exclude each other" in cli.run("item", "reindex", "b", "--all", "id").stderr
    assert "exclude each other" in cli.run("item", "reindex", "b", "--all", "--interrupted").stderr
    assert "exclude each other" in cli.run("item", "delete", "b", "--all", "id").stderr
    hidden = cli.run("item", "list", "b", "--status", "deleting")
    assert (ExitCode.USAGE, True) == (hidden.returncode, "hidden" in hidden.stderr)


def test_why_says_that_nobody_is_there_to_do_it(cli, house):
    """A job that waits, waits for a worker that does not run; one that is done waits for nobody."""
    cli.base()
    (item,) = [item["id"] for item in cli.json("item", "add", "b", "--note", "one")["items"]]

    assert "no worker is running" in cli.run("jobs", "why", item).stderr
    house.work()
    assert "no worker" not in cli.run("jobs", "why", item).stderr


def test_what_is_being_deleted_is_told_in_one_way(cli, folder):
    """By whatever asks for its text or its bytes."""
    cli.base()
    item = cli.json("item", "add", "b", folder / "keeper.md")["items"][0]["id"]
    cli.run("item", "delete", "b", item)

    said = {cli.json("item", verb, item, expect=ExitCode.FAILED)["message"] for verb in ("preview", "chunks", "path")}
    assert {"This item, or a part of it, is being deleted."} == said


def test_a_watch_says_how_a_folder_may_be_empty(cli, folder, house, capsys):
    """It removes nothing by itself when a folder is empty of a sudden; the command that does is named."""
    base = house.service.base(cli.base())
    keeper = _Keeper(house.service, base, Output())
    keeper.adopt(DirectoryInput(path=folder))
    house.work()
    for file in folder.iterdir():
        file.unlink()
    for is_dirty in (False, True):  # what was begun is told, then the folder is looked at again
        keeper.tick(is_dirty=is_dirty)
        house.work()
    keeper.tick(is_dirty=False)

    (item,) = house.service.list_items(base.id, roots_only=True).items
    *_, told = capsys.readouterr().out.splitlines()
    assert "not in step: sources_unverifiable" in told
    assert told.endswith(f"knowledge item reindex {base.id} {item.id} --allow-empty")
