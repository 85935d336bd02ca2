"""The owner's side of a reader process: one long-lived child that reads file after file, and is replaced when one undoes it.

Its owner is one slot of a worker, or one command. `multiprocessing` is no way to start it: Celery's children are daemonic and
may have none. The child ends when this process does, however that happens (see `child`).

Seconds are counted here. Memory is watched here as what is resident, of the child and of what it started, because only that is
taken from others; the child itself is also limited in what it may allocate at once. The address space is not limited: libraries
and mapped files reserve gigabytes of it that cost nothing.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Final

import psutil

from knowledge.errors import ConfigurationError, CorruptSource, KnowledgeError, ReaderBudgetExceeded
from knowledge.model.budget import Budget, exceeded
from knowledge.model.documents import Checkpoint
from knowledge.model.wire import load_error
from knowledge.pipeline.readers.decoding import clean
from knowledge.pipeline.readers.frames import Frame, Unpacker, event, packed
from knowledge.pipeline.readers.port import Finding
from knowledge.pipeline.readers.reading import Began

FILES_PER_CHILD: Final = 200  #: after so many it is replaced: libraries leak
FACTORY: Final = "knowledge.pipeline.readers.registry:ReaderRegistry.installed"
_LOOK_SECONDS: Final = 0.05  #: between two looks at the child's memory
_LOOKS_PER_FAMILY: Final = 10  #: looks at the child alone for one at what it has started, which costs a walk over all processes
_START_SECONDS: Final = 60.0  #: for loading Python and the libraries on a machine that is very busy
_NEAR: Final = 0.5  #: share of the memory; a library that is refused more than this ends its process by a signal
_PIECE_BYTES: Final = 1 << 20

Take = Callable[[Began | Finding], None]


class ReaderProcess:
    """One child at a time, started at the first file. Files are read one after the other, whichever thread asks."""

    def __init__(self, budget: Budget | None = None, *, factory: str = FACTORY, files_per_child: int = FILES_PER_CHILD) -> None:
        """
        Args:
            factory: `module:callable` that makes the child's `ReaderRegistry` from a `Budget`.
        """
        self._budget = budget or Budget()
        self._factory = factory
        self._files_per_child = files_per_child
        self._child: _Child | None = None
        self._lock = threading.Lock()

    @property
    def pid(self) -> int | None:
        """Of the child, while there is one."""
        return self._child.pid if self._child else None

    def read(self, path: Path, name: str, take: Take, checkpoint: Checkpoint) -> None:
        """Give every event of a file to `take`.

        A file that ends a child which has read others before is given to a fresh one, once: it may not be to blame. What `take`
        got until then is repeated, so it begins with `Began` again.

        Raises:
            SourceFault: whatever reading it in this process would raise; `reader_budget_exceeded` when it took too many seconds
                or too much memory; `corrupt` when it crashed its reader.
        """
        with self._lock:
            child = self._ready()
            try:
                self._read(child, path, name, take, checkpoint)
            except _Undone as undone:
                if child.files == 1 or not undone.may_be_innocent:
                    raise undone.error from None
            else:
                return
            try:
                self._read(self._ready(), path, name, take, checkpoint)
            except _Undone as undone:
                raise undone.error from None

    def close(self) -> None:
        """End the child; the next file would start another."""
        with self._lock:
            self._end()

    def _ready(self) -> "_Child":
        child = self._child
        if child is not None and child.owner != os.getpid():
            child = self._child = None  # another process's, after a fork: nothing of it is ours to end
        if child is not None and child.has_ended:  # between two files; its guard and its folder are still there
            self._kill()
            child = None
        if child is not None and (
            child.files >= self._files_per_child or child.resident_bytes() > self._budget.memory_bytes / 2
        ):
            self._end()
            child = None
        if child is None:
            child = self._child = _Child(self._factory, self._budget)
        return child

    def _read(self, child: "_Child", path: Path, name: str, take: Take, checkpoint: Checkpoint) -> None:
        details = {"name": clean(name)}
        try:
            for found in child.events(path, name, checkpoint):
                if isinstance(found, Began):
                    details |= {"media_type": found.media_type, "reader": found.reader}
                take(found)
                checkpoint()
        except _Undone as undone:
            undone.error.details = {**details, **undone.error.details}
            raise
        finally:
            if child.is_reading:  # dead, or in the middle of a file that nobody wants any more
                self._kill()

    def _kill(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child = None

    def _end(self) -> None:
        if self._child is not None and self._child.owner == os.getpid():
            self._child.end()
        self._child = None


class _Undone(Exception):
    """The child cannot go on."""

    def __init__(self, error: KnowledgeError, *, may_be_innocent: bool = True) -> None:
        super().__init__()
        self.error = error
        self.may_be_innocent = may_be_innocent  #: the fault may lie in what the child has read before


class _Child:
    """A running child and the pipes to it."""

    def __init__(self, factory: str, budget: Budget) -> None:
        self.owner = os.getpid()
        self.files = 0
        self._most_resident = 0  #: bytes, of the file being read
        self.is_reading = False
        self._budget = budget
        self._unpacker = Unpacker()
        lifeline, self._lifeline = os.pipe()
        self._scratch = tempfile.mkdtemp(prefix="knowledge-reader-")  # a reader that is killed cannot tidy up
        # -P: the current directory may be somebody's download folder and hold a `json.py`
        command = [sys.executable, "-P", "-m", "knowledge.pipeline.readers.child"]
        owner = self.owner if threading.current_thread() is threading.main_thread() else 0
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                [
                    *command,
                    factory,
                    json.dumps(asdict(budget)),
                    str(lifeline),
                    self._scratch,
                    str(owner),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=(lifeline,),
                start_new_session=True,  # Ctrl-C is the owner's, and the group can be killed as a whole
                env={
                    **{name: value for name, value in os.environ.items() if not name.startswith("KNOWLEDGE_")},  # no secrets
                    "TMPDIR": self._scratch,
                },
            )
        except OSError as error:
            os.close(self._lifeline)
            shutil.rmtree(self._scratch, ignore_errors=True)
            raise ConfigurationError("The process that reads files cannot be started.", reason=error.strerror) from error
        finally:
            os.close(lifeline)
        self.pid = self._process.pid
        self._in, self._out = _pipe(self._process.stdin), _pipe(self._process.stdout)
        self._watched = psutil.Process(self.pid)
        self._await_ready()

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def events(self, path: Path, name: str, checkpoint: Checkpoint) -> Iterator[Began | Finding]:
        """What the file gives, as it comes. `is_reading` until the child has said that this is all.

        Raises:
            SourceFault: as the child reports it.
            _Undone: it has died, or must be killed.
        """
        self.files += 1
        self.is_reading = True
        self._most_resident = 0
        try:
            self._in.write(packed({"path": str(path), "name": name}))
            self._in.flush()
        except OSError:
            raise _Undone(self._obituary()) from None
        for frame in self._frames(time.monotonic() + self._budget.seconds, checkpoint):
            if (found := event(frame)) is not None:
                yield found
                continue
            self.is_reading = False
            _raise_what(frame)

    def resident_bytes(self, *, family: bool = False) -> int:
        """What it holds in memory; with `family` together with the processes that it has started."""
        total = 0
        with suppress(psutil.Error):
            total = self._watched.memory_info().rss
            for one in self._watched.children(recursive=True) if family else ():
                with suppress(psutil.Error):
                    total += one.memory_info().rss
        return total

    def kill(self) -> None:
        """It and all it has started."""
        with suppress(ProcessLookupError, PermissionError):  # what a dead leader leaves behind is a group all the same
            os.killpg(self.pid, signal.SIGKILL)
        self._bury()

    def end(self) -> None:
        """Let it end by itself, which it does when no more requests can come; not for long."""
        with suppress(OSError):
            self._in.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        self.kill()

    def _bury(self) -> None:
        os.close(self._lifeline)
        for pipe in (self._in, self._out):
            with suppress(OSError):
                pipe.close()
        self._process.wait()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _await_ready(self) -> None:
        try:
            for frame in self._frames(time.monotonic() + _START_SECONDS, lambda: None):
                _raise_what(frame)
        except _Undone as undone:
            self.kill()
            reason = str(undone.error)
            raise ConfigurationError("The process that reads files does not start.", reason=reason) from None
        except BaseException:
            self.kill()
            raise

    def _frames(self, deadline: float, checkpoint: Checkpoint) -> Iterator[Frame]:
        looks, look_at = 0, time.monotonic() + _LOOK_SECONDS
        while True:
            is_readable, _, _ = select.select([self._out], [], [], max(0.0, look_at - time.monotonic()))
            if is_readable:
                piece = os.read(self._out.fileno(), _PIECE_BYTES)
                if not piece:
                    raise _Undone(self._obituary())
                for frame in self._unpacker.feed(piece):
                    yield frame
                    if not frame.keys().isdisjoint(("done", "error", "ready")):
                        return
            now = time.monotonic()
            if now >= look_at:
                looks, look_at = looks + 1, now + _LOOK_SECONDS
                self._look(now, deadline, family=looks % _LOOKS_PER_FAMILY == 0)
                checkpoint()

    def _look(self, now: float, deadline: float, *, family: bool) -> None:
        budget = self._budget
        if now > deadline:
            found = round(now - deadline + budget.seconds, 1)
            raise _Undone(exceeded("seconds", found, budget.seconds), may_be_innocent=False)
        resident = self.resident_bytes(family=family)
        self._most_resident = max(self._most_resident, resident)
        if resident > budget.memory_bytes:
            raise _Undone(exceeded("memory_bytes", resident, budget.memory_bytes))

    def _obituary(self) -> KnowledgeError:
        """Why it is no more; it has not been killed by us."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)  # no effect on how a process ended that is ending already
        status = self._process.wait()
        if status == -signal.SIGKILL:
            return ReaderBudgetExceeded(
                "The system ended the process that read this file, most likely for the memory it took.",
                figure="memory_bytes",
                found=None,
                limit=self._budget.memory_bytes,
            )
        if status < 0 and self._most_resident > self._budget.memory_bytes * _NEAR:
            return exceeded("memory_bytes", self._most_resident, self._budget.memory_bytes)
        how = signal.Signals(-status).name if status < 0 else f"status {status}"
        return CorruptSource("The process that read this file crashed on it.", ended_with=how)


def _raise_what(frame: Frame) -> None:
    if "error" in frame:
        raise load_error(frame["error"])


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None  # asked for when it was started
    return stream
