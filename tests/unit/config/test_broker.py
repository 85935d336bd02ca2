"""The embedded broker: an address before it runs, one server per data directory, nothing visible, nothing lost by a kill."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import redis

from config import broker
from config.settings import Settings
from knowledge.errors import ConfigurationError
from tests.waiting import PATIENCE_SECONDS, wait_until

ROOT = Path(__file__).parents[3]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path / 'data dir \'with "quotes"')


@pytest.fixture
def start(settings: Settings) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Starts this data directory's broker as a process of its own and waits until it answers or has ended."""
    started: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "config.broker"],
            cwd=ROOT,
            env={**os.environ, "KNOWLEDGE_DATA_DIR": str(settings.data_dir)},
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        wait_until(lambda: process.poll() is not None or (is_server(process.pid) and broker.ping(settings)))
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def is_server(pid: int) -> bool:
    try:
        return "valkey" in psutil.Process(pid).cmdline()[0]
    except (psutil.Error, IndexError):
        return False


def client(settings: Settings) -> redis.Redis:
    return redis.Redis.from_url(broker.endpoint(settings))


def test_address_is_known_before_the_broker_runs_and_stays(settings):
    """A worker may start first: port and password are chosen once, and only their owner can read them."""
    first = broker.endpoint(settings)

    assert first == broker.endpoint(settings)
    assert first.startswith("redis://:")
    kept = settings.data_dir / "broker" / "endpoint.json"
    assert (0o600, 0o700) == (kept.stat().st_mode & 0o777, kept.parent.stat().st_mode & 0o777)
    assert broker.ping(settings) is False


def test_configured_url_wins_and_nothing_embedded_starts(tmp_path):
    """With a broker of one's own there is no embedded one, nor a directory for it."""
    settings = Settings(data_dir=tmp_path, broker_url="redis://:pw@elsewhere:1/0")

    assert "redis://:pw@elsewhere:1/0" == broker.endpoint(settings)
    with pytest.raises(ConfigurationError, match="KNOWLEDGE_BROKER_URL is set: nothing embedded starts"):
        broker.run(settings)
    assert [] == list(tmp_path.iterdir())


def test_server_wants_the_password_and_shows_it_to_nobody(settings, start):
    """It listens on loopback only, refuses who has no password, and no process list shows it."""
    process = start()
    address = broker.embedded(settings)

    assert broker.ping(settings) is True
    with pytest.raises(redis.AuthenticationError):
        redis.Redis(port=address.port).ping()
    assert address.password not in " ".join(psutil.Process(process.pid).cmdline())
    assert {"127.0.0.1"} == {at.laddr.ip for at in psutil.Process(process.pid).net_connections() if at.status == "LISTEN"}
    assert 0o600 == (settings.data_dir / "broker" / "valkey.conf").stat().st_mode & 0o777


def test_second_broker_of_one_data_directory_is_refused(settings, start):
    """The second start ends with an error that names the process of the first, which goes on."""
    first = start()
    second = start()

    assert 1 == second.returncode
    assert f"runs already (pid {first.pid})" in second.stderr.read()
    assert broker.ping(settings) is True


def test_sigterm_is_a_clean_stop(settings, start):
    """The server saves and ends by itself with status 0."""
    process = start()
    client(settings).rpush("queue", "message")
    process.send_signal(signal.SIGTERM)

    assert 0 == process.wait(PATIENCE_SECONDS)


def test_messages_survive_a_kill_and_the_address_stays(settings, start):
    """After kill -9 the next server has the same address and everything that had reached the system."""
    first = start()
    before = broker.endpoint(settings)
    client(settings).rpush("queue", *range(1000))
    first.kill()
    first.wait()
    start()

    assert before == broker.endpoint(settings)
    assert 1000 == client(settings).llen("queue")


def kept_bytes(settings: Settings) -> bytes:
    files = (settings.data_dir / "broker").rglob("*")
    return b"".join(path.read_bytes() for path in files if path.is_file())


def test_what_was_taken_or_has_expired_leaves_the_file_and_the_rest_stays(settings, start):
    """Messages that wait survive the rewriting and a kill after it; what clients said and were answered is gone."""
    first = start()
    with client(settings) as server:
        server.rpush("queue", "zqcommand", "waits")
        server.lpop("queue")
        server.set("read", "zqanswer")
        server.delete("read")
        server.set("late", "zqlate", px=1)
        wait_until(lambda: not server.exists("late"))
    before = kept_bytes(settings)

    assert all(word in before for word in (b"zqcommand", b"zqanswer", b"zqlate"))
    assert broker.rewrite(settings) is True
    assert not any(word in kept_bytes(settings) for word in (b"zqcommand", b"zqanswer", b"zqlate"))
    client(settings).rpush("queue", "later")
    first.kill()
    first.wait()
    start()
    assert [b"waits", b"later"] == client(settings).lrange("queue", 0, -1)


def test_rewriting_without_an_embedded_broker_is_no_error(settings, tmp_path):
    """It is stopped, or another one is configured: nothing is done, and nothing made."""
    other = Settings(data_dir=tmp_path / "other", broker_url="redis://:pw@127.0.0.1:1/0")

    assert broker.rewrite(settings) is False
    assert broker.rewrite(other) is False
    assert not other.data_dir.exists()


def test_a_rewriting_that_died_with_its_server_leaves_nothing(settings, start):
    """Its half-written file goes at the next start."""
    broker.embedded(settings)
    stray = settings.data_dir / "broker" / "temp-rewriteaof-bg-4711.aof"
    stray.write_bytes(b"zqcommand")
    start()

    assert broker.ping(settings) is True
    assert not stray.exists()


@pytest.mark.parametrize("damage", ["cut", "garbage"])
def test_damaged_tail_does_not_stop_a_start(settings, start, damage):
    """A file that ends in half a command or in garbage is cut there; what stands before it is kept."""
    first = start()
    client(settings).rpush("queue", *range(1000))
    first.kill()
    first.wait()
    (kept,) = (settings.data_dir / "broker" / "appendonlydir").glob("*.incr.aof")
    with kept.open("ab") as file:
        file.write(b"*3\r\n$5\r\nRPUSH\r\n$5\r\nqu" if damage == "cut" else b"\0" * 4096)
    start()

    assert 1000 == client(settings).llen("queue")


def test_what_cannot_be_mended_is_set_aside(settings, start):
    """Where nothing can be saved an empty broker starts, and the damaged files are still there."""
    first = start()
    first.kill()
    first.wait()
    kept = settings.data_dir / "broker" / "appendonlydir"
    (kept / "appendonly.aof.1.incr.aof").unlink()
    (kept / "appendonly.aof.1.incr.aof").mkdir()
    start()

    assert broker.ping(settings) is True
    assert 1 == len(list(kept.parent.glob("appendonlydir.damaged-*")))


def test_stranger_on_our_port_makes_the_broker_move(settings, start):
    """If another program sits on the port, the broker takes a new one and the endpoint says so; the password stays."""
    before = broker.embedded(settings)
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", before.port))
        stranger.listen()
        start()

        after = broker.embedded(settings)
        assert before.port != after.port
        assert before.password == after.password
        assert broker.ping(settings) is True


def test_damaged_endpoint_is_a_typed_error(settings):
    """An endpoint file that is no endpoint is named, with what to do."""
    broker.endpoint(settings)
    (settings.data_dir / "broker" / "endpoint.json").write_text(json.dumps({"port": "x"}))

    with pytest.raises(ConfigurationError, match=r"endpoint\.json is damaged"):
        broker.endpoint(settings)
