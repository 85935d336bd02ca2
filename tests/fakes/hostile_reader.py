"""A reader that does to its process what hostile files do: the first line of a file says what."""

import ctypes
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from knowledge.errors import EncryptedSource
from knowledge.model.budget import Budget
from knowledge.model.documents import Document, SourceFile
from knowledge.pipeline.readers.port import Finding
from knowledge.pipeline.readers.registry import ReaderRegistry

FACTORY = f"{__name__}:registry"


def registry(budget: Budget) -> ReaderRegistry:
    return ReaderRegistry([HostileReader()], budget)


def none(budget: Budget) -> ReaderRegistry:
    raise RuntimeError("this one does not start")


class HostileReader:
    name = "hostile"
    suffixes = frozenset({".hostile"})

    def score(self, source: SourceFile) -> int | None:
        return 1

    def read(self, source: SourceFile) -> Iterator[Finding]:
        what, *rest = source.path.read_text().split("\n")
        yield from getattr(self, f"do_{what}")(*rest)

    def do_words(self, *words: str) -> Iterator[Finding]:
        """Behaves well, and tells which process read it."""
        yield from (Document(word) for word in words)
        yield Document(str(os.getpid()))

    def do_loop(self) -> Iterator[Finding]:
        while True:
            pass
        yield Document("never")

    def do_hold(self) -> Iterator[Finding]:
        """Loops in a library that holds the interpreter's lock."""
        yield Document(str(os.getpid()))
        yield Document("x" * (1 << 20))  # pushes what went before through the pipe
        re.match(r"(a|aa)+$", "a" * 200 + "b")

    def do_eat(self) -> Iterator[Finding]:
        """Grows step by step."""
        eaten = []
        while True:
            eaten.append(bytearray(8 << 20))
        yield Document("never")

    def do_helper(self) -> Iterator[Finding]:
        """What it starts takes too much, though no program does alone."""
        code = "import time; eaten = bytearray(b'x') * (150 << 20); time.sleep(600)"
        for program in [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]:
            program.wait()
        yield Document("never")

    def do_swallow(self) -> Iterator[Finding]:
        """Asks for everything at once."""
        yield Document(str(len(bytearray(1 << 44))))

    def do_crash(self) -> Iterator[Finding]:
        yield Document("before")
        ctypes.string_at(0)

    def do_quit(self) -> Iterator[Finding]:
        """Dies in the middle, with the first documents sent."""
        yield Document("first")
        yield Document("x" * (1 << 20))
        os._exit(3)

    def do_crash_when_used(self, marker: str) -> Iterator[Finding]:
        """Is the victim of what the process has read before."""
        if not Path(marker).exists():
            Path(marker).touch()
            ctypes.string_at(0)
        yield Document("read at last")

    def do_chatter(self) -> Iterator[Finding]:
        print("to stdout")
        os.write(1, b"straight to the pipe")
        os.write(2, b"and to stderr")
        yield Document("quiet")

    def do_environment(self) -> Iterator[Finding]:
        yield Document(" ".join(sorted(os.environ)))

    def do_start(self) -> Iterator[Finding]:
        """Starts a program, tells the ids of both, and loops."""
        program = subprocess.Popen(["sleep", "600"])
        yield Document(f"{os.getpid()} {program.pid}")
        yield Document("x" * (1 << 20))
        yield from self.do_loop()

    def do_refuse(self) -> Iterator[Finding]:
        yield Document("a page")
        raise EncryptedSource(page=2)

    def do_surrogate(self) -> Iterator[Finding]:
        yield Document("a\ud800b\x00c", page=7, locator="sheet \u00e4")
