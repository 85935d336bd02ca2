"""The Procfile: how it is read, and that ours names what the library declares."""

import shlex
from pathlib import Path

import pytest

from config.settings import Settings
from deploy.run.procfile import parse
from deploy.run.stack import PROCFILE
from deploy.run.supervisor import started_lines
from knowledge import topology


def test_lines_are_read_in_order(tmp_path: Path):
    """Comments and empty lines are left out; a command may hold colons."""
    (tmp_path / "Procfile").write_text("# first\nweb: serve :80\n\nworker: celery -A a.b worker -n x@%h\n")

    lines = parse(tmp_path / "Procfile")

    assert {"web": "serve :80", "worker": "celery -A a.b worker -n x@%h"} == {
        name: line.command for name, line in lines.items()
    }
    assert (None, "x@%h") == (lines["web"].node, lines["worker"].node)


@pytest.mark.parametrize("text", ["no colon here", "a: one\na: two", "a:"])
def test_nonsense_is_refused_with_its_line(tmp_path: Path, text: str):
    """What is no new `name: command` is an error that names file and line."""
    (tmp_path / "Procfile").write_text(text)

    with pytest.raises(ValueError, match=rf"Procfile:{1 + text.count(chr(10))}: "):
        parse(tmp_path / "Procfile")


def test_broker_line_is_left_out_where_one_is_configured(tmp_path: Path):
    """With a broker URL nothing embedded starts, and nothing is started again and again in vain."""
    own = [line.name for line in started_lines(Settings(data_dir=tmp_path), PROCFILE)]
    configured = [line.name for line in started_lines(Settings(data_dir=tmp_path, broker_url="redis://h"), PROCFILE)]

    assert ["broker", "worker", "control", "commands", "beat", "flower"] == own
    assert ["worker", "control", "commands", "beat", "flower"] == configured


def test_every_queue_of_the_main_shard_has_exactly_one_worker():
    """Our Procfile consumes each declared queue once: none is forgotten, none invented."""
    words = [shlex.split(line.command) for line in parse(PROCFILE).values() if line.node]

    consumed = [queue for line in words for queue in line[line.index("-Q") + 1].split(",")]

    assert sorted(queue.name for queue in topology.queues("main")) == sorted(consumed)


def test_defaults_in_the_procfile_are_those_of_the_settings():
    """Started by another Procfile runner, the workers have the size that the settings document."""
    text = PROCFILE.read_text()

    assert f"${{KNOWLEDGE_WORKER_CONCURRENCY:-{Settings.model_fields['worker_concurrency'].default}}}" in text
    assert f"${{KNOWLEDGE_CONTROL_CONCURRENCY:-{Settings.model_fields['control_concurrency'].default}}}" in text
    assert f"${{KNOWLEDGE_COMMANDS_CONCURRENCY:-{Settings.model_fields['commands_concurrency'].default}}}" in text
