"""The supervisor with real processes: a broker, a Celery worker, beat and Flower, killed for real."""

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psutil
import pytest
import redis

from config import broker, flower
from config.settings import Settings, load
from deploy.run import stack
from deploy.run.stack import Stack, StackFailed
from deploy.run.supervisor import log_file
from tests.fleet import FLOWER, START_SECONDS
from tests.processes import is_over
from tests.waiting import PATIENCE_SECONDS, eventually, wait_until

PROCFILE = Path(__file__).with_name("Procfile")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, **FLOWER, "KNOWLEDGE_DATA_DIR": str(tmp_path / "data"), "KNOWLEDGE_DRAIN_SECONDS": "5"}


@pytest.fixture
def up(environ: dict[str, str]) -> Iterator[Callable[..., Stack]]:
    """Brings this test's own data directory up; takes down afterwards whatever runs there."""

    def up(procfile: Path = PROCFILE, *, wait_seconds: float = START_SECONDS, **more: str) -> Stack:
        environ.update(more)
        return stack.up(environ, procfile=procfile, wait_seconds=wait_seconds)

    yield up
    stack.down(environ)


@pytest.fixture
def after(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Has `up` wait so many seconds from when a log says something and the broker answers, however long the start took."""
    wait = stack.wait_until_ready

    def after(name: str, said: str, *, seconds: float = 0.0) -> None:
        def wait_after(settings: Settings, deadline: float, ended: Callable[[], int | None]) -> None:
            log = log_file(settings, name)
            eventually(lambda: log.exists() and said in log.read_text() and broker.ping(settings), f"{name} has said: {said}")
            wait(settings, time.monotonic() + seconds, ended)

        monkeypatch.setattr(stack, "wait_until_ready", wait_after)

    return after


def family(pids: Mapping[str, int]) -> list[psutil.Process]:
    """The processes and all their descendants."""
    members: list[psutil.Process] = []
    for pid in pids.values():
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            members += [process, *process.children(recursive=True)]
    return members


def gone(processes: list[psutil.Process]) -> bool:
    return all(not process.is_running() or is_over(process.pid) for process in processes)


def status_of(url: str, user: str = "", password: str = "") -> int:
    request = urllib.request.Request(url)
    if password:
        request.add_header("Authorization", "Basic " + b64encode(f"{user}:{password}".encode()).decode())
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_up_waits_until_everything_answers_and_down_leaves_nothing(up, environ):
    """After `up` broker, worker and Flower answer at once; after `down` no process is left, and no second `down` is needed."""
    running = up()

    assert {"broker", "worker", "beat", "flower"} == set(running.pids)
    assert broker.ping(running.settings) is True
    assert 200 == status_of(f"{running.flower_url}/healthcheck")
    members = family(running.pids)
    assert [True, False] == [stack.down(environ), stack.down(environ)]
    assert gone(members)
    assert stack.status(environ) is None


def test_after_down_the_broker_keeps_nothing_that_was_taken(up, environ):
    """What waited and was worked off is no longer in its file; what still waits is."""
    running = up()
    with redis.Redis.from_url(broker.endpoint(running.settings)) as server:
        server.rpush("mine", "zqtaken", "zqwaits")
        server.lpop("mine")
    stack.down(environ)
    kept = b"".join(path.read_bytes() for path in (running.settings.data_dir / "broker").rglob("*") if path.is_file())

    assert (False, True) == (b"zqtaken" in kept, b"zqwaits" in kept)


def test_report_tells_what_listens_where_without_passwords(up):
    """A person sees addresses, pids and where the logs are; the passwords are only named."""
    running = up()

    report = running.report()
    assert f"127.0.0.1:{broker.embedded(running.settings).port}/0" in report
    assert str(running.flower_url) in report
    assert str(running.pids["worker"]) in report
    assert [False, False] == [
        secret in report for secret in (broker.embedded(running.settings).password, flower.password(running.settings))
    ]


def test_second_up_changes_nothing(up):
    """Bringing up what is up keeps every process."""
    first = up()

    assert (first.supervisor, first.pids) == (up().supervisor, up().pids)


def test_up_again_with_other_settings_says_that_they_do_not_count_yet(up, environ, monkeypatch):
    """One line that names them; none while nothing has changed, and no value or secret is kept."""
    up(KNOWLEDGE_LOG_LEVEL="WARNING", KNOWLEDGE_FLOWER_PASSWORD="tr0ub4dor")
    for name in [name for name in environ if name.startswith("KNOWLEDGE_")]:
        monkeypatch.setenv(name, environ[name])
    as_before = list(stack.say_up())
    monkeypatch.setenv("KNOWLEDGE_LOG_LEVEL", "DEBUG")
    monkeypatch.setenv("KNOWLEDGE_LEASE_SECONDS", "61")
    changed = list(stack.say_up())

    assert "already up" == as_before[0] == changed[0]
    assert "keeps the settings" not in "\n".join(as_before)
    assert "keeps the settings" in changed[1]
    assert "KNOWLEDGE_LEASE_SECONDS, KNOWLEDGE_LOG_LEVEL" in changed[1]
    kept = (Path(environ["KNOWLEDGE_DATA_DIR"]) / "run" / "state.json").read_text()
    assert not [value for value in ("tr0ub4dor", "WARNING") if value in kept]


@pytest.mark.parametrize("name", ["broker", "worker", "flower"])
def test_killed_process_is_started_again_and_the_others_go_on(up, environ, name):
    """kill -9 of one process: it comes back under a new pid and is ready; the others keep theirs."""
    before = up()
    os.kill(before.pids[name], signal.SIGKILL)
    wait_until(
        lambda: (now := stack.status(environ)) is not None and now.pids.get(name, before.pids[name]) != before.pids[name]
    )

    after = up()
    assert {key: pid for key, pid in before.pids.items() if key != name} == {
        key: pid for key, pid in after.pids.items() if key != name
    }
    assert before.broker_url == after.broker_url


def test_killed_supervisor_leaves_no_orphans_and_no_obstacle(up):
    """kill -9 of the supervisor ends its processes with it; what it left behind does not stop the next `up`."""
    first = up()
    members = family(first.pids)
    os.kill(first.supervisor, signal.SIGKILL)
    wait_until(lambda: gone(members))

    second = up()
    assert first.supervisor != second.supervisor
    assert first.broker_url == second.broker_url


def test_process_that_ends_at_once_is_not_started_without_pause(up, after, tmp_path):
    """A process that cannot start is tried again with growing delays, not hundreds of times."""
    (tmp_path / "Procfile").write_text("broker: python -m config.broker\nbad: false\n")
    after("supervisor", "bad started", seconds=4)
    with pytest.raises(StackFailed, match="not ready: bad"):
        up(tmp_path / "Procfile")

    log = (tmp_path / "data" / "run" / "logs" / "supervisor.log").read_text()
    assert 8 > log.count("bad started") > 1
    assert "ended with status 1" in log


def test_up_that_fails_says_why_and_stops_the_rest(up, after, environ, tmp_path):
    """The message holds the name and the end of its log; nothing keeps running."""
    (tmp_path / "Procfile").write_text("broker: python -m config.broker\nbad: sh -c 'echo no such planet; exit 4'\n")

    after("bad", "no such planet")
    with pytest.raises(StackFailed, match="no such planet"):
        up(tmp_path / "Procfile")
    assert stack.status(environ) is None


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """Nothing that is started meanwhile can write one byte to a file, ever."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_up_on_a_full_disk_leaves_nothing_running(up, environ, tmp_path):
    """The supervisor cannot write who it is, and is found and stopped all the same."""
    (tmp_path / "Procfile").write_text("idle: sleep 600\n")
    began = time.monotonic()

    with full_disk(), pytest.raises(StackFailed):
        up(tmp_path / "Procfile", wait_seconds=3)
    assert not stack.is_up(load(environ))
    assert time.monotonic() - began < stack.READY_SECONDS / 2


def test_down_finds_a_supervisor_that_could_not_write_who_it_is(environ, tmp_path):
    """By its lock, which nothing can hide."""
    settings = load(environ)
    (tmp_path / "Procfile").write_text("idle: sleep 600\n")
    with full_disk():
        supervisor = stack.spawn(settings, tmp_path / "Procfile", environ)
    eventually(lambda: stack.is_up(settings), "the supervisor holds its lock")

    assert stack.down(environ)
    assert supervisor.wait(PATIENCE_SECONDS) is not None
    assert not stack.is_up(settings)


def test_release_runs_first_and_its_failure_stops_the_start(up, environ, tmp_path):
    """What must be done before the others start is done to its end; if it fails, nothing starts."""
    (tmp_path / "Procfile").write_text("release: sh -c 'echo tables missing; exit 1'\nbroker: python -m config.broker\n")

    with pytest.raises(StackFailed, match="tables missing"):
        up(tmp_path / "Procfile")
    assert stack.status(environ) is None


def test_flower_takes_the_next_port_and_asks_for_the_password(up):
    """With its port taken Flower moves on; its API answers only to the kept password, which `ps` does not show."""
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        port = stranger.getsockname()[1]
        running = up(KNOWLEDGE_FLOWER_PORT=str(port))

        secret = flower.password(running.settings)
        assert f"http://127.0.0.1:{port}" != running.flower_url
        assert 401 == status_of(f"{running.flower_url}/api/workers")
        assert 200 == status_of(f"{running.flower_url}/api/workers", running.settings.flower_user, secret)
        assert secret not in " ".join(psutil.Process(running.pids["flower"]).cmdline())


def test_two_data_directories_run_side_by_side(up, tmp_path):
    """Each has its own broker, worker and Flower, and stopping one leaves the other."""
    first = up()
    other = {**os.environ, **FLOWER, "KNOWLEDGE_DATA_DIR": str(tmp_path / "other"), "KNOWLEDGE_DRAIN_SECONDS": "5"}
    try:
        second = stack.up(other, procfile=PROCFILE, wait_seconds=START_SECONDS)

        assert first.broker_url != second.broker_url
        assert first.flower_url != second.flower_url
        assert not set(first.pids.values()) & set(second.pids.values())
    finally:
        stack.down(other)
    assert broker.ping(first.settings) is True


def test_configured_broker_is_used_and_none_is_started(up, environ, tmp_path):
    """With a broker URL the broker line does nothing, and the report says so."""
    ours = Settings(data_dir=tmp_path / "broker of its own")
    server = subprocess.Popen(
        [sys.executable, "-m", "config.broker"],
        cwd=stack.ROOT,
        env={**os.environ, "KNOWLEDGE_DATA_DIR": str(ours.data_dir)},
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: broker.ping(ours))
        running = up(KNOWLEDGE_BROKER_URL=broker.endpoint(ours))

        assert {"worker", "beat", "flower"} == set(running.pids)
        assert "nothing embedded was started" in running.report()
        stack.down(environ)
        assert broker.ping(ours) is True
    finally:
        server.kill()
        server.wait()
