"""The real command line, as a person or a script types it: real service, real broker, real workers."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from config import broker
from config.settings import load
from deploy.run import stack
from knowledge.interfaces.cli import ExitCode
from tests.fleet import FLOWER, START_SECONDS
from tests.waiting import PATIENCE_SECONDS, wait_until

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "knowledge.interfaces.cli"]
BROKEN_PDF = b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog /Pages 9 0 R >>\nendobj\n"


@dataclass(frozen=True)
class Cli:
    """Runs commands on one data directory."""

    environ: dict[str, str]

    def run(self, *arguments: str | Path, stdin: bytes | None = None, **more: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*COMMAND, *map(os.fspath, arguments)],
            cwd=ROOT, env=self.environ | more, capture_output=True, check=False, timeout=250,
            **({"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}),
        )  # fmt: skip
        out, err = done.stdout.decode(), done.stderr.decode()
        assert "Traceback" not in err, err
        return subprocess.CompletedProcess(done.args, done.returncode, out, err)

    def json(self, *arguments: str | Path, expect: int = ExitCode.OK, **more: str) -> dict[str, Any]:
        """The JSON of a command that ends with this exit code: from stdout, or from stderr if that is where it is."""
        done = self.run(*arguments, "--json", **more)
        assert expect == done.returncode, done
        answer: dict[str, Any] = json.loads(done.stdout or done.stderr)
        return answer

    def base(self, *options: str, name: str = "b") -> str:
        return str(self.json("base", "create", name, *(options or ("--no-embedder",)))["id"])


def new_cli(directory: Path) -> Cli:
    return Cli({**os.environ, **FLOWER, "KNOWLEDGE_DATA_DIR": str(directory), "KNOWLEDGE_DRAIN_SECONDS": "2"})


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """A house with neither broker nor workers."""
    return new_cli(tmp_path / "data")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """A house with everything running."""
    cli = new_cli(tmp_path_factory.mktemp("house") / "data")
    stack.up(cli.environ, wait_seconds=START_SECONDS)
    yield cli
    stack.down(cli.environ)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "keeper.md").write_text("# The keeper\n\nThe keeper winds the clockwork every fifty-five minutes.\n")
    (folder / "灯塔.txt").write_text("能见度低于两海里时开启雾号。\n")
    return folder


# bases -----------------------------------------------------------------------------------------------------------------------


def test_the_default_base_is_hybrid_where_the_local_model_is_installed(cli):
    """Without options a base uses the default model, and says which."""
    base = cli.json("base", "create", "handbook")

    assert ("hybrid", "local/minilm", 384) == (base["mode"], base["embedder"], base["dimensions"])


def test_a_base_without_embedder_says_what_that_means(cli):
    """A lexical base is announced as such; its options are those that were given."""
    done = cli.run("base", "create", "words", "--no-embedder", "--chunk-size", "300", "--chunk-overlap", "0")

    assert ExitCode.OK == done.returncode
    assert "lexical" in done.stdout
    assert "at most 300 tokens, 0 shared" in done.stdout
    assert "searched by its words only" in done.stderr


def test_a_base_goes_by_id_or_by_its_only_name(cli):
    """A name that two bases have is refused with both ids; each id works."""
    first, second = cli.base(name="twin"), cli.base(name="twin")

    refused = cli.json("base", "show", "twin", expect=ExitCode.FAILED)
    assert "invalid_input" == refused["code"]
    assert {first, second} == set(refused["details"]["ids"])
    assert second == cli.json("base", "show", second)["id"]


def test_deleting_a_base_asks_or_needs_yes(cli):
    """Where nobody can be asked, nothing is deleted without --yes; afterwards the base is unknown."""
    cli.base()

    assert ExitCode.USAGE == cli.run("base", "delete", "b").returncode
    assert 1 == len(cli.json("base", "list")["bases"])
    assert cli.json("base", "delete", "b", "--yes")["deleted"]
    assert "base_not_found" == cli.json("base", "show", "b", expect=ExitCode.FAILED)["code"]


# errors ----------------------------------------------------------------------------------------------------------------------


def test_an_unknown_base_for_people(cli):
    """One line with the code; no traceback."""
    done = cli.run("search", "nowhere", "x")

    assert ExitCode.FAILED == done.returncode
    assert "" == done.stdout
    assert "(base_not_found)" in done.stderr


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        ("path_not_found", ["item", "add", "b", "no/such/path"]),
        ("item_not_found", ["item", "show", "no-such-item"]),
        ("item_not_found", ["item", "delete", "b", "no-such-item"]),
        ("job_not_found", ["jobs", "show", "no-such-job"]),
        ("model_not_found", ["base", "create", "x", "--embedder", "no/such"]),
        ("empty_query", ["search", "b", "?!"]),
        ("unsupported", ["item", "add", "b", "/dev/null"]),
    ],
)
def test_refusals_of_the_service_are_code_1_with_their_own_code(cli, code, arguments):
    """The error's code reaches the program that called; nothing has changed."""
    cli.base()
    if "/dev/null" in arguments:
        code = "invalid_input"  # a device is not a file

    assert code == cli.json(*arguments, expect=ExitCode.FAILED)["code"]
    assert 0 == cli.json("base", "show", "b")["item_count"]


def test_a_wrong_setting_is_named(cli):
    """Settings are checked before anything is done."""
    error = cli.json("base", "list", expect=ExitCode.FAILED, KNOWLEDGE_LAESE_SECONDS="3")

    assert "configuration_error" == error["code"]
    assert "KNOWLEDGE_LEASE_SECONDS" in error["message"]


# settings, models, tables ----------------------------------------------------------------------------------------------------


def test_config_masks_secrets_and_says_where_values_come_from(cli):
    """Every setting is there, passwords are not."""
    done = cli.run("config", "--json", KNOWLEDGE_BROKER_URL="redis://:tr0ub4dor@localhost:6379/0")

    assert "tr0ub4dor" not in done.stdout + done.stderr
    settings = {setting["variable"]: setting for setting in json.loads(done.stdout)["settings"]}
    assert "environment" == settings["KNOWLEDGE_BROKER_URL"]["origin"]
    assert ("60", "default") == (settings["KNOWLEDGE_LEASE_SECONDS"]["value"], settings["KNOWLEDGE_LEASE_SECONDS"]["origin"])


def test_models_are_listed_with_the_default(cli):
    """Exactly one model is the default."""
    models = cli.json("model", "list")["models"]

    assert ["local/minilm"] == [model["id"] for model in models if model["is_default"]]


def test_upgrade_can_be_repeated(cli):
    """The catalogue is made, and is left as it is the second time."""
    first = cli.json("db", "upgrade")["result"]

    assert first == cli.json("db", "upgrade")["result"]


# adding without anybody to work ----------------------------------------------------------------------------------------------


def test_without_a_broker_work_is_accepted_and_said_to_wait(cli, folder):
    """The receipt tells that the broker does not answer; the item is there."""
    cli.base()
    done = cli.run("item", "add", "b", folder / "keeper.md")

    assert ExitCode.OK == done.returncode
    assert 1 == done.stderr.count("broker does not answer")
    assert done.stderr.startswith("accepted; the broker does not answer")
    assert "" == cli.run("item", "add", "b", folder / "keeper.md", "--json").stderr
    assert ["processing"] * 2 == [item["status"] for item in cli.json("item", "list", "b")["items"]]
    assert "not sent yet" in cli.run("jobs", "list").stdout


def test_waiting_ends_at_its_timeout(cli, folder):
    """The time over is code 1 with what is known so far; the work stays."""
    cli.base()
    answer = cli.json("item", "add", "b", folder / "keeper.md", "--wait", "--timeout", "0.5", expect=ExitCode.FAILED)

    assert not answer["published"]
    assert "timed_out" == answer["wait"]["outcome"]
    assert {"processing": 1} == answer["wait"]["counts"]["leaves"]
    assert 1 == cli.json("item", "list", "b")["total"]


def test_ctrl_c_stops_waiting_and_not_the_work(cli, folder):
    """The person reads that the work goes on; the item is still on its way."""
    cli.base()
    waiting = subprocess.Popen(
        [*COMMAND, "item", "add", "b", folder / "keeper.md", "--wait"],
        cwd=ROOT, env=cli.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert waiting.stderr is not None
    for line in waiting.stderr:
        if "%" in line:  # the first report: it is waiting now
            break
    waiting.send_signal(signal.SIGINT)
    _, said = waiting.communicate(timeout=250)

    assert ExitCode.STOPPED == waiting.returncode
    assert "the work goes on" in said
    assert "Traceback" not in said
    assert ["processing"] == [item["status"] for item in cli.json("item", "list", "b")["items"]]


def test_with_a_broker_and_no_worker_it_says_how_to_start_one(cli, folder):
    """`knowledge broker` answers; the receipt misses the workers; the broker ends in order."""
    cli.base()
    running = subprocess.Popen([*COMMAND, "broker"], cwd=ROOT, env=cli.environ, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: broker.ping(load(cli.environ)))
        done = cli.run("item", "add", "b", folder / "keeper.md")
    finally:
        running.terminate()
        _, said = running.communicate(timeout=PATIENCE_SECONDS)

    assert "accepted; no worker is running: start one with `make up`" in done.stderr
    assert ExitCode.OK == running.returncode, said


def test_a_note_from_stdin_keeps_its_title(cli):
    """`--note-file -` reads what is piped in; the title names it."""
    cli.base()
    done = cli.run(
        "item", "add", "b", "--note-file", "-", "--title", "Soup for twelve", "--json", stdin="粥 and barley".encode()
    )

    (item,) = json.loads(done.stdout)["items"]
    assert ("note", "Soup for twelve") == (item["type"], item["source"])


def test_pages_of_a_list_hold_each_item_once(cli, tmp_path):
    """Following the cursor shows all items, the last page has none."""
    cli.base()
    files = [tmp_path / f"{number}.txt" for number in range(5)]
    for file in files:
        file.write_text(file.name)
    cli.run("item", "add", "b", *files)

    first = cli.json("item", "list", "b", "--limit", "2")
    second = cli.json("item", "list", "b", "--limit", "2", "--cursor", first["next_cursor"])
    third = cli.json("item", "list", "b", "--limit", "2", "--cursor", second["next_cursor"])

    assert (5, None) == (first["total"], third["next_cursor"])
    assert 5 == len({item["id"] for page in (first, second, third) for item in page["items"]})


def test_a_name_that_the_locale_cannot_say_is_named_with_the_fix(cli, tmp_path):
    """Not an encoding error from somewhere inside."""
    cli.base()
    (tmp_path / "灯塔.txt").write_text("text")

    done = cli.run("item", "add", "b", tmp_path / "灯塔.txt", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert ExitCode.USAGE == done.returncode
    assert "set PYTHONUTF8=1" in done.stderr
    assert tmp_path.name in done.stderr


def test_names_from_outside_cannot_break_the_terminal(cli, tmp_path):
    """Line breaks, escapes, direction marks and bytes that are not UTF-8 in file names stay inside their row. A base's name may
    hold direction marks, and no escapes."""
    name_of_base = "b\u202ec"
    cli.base(name=name_of_base)
    refused = cli.run("base", "create", "b\x1b[2J", "--no-embedder")
    names = [b"two\nlines.txt", b"esc\x1b[2J.txt", "rtl\u202etxt.txt".encode(), b"caf\xe9.txt"]
    for name in names:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_text("text")
    paths = [os.fsdecode(os.fsencode(tmp_path) + b"/" + name) for name in names]

    added = cli.run("item", "add", name_of_base, *paths)
    listed = cli.run("item", "list", name_of_base)
    shown = cli.run("base", "list").stdout

    assert ExitCode.OK == added.returncode, added
    assert 1 + len(names) == len(listed.stdout.splitlines())
    assert ExitCode.USAGE == refused.returncode, refused
    for text in (added.stdout, listed.stdout, shown, refused.stderr):
        assert not {"\x1b", "\u202e", "\r"} & set(text)


# the whole way ---------------------------------------------------------------------------------------------------------------


def test_from_a_folder_to_a_hit_and_away(house, folder):
    """Add a folder and a note, wait, list, search in two languages, delete, search again."""
    house.base("--embedder", "local/hashing", name="whole")

    added = house.json("item", "add", "whole", folder, "--note", "The goat belongs to nobody.", "--wait", "--timeout", "200")
    assert ["directory", "note"] == [item["type"] for item in added["items"]]
    assert ("settled", {"completed": 3}) == (added["wait"]["outcome"], added["wait"]["counts"]["leaves"])
    assert {"completed"} == {item["status"] for item in added["items"]}

    hits = house.json("search", "whole", "clockwork")["hits"]
    assert "docs/keeper.md" == hits[0]["concept_id"]
    assert "docs/灯塔.txt" == house.json("search", "whole", "什么时候开启雾号", "--limit", "1")["hits"][0]["concept_id"]
    printed = house.run("search", "whole", "clockwork")
    assert "1. docs/keeper.md" in printed.stdout
    assert "winds the clockwork" in printed.stdout

    deleted = house.json("item", "delete", "whole", "--all", "--wait", "--timeout", "200")
    assert 2 == len(deleted["root_ids"])
    assert "settled" == deleted["wait"]["outcome"]
    assert (0, []) == (house.json("item", "list", "whole")["total"], house.json("search", "whole", "clockwork")["hits"])


def test_failures_are_listed_and_partial_success_has_its_own_code(house, folder):
    """One bad file among good ones: code 3, the file and its error named; alone: code 1."""
    house.base(name="mixed")
    (folder / "broken.pdf").write_bytes(BROKEN_PDF)

    mixed = house.run("item", "add", "mixed", folder, "--wait", "--timeout", "200")
    assert ExitCode.PARTIAL == mixed.returncode, mixed
    assert "failed: docs/broken.pdf: corrupt" in mixed.stderr
    assert "2 completed, 1 failed" in mixed.stderr

    alone = house.json("item", "add", "mixed", folder / "broken.pdf", "--wait", "--timeout", "200", expect=ExitCode.FAILED)
    assert ["corrupt"] == [item["error"] for item in alone["wait"]["failures"]]
    assert ["failed"] == [item["status"] for item in alone["items"]]


def test_a_directory_shows_what_failed_inside(house, folder):
    """`item show` of a directory counts its files and names the failed ones."""
    house.base(name="inside")
    (folder / "broken.pdf").write_bytes(BROKEN_PDF)
    added = house.json("item", "add", "inside", folder, "--wait", "--timeout", "200", expect=ExitCode.PARTIAL)

    shown = house.json("item", "show", added["items"][0]["id"])

    assert {"completed": 2, "failed": 1} == shown["counts"]["leaves"]
    assert ["docs/broken.pdf"] == [item["relative_path"] for item in shown["failures"]]


def test_files_that_a_directory_left_out_are_told(house, folder):
    """Empty files and files that no reader knows are no failures, but they are counted by reason."""
    house.base(name="choosy")
    (folder / "nothing.txt").touch()
    (folder / "image.xyz").write_bytes(bytes(range(256)))
    (folder / ".secret").write_text("text")

    done = house.run("item", "add", "choosy", folder, "--wait", "--timeout", "200")

    assert ExitCode.OK == done.returncode, done
    assert "left out of docs: " in done.stderr
    assert "1 empty" in done.stderr
    assert "1 unsupported" in done.stderr
    (root,) = house.json("item", "list", "choosy", "--roots")["items"]
    shown = house.run("item", "show", root["id"]).stdout.splitlines()
    assert {"left out: nothing.txt (empty)", "left out: image.xyz (unsupported)"} <= set(shown)
    assert "left out: 1 hidden file or folder, not named" in shown


def test_jobs_tell_what_was_done(house, folder):
    """After the work the ledger shows it, newest first, and each job by its id."""
    house.base(name="worked")
    house.json("item", "add", "worked", folder / "keeper.md", "--wait", "--timeout", "200")

    (job,) = house.json("jobs", "list", "--base", "worked")["jobs"]
    assert ("knowledge.index-documents", "completed") == (job["type"], job["status"])
    assert job["id"] == house.json("jobs", "show", job["id"])["id"]


def test_a_terminal_sees_a_bar_and_what_came_of_it(house, folder):
    """On a terminal waiting is a live bar with percent; lines and summary follow when it is done."""
    house.base(name="seen")

    seen = on_a_terminal([*COMMAND, "item", "add", "seen", str(folder), "--wait", "--timeout", "200"], house.environ)

    assert "100%" in seen
    assert "done in" in seen
    assert "2 completed" in seen


def on_a_terminal(command: list[str], environ: dict[str, str]) -> str:
    """What the command writes to a terminal of 100 columns."""
    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        command, cwd=ROOT, env=environ | {"COLUMNS": "100", "TERM": "xterm"}, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    written = b""
    try:
        while select.select([ours], [], [], 90)[0]:
            try:
                written += os.read(ours, 65536)
            except OSError:  # the command has ended and closed its side
                break
    finally:
        os.close(ours)
    assert ExitCode.OK == running.wait(PATIENCE_SECONDS), written.decode(errors="replace")
    return written.decode(errors="replace")
