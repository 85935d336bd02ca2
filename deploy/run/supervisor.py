"""Keeps the processes of a Procfile running: `python -m deploy.run.supervisor PROCFILE`, in the foreground, until SIGTERM.

A process that ends is started again, at once if it lived for a while, else after a delay that doubles. On SIGTERM everything
but the first line is asked to stop, then the first line, on which the others depend; an embedded broker first takes out of its
file what was taken from it. What does not end in time is killed. If this process itself is killed, the system kills its
children: nothing stays behind. A full disk does not end it: what could not be written or started is tried again.
"""

import ctypes
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from config import broker
from config.secrets import write_private
from config.settings import Settings, fingerprints, load
from deploy.run.procfile import BROKER, RELEASE, Line, parse
from knowledge.errors import KnowledgeError

ALREADY_RUNNING: Final = 3  #: exit status
TICK_SECONDS: Final = 0.1
SOUND_SECONDS: Final = 5.0  #: a process that lived this long did not fail at its start
FIRST_DELAY_SECONDS: Final = 0.2
LONGEST_DELAY_SECONDS: Final = 30.0
GRACE_SECONDS: Final = 15.0  #: on top of KNOWLEDGE_DRAIN_SECONDS before a process that was asked to stop is killed
FIRST_LINE_GRACE_SECONDS: Final = 10.0
LARGEST_LOG_BYTES: Final = 20_000_000  #: a larger log is put aside; one older log is kept
LOGS_SECONDS: Final = 60.0  #: between two looks at the size of the logs
PR_SET_PDEATHSIG: Final = 1


@dataclass(slots=True)
class Child:
    """One line and its process. `due` and `started` are monotonic seconds."""

    line: Line
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    started_at: float = 0.0  #: seconds since 1970
    due: float = 0.0
    delay: float = FIRST_DELAY_SECONDS
    starts: int = 0

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process else None


class Supervisor:
    def __init__(self, settings: Settings, procfile: Path, environ: Mapping[str, str]) -> None:
        self.settings = settings
        self.procfile = procfile
        self.environ = environment(settings, environ)
        self.children = [Child(line) for line in started_lines(settings, procfile)]
        self.stop_signals = 0
        self.state_is_written = False
        self.logs_due = 0.0  #: monotonic seconds

    def run(self) -> None:
        """Start everything, keep it running, and stop it in order after a SIGTERM or SIGINT."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.on_stop)
        try:
            while not self.stop_signals:
                self.tend()
                time.sleep(TICK_SECONDS)
        finally:
            first, others = self.children[:1], self.children[1:]
            self.end(others, self.settings.drain_seconds + GRACE_SECONDS)
            if first and first[0].line.name == BROKER and self.stop_signals < 2:
                broker.rewrite(self.settings)
            self.end(first, FIRST_LINE_GRACE_SECONDS)
            with suppress(OSError):
                state_file(self.settings).unlink(missing_ok=True)

    def on_stop(self, number: int, frame: object) -> None:
        self.stop_signals += 1

    def tend(self) -> None:
        """One look at every child: note the ones that ended, start the ones that are due."""
        now = time.monotonic()
        for child in self.children:
            if child.process is not None and child.process.poll() is not None:
                self.ended(child, now)
                self.state_is_written = False
            if child.process is None and child.due <= now:
                self.start(child, now)
                self.state_is_written = False
        if not self.state_is_written:
            self.write_state()
        if self.logs_due <= now:
            self.logs_due = now + LOGS_SECONDS
            for child in self.children:
                shorten(log_file(self.settings, child.line.name))

    def ended(self, child: Child, now: float) -> None:
        if child.process is None:
            return
        lived = now - child.started
        postpone(child, now, sound=lived >= SOUND_SECONDS)
        how = child.process.returncode
        end = f"was ended by {signal.Signals(-how).name}" if how < 0 else f"ended with status {how}"
        say(f"{child.line.name} (pid {child.pid}) {end} after {lived:.1f} s; next start in {child.delay:.1f} s")
        kill_group(child.process)  # what it left behind
        child.process = None

    def start(self, child: Child, now: float) -> None:
        try:
            with open_log(log_file(self.settings, child.line.name)) as log:
                child.process = subprocess.Popen(  # noqa: S603 - the Procfile is the operator's own
                    ["/bin/sh", "-c", f"exec {child.line.command}"],
                    cwd=self.procfile.parent,
                    env=self.environ,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=dies_with(os.getpid()),
                )
        except OSError as refused:  # the disk or the table of processes is full
            postpone(child, now, sound=False)
            say(f"{child.line.name} cannot be started: {refused}; next try in {child.delay:.1f} s")
            return
        child.started, child.started_at = now, time.time()
        child.starts += 1
        say(f"{child.line.name} started as pid {child.pid}")

    def end(self, children: Iterable[Child], seconds: float) -> None:
        """Ask these to stop, wait, and kill what is left; a second signal ends the waiting."""
        left = [child.process for child in children if child.process is not None]
        for process in left:
            process.terminate()
        deadline = time.monotonic() + seconds
        while any(process.poll() is None for process in left) and time.monotonic() < deadline and self.stop_signals < 2:
            time.sleep(TICK_SECONDS)
        for process in left:
            kill_group(process)
            process.wait()

    def write_state(self) -> None:
        processes = {
            child.line.name: {"pid": child.pid, "starts": child.starts, "started_at": child.started_at}
            for child in self.children
        }
        state = {
            "pid": os.getpid(),
            "procfile": str(self.procfile),
            "settings": fingerprints(self.settings),
            "processes": processes,
        }
        try:
            write_private(state_file(self.settings), json.dumps(state, indent=2) + "\n")
        except OSError:  # written at a later look, once there is space again; the processes matter more
            return
        self.state_is_written = True


def postpone(child: Child, now: float, *, sound: bool) -> None:
    """Set when this child is started next: soon after a sound run, else later each time."""
    child.delay = FIRST_DELAY_SECONDS if sound else min(child.delay * 2, LONGEST_DELAY_SECONDS)
    child.due = now + child.delay


def say(text: str) -> None:
    """A line for the supervisor's log; on a full disk it is lost."""
    with suppress(OSError):
        print(text, flush=True)


def started_lines(settings: Settings, procfile: Path) -> list[Line]:
    """The lines that run here: all but `release`, and no broker where one is configured."""
    left_out = {RELEASE} | ({BROKER} if settings.broker_url is not None else set())
    return [line for name, line in parse(procfile).items() if name not in left_out]


def environment(settings: Settings, environ: Mapping[str, str]) -> dict[str, str]:
    """What every process gets: the caller's environment, our own commands first, and settings that Procfile lines name."""
    return {
        **environ,
        "PATH": os.pathsep.join([str(Path(sys.prefix) / "bin"), environ.get("PATH", os.defpath)]),
        "PYTHONUNBUFFERED": "1",
        "KNOWLEDGE_DATA_DIR": str(settings.data_dir),
        "KNOWLEDGE_WORKER_CONCURRENCY": str(settings.worker_concurrency),
        "KNOWLEDGE_CONTROL_CONCURRENCY": str(settings.control_concurrency),
        "KNOWLEDGE_COMMANDS_CONCURRENCY": str(settings.commands_concurrency),
    }


def state_file(settings: Settings) -> Path:
    return settings.run_dir / "state.json"


def lock_file(settings: Settings) -> Path:
    return settings.run_dir / "lock"


def log_file(settings: Settings, name: str) -> Path:
    return settings.run_dir / "logs" / f"{name}.log"


def open_log(path: Path) -> BinaryIO:
    """The log to append to, readable by its owner only; one that has grown large is put aside first."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > LARGEST_LOG_BYTES:
        path.replace(path.with_suffix(".log.1"))
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")


def shorten(path: Path) -> None:
    """Put the content of a log that has grown large aside. Its process goes on appending to the same, emptied file.

    What is written between the copy and the cut is lost: a few lines, of millions.
    """
    with suppress(OSError):
        if path.stat().st_size <= LARGEST_LOG_BYTES:
            return
        try:
            shutil.copyfile(path, path.with_suffix(".log.1"), follow_symlinks=False)
            path.with_suffix(".log.1").chmod(0o600)
        finally:
            os.truncate(path, 0)  # also where the disk has no place for the copy


def dies_with(parent: int) -> Callable[[], None]:
    """For the child, between fork and exec: the system kills it when the parent ends, however that happens."""
    if not sys.platform.startswith("linux"):
        return lambda: None
    libc = ctypes.CDLL(None)

    def bind() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before the line above
            os._exit(1)

    return bind


def kill_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def main() -> int:
    try:
        settings = load()
        procfile = Path(sys.argv[1]).absolute()
    except KnowledgeError as error:
        print(f"supervisor: {error}", file=sys.stderr)
        return 1
    settings.run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(lock_file(settings), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return ALREADY_RUNNING
    Supervisor(settings, procfile, os.environ).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
