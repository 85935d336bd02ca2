"""Parsing, errors and exit codes, as far as no base is needed for them; the real console entry throughout."""

import ast
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from knowledge.errors import StorageFull
from knowledge.interfaces.cli import ExitCode
from knowledge.interfaces.cli.failure import refuse_known
from knowledge.interfaces.cli.root import app, run

CLI = Path(__file__).parents[3] / "knowledge" / "interfaces" / "cli"
MAY_SEE = (
    "knowledge.interfaces",
    "knowledge.service",
    "knowledge.extraction",
    "knowledge.model",
    "knowledge.settling",
    "knowledge.errors",
    "knowledge.topology",
)
HEAVY = {"numpy", "sqlmodel", "sqlalchemy", "apsw", "celery", "kombu", "redis", "rich", "onnxruntime", "magic"}


def commands(typer_app=app, path=()):
    for command in typer_app.registered_commands:
        yield [*path, command.name or command.callback.__name__], command
    for group in typer_app.registered_groups:
        yield from commands(group.typer_instance, (*path, group.name))


COMMANDS = list(commands())


@pytest.mark.parametrize("words", [words for words, _ in COMMANDS], ids=" ".join)
def test_help_of_each_command_shows_an_example(words, capsys):
    """Each command says what it does, how it is typed, and that it speaks JSON."""
    assert ExitCode.OK == run([*words, "--help"])
    shown = capsys.readouterr().out
    assert f"Example: knowledge {' '.join(words)}" in " ".join(shown.split())
    assert "--json" in shown
    assert "--debug" in shown


@pytest.mark.parametrize("words", [words for words, _ in COMMANDS], ids=" ".join)
def test_the_example_of_each_command_parses(words, capsys):
    """As it stands in the help, typed into a shell, it names this command and gives it what it needs; nothing is run."""
    run([*words, "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    (typed,) = re.findall(r"Example: (.*)", shown)
    for line in re.split(r" (?=knowledge )", typed):
        name, *arguments = shlex.split(line)
        command, said, context = typer.main.get_command(app), [], None
        while hasattr(command, "resolve_command"):
            context = command.make_context(name, arguments[:1], parent=context, resilient_parsing=True)
            name, command, arguments = command.resolve_command(context, arguments)
            said.append(name)
        context = command.make_context(name, arguments, parent=context)

        assert words == said
        assert not context.args, "no word is left over"


@pytest.mark.parametrize("group", [[], ["base"], ["group"], ["item"], ["jobs"], ["db"], ["model"]], ids=" ".join)
def test_no_summary_is_cut_in_a_list_of_commands(group, capsys, monkeypatch):
    """On a terminal of 80 columns each command's line says a whole sentence."""
    monkeypatch.setenv("COLUMNS", "80")
    run([*group, "--help"])

    assert [] == [line for line in capsys.readouterr().out.splitlines() if line.startswith("  ") and "..." in line]


def test_commands_are_the_documented_ones():
    """Nouns and verbs as promised; a new one has to be added here and to the README."""
    assert {
        "base create", "base list", "base show", "base delete", "base patch", "base enable-embedder", "base restore",
        "base import", "group create", "group list", "group rename", "group delete", "item add", "item list", "item show",
        "item reindex", "item delete", "item chunks", "item preview", "item path", "item watch", "search", "extract",
        "jobs list", "jobs show", "jobs cancel", "jobs requeue", "jobs why", "broker", "config", "db upgrade", "model list",
    } == {" ".join(words) for words, _ in COMMANDS}  # fmt: skip


WAITING = [(words, command) for words, command in COMMANDS if "timeout" in inspect.signature(command.callback).parameters]


@pytest.mark.parametrize("value", ["5", "0"])
@pytest.mark.parametrize(("words", "command"), WAITING, ids=lambda part: " ".join(part) if isinstance(part, list) else "")
def test_a_timeout_without_wait_is_refused(words, command, value, capsys):
    """By every command that has both: a time that would be ignored is a mistake of who typed it; nothing is opened."""
    assert "wait" in inspect.signature(command.callback).parameters

    given = ["file"] if words == ["base", "import"] else ["base", "item"]
    assert ExitCode.USAGE == run([*words, *given, "--timeout", value])
    assert "--timeout belongs to --wait" in capsys.readouterr().err


def test_the_commands_that_wait_are_these():
    """The list above is not empty by mistake."""
    assert {
        "base enable-embedder", "base restore", "base import", "item add", "item reindex", "item delete",
    } == {" ".join(words) for words, _ in WAITING}  # fmt: skip


def test_help_is_quick():
    """`knowledge --help` loads no index, no catalogue, no broker client and no terminal library."""
    code = (
        "import sys\nfrom knowledge.interfaces.cli.root import run\n"
        "assert 0 == run(['--help'])\nprint(*sorted(name for name in sys.modules if '.' not in name))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=CLI.parents[2])

    assert not HEAVY & set(done.stdout.splitlines()[-1].split())


def test_the_command_line_sees_only_the_service_and_its_vocabulary():
    """Formatting for people depends on nothing behind the service."""
    seen = set()
    for file in CLI.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom):
                seen.add(node.module)
            elif isinstance(node, ast.Import):
                seen.update(alias.name for alias in node.names)

    assert not [name for name in seen if name.startswith("knowledge.") and not name.startswith(MAY_SEE)]
    assert "knowledge.service" in seen


@pytest.mark.parametrize(
    "arguments",
    [
        ["--no-such-option"],
        ["no-such-command"],
        ["base"],
        ["base", "create"],
        ["base", "create", "x", "--embedder", "m", "--no-embedder"],
        ["base", "create", " ", "--no-embedder"],
        ["base", "create", "x", "--no-embedder", "--chunk-size", "many"],
        ["base", "create", "x", "--no-embedder", "--chunk-size", "0"],
        ["base", "create", "x", "--no-embedder", "--chunk-size", "10", "--chunk-overlap", "10"],
        ["base", "create", "x", "--no-embedder", "--chunk-strategy", "magic"],
        ["base", "create", "x", "--no-embedder", "--threshold", "2"],
        ["item", "add", "x"],
        ["item", "add", "x", "--title", "t"],
        ["item", "add", "x", ""],
        ["item", "add", "x", "p", ""],
        ["item", "add", "x", "--note", "a", "--note", "b", "--title", "t"],
        ["item", "list", "x", "--in", "i", "--roots"],
        ["item", "list", "x", "--type", "video"],
        ["item", "add", "x", "--note", "a", "--note-file", "-"],
        ["item", "add", "x", "--note-file", "/no/such/file"],
        ["item", "add", "x", "--note", "a", "--title", " "],
        ["item", "add", "x", "--note", ""],
        ["item", "add", "x", "--note", " \n\t"],
        ["item", "add", "x", "--note", "a", "--note", ""],
        ["item", "add", "x", "--note-file", "/dev/null"],
        ["item", "add", "x", "--note", "a", "--include", "*.md"],
        ["item", "reindex", "x", "--interrupted", "--changed"],
        ["item", "watch", "x", "p", "--quiet", "0"],
        ["base", "patch", "x"],
        ["base", "patch", "x", "--group", "g", "--no-group"],
        ["base", "patch", "x", "--no-embedder", "--embedder", "m"],
        ["base", "patch", "x", "--name", " "],
        ["base", "patch", "x", "--threshold", "2"],
        ["base", "list", "--limit", "101"],
        ["base", "list", "--sort", "size"],
        ["base", "list", "--updated-from", "yesterday"],
        ["base", "restore", "x"],
        ["base", "restore", "x", "y", "--embedder", "m", "--no-embedder"],
        ["base", "import"],
        ["group", "rename", "x"],
        ["item", "add", "x", "p", "--on-conflict", "merge"],
        ["item", "reindex", "x"],
        ["item", "reindex", "x", "i", "--all"],
        ["item", "reindex", "x", "--all", "--interrupted"],
        ["item", "reindex", "x", "--interrupted", "--allow-empty"],
        ["item", "preview", "i", "--characters", "0"],
        ["jobs", "why"],
        ["item", "delete", "x"],
        ["item", "delete", "x", "i", "--all"],
        ["item", "list", "x", "--limit", "0"],
        ["item", "list", "x", "--status", "happy"],
        ["base", "show", "caf\udce9"],
        ["search", "x", "caf\udce9"],
        ["item", "add", "x", "--note", "caf\udce9"],
        ["item", "delete", "x", "caf\udce9"],
        ["search", "x"],
        ["search", "x", "q", "--limit", "0"],
        ["search", "x", "q", "--limit", "201"],
        ["jobs", "list", "--status", "happy"],
    ],
    ids=lambda arguments: ascii(" ".join(arguments)),
)
def test_wrong_usage_is_code_2_without_a_traceback(arguments, capsys):
    """What is wrong with the command line itself is said with the command's usage, before anything is opened."""
    assert ExitCode.USAGE == run(arguments)
    said = capsys.readouterr()
    assert "Usage: knowledge" in said.err
    assert "Traceback" not in said.err


def test_wrong_usage_as_json(capsys):
    """With --json an error is one JSON object on stderr, and stdout stays empty."""
    assert ExitCode.USAGE == run(["item", "add", "x", "--json"])
    said = capsys.readouterr()
    assert "" == said.out
    assert {"code": "usage", "details": {}} == {k: v for k, v in json.loads(said.err).items() if k != "message"}


@pytest.mark.parametrize("name", ["no_such_package.wiring:service", "json:no_such_callable", "json", ":x"])
def test_without_an_application_it_says_what_to_do(name, monkeypatch, capsys):
    """A wheel in someone's environment has no factory to import: a message, code 2."""
    monkeypatch.setenv("KNOWLEDGE_APP", name)

    assert ExitCode.USAGE == run(["base", "list"])
    said = capsys.readouterr().err
    assert "KNOWLEDGE_APP" in said
    assert 1 == len(said.splitlines())


def test_an_application_that_lacks_a_package_names_it(monkeypatch, tmp_path, capsys):
    """A missing package of the application is not mistaken for a missing application."""
    (tmp_path / "an_application.py").write_text("import package_nobody_has\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("KNOWLEDGE_APP", "an_application:service")

    assert ExitCode.USAGE == run(["base", "list"])
    assert "package_nobody_has" in capsys.readouterr().err


def broken_application(tmp_path, monkeypatch, body):
    (tmp_path / "broken_application.py").write_text(f"from pathlib import Path\n{body}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken_application", raising=False)
    monkeypatch.setenv("KNOWLEDGE_APP", "broken_application:service")


def test_an_unforeseen_error_is_one_line_and_its_traceback_is_logged(monkeypatch, tmp_path, capsys):
    """Nobody is shown a traceback unasked; the log that is named holds it."""
    body = f"def service(): raise RuntimeError('disk \\x1b[2J')\ndef log_directory(): return Path({str(tmp_path / 'logs')!r})"
    broken_application(tmp_path, monkeypatch, body)

    assert ExitCode.FAILED == run(["base", "list"])
    said = capsys.readouterr().err
    assert 1 == len(said.splitlines())
    assert "RuntimeError: disk \\x1b[2J" in said
    assert "Traceback" in (tmp_path / "logs" / "cli.log").read_text()
    assert str(tmp_path / "logs" / "cli.log") in said


def test_debug_shows_the_traceback(monkeypatch, tmp_path, capsys):
    """--debug is for the person who repairs it."""
    broken_application(tmp_path, monkeypatch, "def service(): raise RuntimeError('why')")

    assert ExitCode.FAILED == run(["base", "list", "--debug"])
    assert "Traceback" in capsys.readouterr().err


def test_a_log_that_cannot_be_written_does_not_hide_the_error(monkeypatch, tmp_path, capsys):
    """Without a place for the traceback the line says how to see it."""
    broken_application(tmp_path, monkeypatch, "def service(): raise RuntimeError('why')")

    assert ExitCode.FAILED == run(["base", "list"])
    assert "--debug" in capsys.readouterr().err


def test_a_known_error_is_a_line_with_its_code_and_details(capsys):
    """People read the message, the code and the fields; no control character of a file name passes."""
    refuse_known(StorageFull(path="a\nb"), as_json=False)

    assert [
        "knowledge: There is no space left for this base's files. (storage_full)",
        "  path: a\\nb",
    ] == capsys.readouterr().err.splitlines()


def test_a_known_error_as_json(capsys):
    """Programs read what the error's own wire form says."""
    error = StorageFull(path="a\nb")

    refuse_known(error, as_json=True)

    assert error.to_wire() == json.loads(capsys.readouterr().err)


def test_the_client_alone_says_what_is_missing(tmp_path):
    """In an environment without the server packages the script ends with code 2 and the fix."""
    code = "import sys; sys.modules['typer'] = None\nfrom knowledge.interfaces.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=CLI.parents[2])

    assert ExitCode.USAGE == done.returncode
    assert "knowledge-pipeline[server]" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path):
    """`knowledge … | head` ends quietly."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        done = subprocess.run(
            [sys.executable, "-c", "import sys; from knowledge.interfaces.cli.root import run; sys.exit(run(['--help']))"],
            stdout=closed, stderr=subprocess.PIPE, text=True, check=False, cwd=CLI.parents[2],
        )  # fmt: skip

    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("redirected", ["> /dev/full", ">&-", "2>&-", "> /dev/full 2> /dev/full", "<&-"])
def test_streams_that_take_nothing_end_without_a_traceback(redirected, tmp_path):
    """A full disk is an error that is told where possible; what the caller closed is not missed."""
    command = f"{sys.executable} -m knowledge.interfaces.cli model list {redirected}"
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        env=os.environ | {"KNOWLEDGE_DATA_DIR": str(tmp_path / "data")},
        capture_output=True, text=True, check=False, cwd=CLI.parents[2],
    )  # fmt: skip

    assert (ExitCode.FAILED if "full" in redirected else ExitCode.OK) == done.returncode, done
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    if redirected == "> /dev/full":
        assert "could not be written" in done.stderr


def test_ctrl_c_while_it_loads_is_quiet(tmp_path):
    """Whatever is being imported at that moment: code 130 and not a word."""
    slow = tmp_path / "slow_application.py"
    slow.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nimport time\ntime.sleep(30)\n")
    loading = "import signal, sys, types\nfrom knowledge.interfaces.cli import main\n"
    hooked = (
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'typer': signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\nmain()"
    )
    early = subprocess.run(
        [sys.executable, "-c", loading + hooked], capture_output=True, text=True, check=False, cwd=CLI.parents[2]
    )
    late = subprocess.run(
        [sys.executable, "-m", "knowledge.interfaces.cli", "base", "list"],
        env=os.environ | {"KNOWLEDGE_APP": "slow_application:service", "PYTHONPATH": f"{CLI.parents[2]}:{tmp_path}"},
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip

    assert (ExitCode.STOPPED, "") == (early.returncode, early.stderr)
    assert (ExitCode.STOPPED, "") == (late.returncode, late.stderr)


def test_the_package_itself_loads_nothing():
    """So that Ctrl-C right after the start meets the command line's own handler, and `--help` is quick."""
    code = "import sys, knowledge\nprint('pydantic' in sys.modules, 'knowledge.errors' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=CLI.parents[2])

    assert "False False\n" == done.stdout


def test_every_public_name_of_the_package_is_there():
    """Each name loads when it is asked for; no other one exists."""
    import knowledge

    assert [] == [name for name in knowledge.__all__ if getattr(knowledge, name) is None]
    with pytest.raises(AttributeError):
        knowledge.nothing  # noqa: B018 - the access is what is tested
