"""The process that reads files for another one.

    python -P -m knowledge.pipeline.readers.child FACTORY BUDGET LIFELINE SCRATCH OWNER

It takes one request after the other from stdin and answers on stdout, in frames (see `frames`), until stdin ends. A hostile
file can make it loop, crash or fill its memory, and then its owner ends it (see `process`).

If its owner dies, however it dies, nothing of it may stay behind. A second, tiny process sees to that: it was forked before
anything was loaded, waits for the end of a pipe that only the owner holds open, kills the whole process group, also what a
reader may have started, and removes SCRATCH, the folder of their temporary files. A thread could not do it: some libraries
hold the interpreter's lock while they loop.

On Linux the system sees to it as well: it kills this process when OWNER ends (0: a thread has started it, and may end before
OWNER does), and wakes the second one when this process ends. So it does not matter if a fork of the owner, which nobody
expected, holds the pipe open, or if the owner is stopped when this process is killed.
"""

import importlib
import json
import os
import shutil
import signal
import sys
import time
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from knowledge.pipeline.readers.bound import bind_to

REMOVAL_TRIES: Final = 50
REMOVAL_PAUSE_SECONDS: Final = 0.1

if TYPE_CHECKING:  # the guard is forked before anything of this is loaded
    from knowledge.model.budget import Budget
    from knowledge.pipeline.readers.registry import ReaderRegistry


def main(arguments: list[str]) -> None:
    factory, budget, lifeline, scratch, owner = arguments
    if int(owner):
        bind_to(int(owner))
    guard = _guarded_by(int(lifeline), scratch)
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    _silence()
    _limit(int(json.loads(budget)["memory_bytes"]))
    _serve(factory, json.loads(budget), requests, answers)
    os.kill(guard, signal.SIGKILL)
    os.waitpid(guard, 0)


class _ReaderEnded(Exception):
    pass


def _guarded_by(lifeline: int, scratch: str) -> int:
    """Fork the process that waits for the owner's end, or for that of this process; its id."""
    reader = os.getpid()
    pid = os.fork()
    if pid:
        os.close(lifeline)
        return pid
    for pipe in (0, 1, 2):
        os.close(pipe)  # else they would not end when the reader does
    with suppress(_ReaderEnded):
        try:
            signal.signal(signal.SIGTERM, _wake)
            bind_to(reader, signal.SIGTERM)
            while os.read(lifeline, 1):
                pass
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the pipe and the system may both tell; one call is enough
    group = os.getpgrp()
    os.setpgid(0, 0)
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    for _ in range(REMOVAL_TRIES):
        shutil.rmtree(scratch, ignore_errors=True)
        if not os.path.lexists(scratch):
            break
        time.sleep(REMOVAL_PAUSE_SECONDS)  # who was killed just now may still have been writing
    os._exit(0)


def _wake(*_: object) -> None:
    raise _ReaderEnded


def _silence() -> None:
    """Whatever a library prints would be taken for an answer, or would show the content of files in a log."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for pipe in (0, 1, 2):
        os.dup2(nothing, pipe)
    os.close(nothing)


def _limit(memory_bytes: int) -> None:
    """A single huge allocation fails at once, as `MemoryError`; what grows step by step is watched by the owner.

    The limit is on private data, not on the address space: a mapped file or a shared library costs no memory.
    """
    import resource

    for limit, value in ((resource.RLIMIT_DATA, memory_bytes), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(limit)[1]
        with suppress(OSError, ValueError):
            resource.setrlimit(limit, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))
    with suppress(OSError), Path("/proc/self/oom_score_adj").open("w") as score:
        score.write("500")  # where memory is short, this process goes before the worker does


def _serve(factory: str, budget: dict[str, Any], requests: IO[bytes], answers: IO[bytes]) -> None:
    from knowledge.errors import KnowledgeError
    from knowledge.model.budget import Budget, exceeded
    from knowledge.pipeline.readers.frames import error_frame, event_frame, packed, received
    from knowledge.pipeline.readers.reading import Began

    limits = Budget(**budget)
    try:
        registry = _registry(factory, limits)
    except KnowledgeError as error:
        answers.write(packed(error_frame(error)))
        return answers.flush()
    answers.write(packed({"ready": os.getpid()}))
    answers.flush()
    while (request := received(requests)) is not None:
        try:
            for event in registry.events(Path(request["path"]), request["name"]):
                answers.write(packed(event_frame(event)))
                if isinstance(event, Began):  # whatever happens from here on, the owner can say which reader it was
                    answers.flush()
            answers.write(packed({"done": True}))
        except KnowledgeError as error:
            answers.write(packed(error_frame(error)))
        except MemoryError:
            answers.write(packed(error_frame(exceeded("memory_bytes", limits.memory_bytes, limits.memory_bytes))))
        answers.flush()
    return None


def _registry(factory: str, budget: "Budget") -> "ReaderRegistry":
    module, _, name = factory.partition(":")
    registry: ReaderRegistry = attrgetter(name)(importlib.import_module(module))(budget)
    return registry


if __name__ == "__main__":
    main(sys.argv[1:])
