"""Log lines: one an event, ids on them, secrets never."""

import io
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from config.logging import configure
from config.secrets import hide
from config.settings import Settings
from knowledge.logs import log_context

log = logging.getLogger("knowledge.test")
TASKS = ["knowledge.recovery", "knowledge.due-tick", "knowledge.tidy", "knowledge.index-documents"]


@pytest.fixture(autouse=True)
def root_as_before() -> Iterator[None]:
    """The root logger gets its handlers and level back, so that pytest's own capture goes on working."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)


@pytest.fixture
def text(tmp_path: Path) -> io.StringIO:
    stream = io.StringIO()
    configure(Settings(data_dir=tmp_path), stream=stream)
    return stream


@pytest.fixture
def lines(tmp_path: Path) -> io.StringIO:
    stream = io.StringIO()
    configure(Settings(data_dir=tmp_path, log_format="json"), stream=stream)
    return stream


def fail(error: Exception) -> None:
    raise error


def test_text_line_has_time_level_event_and_fields(text):
    """A person reads one line: when, how bad, what, and about what."""
    with log_context(job="j1", base="b1"):
        log.info("job parked", extra={"reason": "lease_expired", "attempt": 2})

    stamp, rest = text.getvalue().split(" ", 1)
    assert "INFO    job parked  job=j1 base=b1 reason=lease_expired attempt=2\n" == rest
    assert stamp.endswith("Z")


def test_json_line_is_one_object(lines):
    """A program reads one object a line, numbers as numbers."""
    with log_context(job="j1", base="b1", item="i1"):
        log.warning("job parked", extra={"attempt": 2})

    line = json.loads(lines.getvalue())
    assert {"level": "warning", "logger": "knowledge.test", "event": "job parked"}.items() <= line.items()
    assert {"job": "j1", "base": "b1", "item": "i1", "attempt": 2}.items() <= line.items()


def test_ids_nest_and_end_with_their_context(text):
    """An inner context adds to the outer one; afterwards the outer ids count again, also after an error."""
    with log_context(job="j1", base="b1"):
        with suppress(KeyError), log_context(item="i1", base="b2"):
            log.info("inner")
            raise KeyError
        log.info("outer")
    log.info("after")

    assert ["inner  job=j1 base=b2 item=i1", "outer  job=j1 base=b1", "after"] == [
        line.split(maxsplit=2)[2] for line in text.getvalue().splitlines()
    ]


def test_contexts_of_threads_do_not_mix(text):
    """What one thread works on never appears on a line of another."""
    with log_context(job="j1"):
        thread = threading.Thread(target=lambda: log.info("elsewhere"))
        thread.start()
        thread.join()

    assert "job=" not in text.getvalue()


def test_lines_of_other_libraries_carry_the_ids(text):
    """Whatever is logged while a job runs says which job it was."""
    with log_context(job="j1"):
        logging.getLogger("some.library").error("connection %s lost", "A")

    assert "connection A lost  job=j1" in text.getvalue()


@pytest.mark.parametrize("name", ["a\nINFO forged  job=x", "two words", 'quo"te', ""])
def test_value_cannot_forge_a_line_or_a_field(text, name):
    """A file name with a newline or a blank stays one quoted value on one line."""
    log.info("file skipped", extra={"file": name})

    (line,) = text.getvalue().splitlines()
    assert line.endswith(f"file={json.dumps(name)}")


def test_long_value_is_cut(text):
    """A field cannot carry a document into the log."""
    log.info("odd", extra={"detail": "x" * 5_000})

    assert 400 > len(text.getvalue())


@pytest.mark.parametrize("stream", ["text", "lines"])
def test_secrets_are_blotted_out_everywhere(request, stream):
    """A hidden secret and a password inside any URL appear neither in events, fields nor tracebacks."""
    written: io.StringIO = request.getfixturevalue(stream)
    hide("s3cret/word")
    try:
        fail(ConnectionError("redis://:s3cret%2Fword@127.0.0.1:1 refused"))
    except ConnectionError:
        log.exception("cannot reach %s", "redis://me:unknown@h:1/0", extra={"key": "s3cret/word"})

    assert [] == [secret for secret in ("s3cret", "unknown") if secret in written.getvalue()]
    assert "****" in written.getvalue()


def test_exception_is_a_field_in_json(lines):
    """A traceback stays inside its JSON line."""
    try:
        fail(ValueError("bad"))
    except ValueError:
        log.exception("failed")

    (line,) = lines.getvalue().splitlines()
    assert json.loads(line)["exception"].endswith("ValueError: bad")


def test_configuring_twice_does_not_double_lines(text, tmp_path):
    """A forked child configures again; each line is still written once."""
    stream = io.StringIO()
    configure(Settings(data_dir=tmp_path), stream=stream)

    log.info("once")

    assert 1 == stream.getvalue().count("once")
    assert "" == text.getvalue()


def test_level_is_kept(tmp_path):
    """Lines below the configured level are not written."""
    stream = io.StringIO()
    configure(Settings(data_dir=tmp_path, log_level="WARNING"), stream=stream)

    log.info("quiet")

    assert "" == stream.getvalue()


@pytest.mark.parametrize(("expected", "level"), [(["knowledge.index-documents"] * 3, "INFO"), (TASKS * 3, "DEBUG")])
def test_what_runs_by_the_clock_is_told_at_debug_only(tmp_path, expected, level):
    """Three lines a second would fill a disk with nothing; a job's own lines stay."""
    stream = io.StringIO()
    configure(Settings(data_dir=tmp_path, log_level=level), stream=stream)

    for name in TASKS:
        logging.getLogger("celery.beat").info("Scheduler: Sending due task %s (%s)", name, name)
    for name in TASKS:
        logging.getLogger("celery.worker.strategy").info("Task %(name)s[%(id)s] received", {"name": name, "id": "1"})
    for name in TASKS:
        logging.getLogger("celery.app.trace").info("Task %(name)s[%(id)s] succeeded", {"name": name, "id": "1"})

    assert expected == [name for line in stream.getvalue().splitlines() for name in TASKS if name in line]


def test_trouble_of_what_runs_by_the_clock_is_told(text):
    """Only its ordinary comings and goings are left out."""
    logging.getLogger("celery.app.trace").error("Task %(name)s raised", {"name": "knowledge.recovery"})

    assert "knowledge.recovery raised" in text.getvalue()
