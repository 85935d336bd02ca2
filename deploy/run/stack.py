"""The processes of one data directory as a whole: `up`, `down`, `status`; `make up` and `make down` call them.

State lives in `<data dir>/run/`: `lock`, held by the supervisor as long as it lives, `state.json` with its pid and those of its
processes, and `logs/`. So several data directories run side by side, and nothing that a crash left behind is in the way.
"""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil
from celery import Celery
from celery.utils.nodenames import default_nodename, host_format
from kombu.exceptions import OperationalError

from config import broker, flower
from config.secrets import mask_url, redact
from config.settings import Settings, fingerprints, load, look
from deploy.run.procfile import BROKER, RELEASE, Line, parse
from deploy.run.supervisor import (
    ALREADY_RUNNING,
    FIRST_LINE_GRACE_SECONDS,
    GRACE_SECONDS,
    environment,
    lock_file,
    log_file,
    open_log,
    started_lines,
    state_file,
)
from knowledge.errors import KnowledgeError
from knowledge.interfaces.cli import streams

ROOT: Final = Path(__file__).parents[2]
PROCFILE: Final = ROOT / "Procfile"
SUPERVISOR: Final = "deploy.run.supervisor"
READY_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.2
PING_SECONDS: Final = 1.0
SOUND_SECONDS: Final = 1.0  #: a process that cannot be asked counts as ready when it has lived this long
TAIL_LINES: Final = 25
LITTLE_BYTES: Final = 4 << 20  #: the first start writes about a megabyte


class StackFailed(Exception):
    """The processes could not be started; the message says which, and how their logs end."""


@dataclass(frozen=True, slots=True)
class Stack:
    """What runs on one data directory."""

    settings: Settings
    supervisor: int  #: pid
    pids: Mapping[str, int]  #: by the name of the Procfile line; one that is being started again is missing
    lines: Mapping[str, Line]

    @property
    def broker_url(self) -> str:
        return broker.endpoint(self.settings)

    @property
    def flower_url(self) -> str | None:
        return flower.address(self.settings) if "flower" in self.lines else None

    @property
    def logs(self) -> Path:
        return self.settings.run_dir / "logs"

    def report(self) -> str:
        """What listens where, for a person; without passwords."""
        rows = [("data", str(self.settings.data_dir))]
        own = "" if self.settings.broker_url is None else "  (KNOWLEDGE_BROKER_URL is set: nothing embedded was started)"
        rows.append(("broker", f"{mask_url(self.broker_url)}{own}"))
        for name, line in self.lines.items():
            if line.node:
                rows.append((name, f"{nodename(line.node)}  pid {self.pids.get(name, '-')}"))
            elif name not in {BROKER, "flower"}:
                rows.append((name, f"pid {self.pids.get(name, '-')}"))
        if self.flower_url:
            chosen = self.settings.flower_password is not None
            where = "as set" if chosen else f"in {flower.password_file(self.settings)}"
            rows.append(("flower", f"{self.flower_url}  user {self.settings.flower_user}, password {where}"))
        rows.append(("logs", str(self.logs)))
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def up(
    environ: Mapping[str, str] | None = None,
    *,
    procfile: Path = PROCFILE,
    wait_seconds: float = READY_SECONDS,
) -> Stack:
    """Start everything in the background and return when it is ready; does nothing more if it is up already.

    Args:
        environ: the environment of the processes, and where the settings come from; this process's own unless told.
        wait_seconds: for all processes together.

    Raises:
        ConfigurationError: the settings are not possible.
        StackFailed: something did not become ready in time; what had been started is stopped again.
    """
    environ = dict(os.environ if environ is None else environ)
    settings = load(environ)
    deadline = time.monotonic() + wait_seconds
    if is_up(settings):
        wait_until_ready(settings, deadline, lambda: None)
        return running(settings)
    release(settings, procfile, environ)
    supervisor = spawn(settings, procfile, environ)
    try:
        wait_until_ready(settings, deadline, supervisor.poll)
    except BaseException:
        if supervisor.poll() is None:
            end(settings, supervisor.pid)
        raise
    return running(settings)


def down(environ: Mapping[str, str] | None = None) -> bool:
    """Stop everything in order and return when it has ended; False if nothing was running.

    Running jobs may go on for `KNOWLEDGE_DRAIN_SECONDS`; what has not ended some seconds later is killed.
    """
    settings = look(environ)
    pid = supervisor_pid(settings)
    if pid is None:
        return False
    end(settings, pid)
    return True


def end(settings: Settings, pid: int) -> None:
    """Stop this supervisor and all that it has started."""
    os.kill(pid, signal.SIGTERM)
    longest = settings.drain_seconds + GRACE_SECONDS + FIRST_LINE_GRACE_SECONDS + 10
    if not wait_for(lambda: not is_up(settings), time.monotonic() + longest):
        os.kill(pid, signal.SIGKILL)  # its children go with it
        wait_for(lambda: not is_up(settings), time.monotonic() + 10)


def status(environ: Mapping[str, str] | None = None) -> Stack | None:
    """What is running now, ready or not; None if nothing is."""
    settings = look(environ)
    return running(settings) if is_up(settings) and state(settings) else None


def is_up(settings: Settings) -> bool:
    """Whether a supervisor lives; asked of the lock, which the system frees, not of a pid file."""
    try:
        descriptor = os.open(lock_file(settings), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def supervisor_pid(settings: Settings) -> int | None:
    """Whoever holds the lock; None if there is no supervisor. The state file may be missing: the disk is full."""
    if not is_up(settings):
        return None
    lock = str(lock_file(settings).resolve())
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if SUPERVISOR in process.cmdline() and any(file.path == lock for file in process.open_files()):
                return process.pid
    return None


def state(settings: Settings) -> dict[str, Any]:
    """What the living supervisor wrote; empty if a dead one left it behind, whose pid may be anybody's now."""
    try:
        kept: dict[str, Any] = json.loads(state_file(settings).read_text(encoding="utf-8"))
        return kept if SUPERVISOR in psutil.Process(kept["pid"]).cmdline() else {}
    except (FileNotFoundError, psutil.NoSuchProcess):
        return {}


def changed(settings: Settings) -> list[str]:
    """The settings that are no longer those with which what runs was started. Secrets are not compared."""
    kept = state(settings).get("settings", {})
    return [name for name, digest in fingerprints(settings).items() if kept.get(name, digest) != digest]


def running(settings: Settings) -> Stack:
    now = state(settings)
    if not now:
        raise StackFailed("the supervisor has just ended; see supervisor.log")
    pids = {name: process["pid"] for name, process in now["processes"].items() if process["pid"] is not None}
    lines = {line.name: line for line in started_lines(settings, Path(now["procfile"]))}
    return Stack(settings=settings, supervisor=now["pid"], pids=pids, lines=lines)


def release(settings: Settings, procfile: Path, environ: Mapping[str, str]) -> None:
    """Run the `release` line, if there is one, to its end."""
    line = parse(procfile).get(RELEASE)
    if line is None:
        return
    with open_log(log_file(settings, RELEASE)) as log:
        done = subprocess.run(  # noqa: S603 - the Procfile is the operator's own
            ["/bin/sh", "-c", f"exec {line.command}"],
            cwd=procfile.parent,
            env=environment(settings, environ),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode != 0:
        raise StackFailed(f"`{line.command}` ended with status {done.returncode}\n{tail(settings, RELEASE)}")


def spawn(settings: Settings, procfile: Path, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    with open_log(log_file(settings, "supervisor")) as log:
        return subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, "-m", SUPERVISOR, str(procfile)],
            cwd=ROOT,
            env=environment(settings, environ),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def wait_until_ready(settings: Settings, deadline: float, ended: Callable[[], int | None]) -> None:
    """Raises StackFailed with the names and log tails of what is not ready at the deadline."""
    waiting = ["supervisor"]

    def ready() -> bool:
        if is_up(settings) and state(settings):
            waiting[:] = unready(running(settings))
        return not waiting or (not is_up(settings) and ended() not in {None, ALREADY_RUNNING})

    wait_for(ready, deadline)
    if waiting:
        tails = "\n\n".join(tail(settings, name) for name in waiting)
        raise StackFailed(f"not ready: {', '.join(waiting)}\n\n{tails}")


def unready(stack: Stack) -> list[str]:
    """Names of the lines that do not answer yet."""
    if not broker.ping(stack.settings):
        return [BROKER] if BROKER in stack.lines else ["supervisor"]
    answering = nodes_answering(stack)
    return [name for name, line in stack.lines.items() if name != BROKER and not is_ready(stack, line, answering)]


def is_ready(stack: Stack, line: Line, answering: frozenset[str]) -> bool:
    if line.node:
        return nodename(line.node) in answering
    if line.name == "flower":
        return flower_answers(stack)
    return lives(stack.settings, line.name)


def nodes_answering(stack: Stack) -> frozenset[str]:
    nodes = [nodename(line.node) for line in stack.lines.values() if line.node]
    if not nodes:
        return frozenset()
    app = Celery("stack", broker=stack.broker_url, set_as_current=False)
    try:
        with app.connection_for_read() as connection:
            replies = app.control.ping(destination=nodes, timeout=PING_SECONDS, limit=len(nodes), connection=connection)
            return frozenset(name for reply in replies for name in reply)
    except (OperationalError, OSError):
        return frozenset()
    finally:
        app.close()


def flower_answers(stack: Stack) -> bool:
    if stack.flower_url is None or not lives(stack.settings, "flower"):
        return False
    try:
        with urllib.request.urlopen(f"{stack.flower_url}/healthcheck", timeout=PING_SECONDS) as answer:  # noqa: S310 - our own address
            return bool(answer.status == 200)
    except OSError:
        return False


def lives(settings: Settings, name: str) -> bool:
    process = state(settings).get("processes", {}).get(name, {})
    return process.get("pid") is not None and time.time() - process["started_at"] >= SOUND_SECONDS


def nodename(pattern: str) -> str:
    return str(host_format(default_nodename(pattern)))


def tail(settings: Settings, name: str) -> str:
    path = log_file(settings, name)
    try:
        last = path.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL_LINES:]
    except FileNotFoundError:
        last = []
    return "\n".join([f"--- end of {path}", *map(redact, last)])


def wait_for(condition: Callable[[], bool], deadline: float) -> bool:
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def main(arguments: list[str]) -> int:
    streams.mend()
    try:
        for line in COMMANDS[arguments[0]]():
            print(line, flush=True)
    except BrokenPipeError:  # `| head -1` has read enough; what it asked for is done
        return 0
    except (KnowledgeError, StackFailed, OSError) as error:
        with suppress(OSError):
            print(f"{arguments[0]}: {error}", file=sys.stderr, flush=True)
            if told := short_of_space():  # of a full disk the logs cannot tell
                print(told, file=sys.stderr, flush=True)
        return 1
    finally:
        streams.let_go()
    return 0


def short_of_space(environ: Mapping[str, str] | None = None) -> str | None:
    """What to say of the disk of the data directory if hardly anything is left on it; None if it has room."""
    try:
        directory = look(environ).data_dir
        free = shutil.disk_usage(directory).free
    except (KnowledgeError, OSError):
        return None
    return None if free >= LITTLE_BYTES else f"the disk that holds {directory} is full: {free // 1024} KiB are left"


def say_up() -> Iterator[str]:
    before = status()
    stack = up()
    yield "already up" if before else "up"
    if names := changed(stack.settings):
        yield f"it keeps the settings it was started with; to use the new {', '.join(names)}: make down, then make up"
    yield stack.report()
    yield "stop with: make down"


def say_down() -> Iterator[str]:
    yield "down" if down() else "nothing was up"


def say_status() -> Iterator[str]:
    stack = status()
    yield stack.report() if stack else "nothing is up"


COMMANDS: Final = {"up": say_up, "down": say_down, "status": say_status}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] if len(sys.argv) > 1 and sys.argv[1] in COMMANDS else ["status"]))
