"""The program tesseract, called for one image at a time. Nothing of it is loaded into this process."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

from knowledge.errors import ConversionFault
from knowledge.pipeline.conversion.apart import bind

MAX_DEFAULT_LANGUAGES: Final = 6  #: with more of them installed than a person would choose, each page takes minutes
_NO_LANGUAGES: Final = frozenset({"osd", "equ", "snum"})  #: models that are no languages
_NAME: Final = re.compile(r"[A-Za-z0-9_/-]{1,64}")
_ASK_SECONDS: Final = 10.0
_KNOWN_SECONDS: Final = 60.0  #: after this it is asked again: a language may have been installed
_MAX_BYTES: Final = 8 << 20  #: of one page; a page full of tiny letters has some ten thousand


@dataclass(frozen=True, slots=True)
class Tesseract:
    """An installed tesseract."""

    program: str
    version: str
    installed: tuple[str, ...]  #: language models

    @property
    def can_turn(self) -> bool:
        """Whether it can find out that a page lies on its side."""
        return "osd" in self.installed

    def languages(self, wanted: str | None) -> tuple[str, ...]:
        """Those to read with.

        Args:
            wanted: like `eng+deu`; None for all that are installed, or English if those are many.
        """
        if wanted:
            return tuple(part for part in wanted.split("+") if part)
        found = tuple(name for name in self.installed if name not in _NO_LANGUAGES)
        if len(found) <= MAX_DEFAULT_LANGUAGES:
            return tuple(sorted(found, key=lambda name: (name != "eng", name)))
        return ("eng",) if "eng" in found else found[:1]

    def read(self, image: Path, languages: Sequence[str], *, seconds: float, memory_bytes: int) -> str:
        """The text of one image, which says its own resolution.

        Raises:
            ConversionFault: it failed, or took longer than `seconds`.
        """
        layout = "1" if self.can_turn else "3"  # 1: as 3, and turned upright first
        command = [self.program, str(image), "-", "-l", "+".join(languages), "--psm", layout]
        environ = {**os.environ, "OMP_THREAD_LIMIT": "1"}  # its threads only get into each other's way
        try:
            done = subprocess.run(  # noqa: S603 - a program of the system, names of languages checked
                command,
                env=environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=seconds,
                check=False,
                preexec_fn=partial(bind, os.getpid(), memory_bytes),  # safe: this process has one thread
            )
        except subprocess.TimeoutExpired:
            raise ConversionFault("OCR of one page took too long.", seconds=seconds) from None
        except OSError as error:
            raise ConversionFault("tesseract cannot be started.", reason=error.strerror) from error
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            raise ConversionFault("tesseract failed.", exit_code=done.returncode, said=" ".join(said[-2:])[:300])
        return done.stdout[:_MAX_BYTES].decode(errors="replace").replace("\f", "\n")


def find() -> Tesseract | None:
    """The tesseract of this host; None if it is not installed."""
    program = shutil.which("tesseract")
    if program is None:
        return None
    try:
        return _asked(program, int(time.monotonic() / _KNOWN_SECONDS))
    except (OSError, subprocess.SubprocessError):  # not remembered: it may have been too busy to answer
        return None


def wrong_names(wanted: str) -> list[str]:
    """Parts of a list of languages that cannot be names of one."""
    return [part for part in wanted.split("+") if not _NAME.fullmatch(part)]


@lru_cache(maxsize=2)
def _asked(program: str, _period: int) -> Tesseract:
    version = _answer(program, "--version")
    listed = _answer(program, "--list-langs")
    number = re.search(r"tesseract\s+v?(\S+)", version)
    names = tuple(line.strip() for line in listed.splitlines()[1:] if _NAME.fullmatch(line.strip()))
    return Tesseract(program, number[1] if number else "", names)


def _answer(program: str, option: str) -> str:
    done = subprocess.run([program, option], capture_output=True, timeout=_ASK_SECONDS, check=True, stdin=subprocess.DEVNULL)  # noqa: S603
    return (done.stdout or done.stderr).decode(errors="replace")
