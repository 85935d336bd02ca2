"""Local OCR by tesseract: pictures, and those pages of a PDF that lack text.

Each file gets a process of its own, in a session of its own, so that a worker which is stopped or killed costs no conversion;
the process is found again by its pid and start time. How many there are on a host is kept by locks that they hold as long as
they live.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Final

from knowledge.errors import ConverterMissing, ConverterUnavailable
from knowledge.model.budget import Budget
from knowledge.model.tools import INSTALL_TESSERACT
from knowledge.model.wire import load_error
from knowledge.pipeline.conversion import tesseract
from knowledge.pipeline.conversion.ocr_child import ERROR, ORDER, PROCESS, PROGRESS, RESULT
from knowledge.pipeline.conversion.pictures import IMAGE_TYPES
from knowledge.pipeline.conversion.port import Converted, Lost, NoRoom, Order, Ticket, Waiting
from knowledge.pipeline.conversion.process import described, is_alive
from knowledge.pipeline.readers.media_type import PDF

CHILD: Final = "knowledge.pipeline.conversion.ocr_child"
_END_SECONDS: Final = 2.0
_SETTINGS: Final = "KNOWLEDGE_"  #: keys and passwords may be among them; whoever opens other people's files needs none

_started: Final[list["subprocess.Popen[bytes]"]] = []  #: of this process; to be reaped when they have ended


class OcrProcessor:
    """See the module.

    Args:
        slots: a folder for the locks; those who share it share `processes`.
        languages: like `eng+deu`; None for those that are installed.
        processes: how many files are read at once.
    """

    name: ClassVar[str] = "ocr"
    only_without_text: ClassVar[bool] = True

    def __init__(self, *, slots: Path, languages: str | None = None, processes: int = 2, budget: Budget | None = None) -> None:
        self._slots = slots
        self._languages = languages
        self._processes = processes
        self._budget = budget or Budget()

    def claims(self, media_type: str) -> bool:
        return media_type == PDF or media_type in IMAGE_TYPES

    def missing(self) -> str | None:
        program = tesseract.find()
        if program is None:
            return f"Pictures of text are read by tesseract, which is not installed: {INSTALL_TESSERACT}"
        wanted = program.languages(self._languages)
        absent = [name for name in wanted if name not in program.installed]
        if not wanted or absent:
            packages = " ".join(f"tesseract-ocr-{name.replace('_', '-').lower()}" for name in absent or ["eng"])
            names = ", ".join(absent) or "any language"
            return f"tesseract has no model of {names}: sudo apt-get install -y {packages}"
        return None

    def start(self, order: Order) -> Ticket:
        _reap()
        program, complaint = tesseract.find(), self.missing()
        if program is None or complaint is not None:
            raise ConverterMissing(complaint)
        try:
            child = self._spawn(order, program)
        except OSError as error:  # no disk, no memory: it may be begun another time
            raise ConverterUnavailable("OCR could not be started.", reason=error.strerror) from error
        _started.append(child)
        return described(child.pid)

    def poll(self, ticket: Ticket, work: Path) -> Waiting | Converted:
        _reap()
        lives = is_alive(ticket)  # asked first: what it wrote before its end is there by now
        if (work / RESULT).exists():
            return Converted(work / RESULT)
        if (error := _json(work / ERROR)) is not None:
            raise load_error(error)
        if not lives:
            raise Lost
        progress = _json(work / PROGRESS) or {}
        return Waiting("page", progress.get("done"), progress.get("of"))

    def cancel(self, ticket: Ticket, work: Path) -> None:
        found = ticket or _json(work / PROCESS)
        if not found or not is_alive(found):
            return _reap()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(int(found["pid"]), signal.SIGKILL)
        until = time.monotonic() + _END_SECONDS
        while is_alive(found) and time.monotonic() < until:
            time.sleep(0.01)
        return _reap()

    def _spawn(self, order: Order, program: tesseract.Tesseract) -> "subprocess.Popen[bytes]":
        """Raises `OSError`: nothing has begun."""
        slot = self._slot()
        try:
            self._write(order, program)
            return subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-P", "-m", CHILD, str(order.work)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={name: value for name, value in os.environ.items() if not name.startswith(_SETTINGS)},
                start_new_session=True,
                pass_fds=(slot,),
            )
        finally:
            os.close(slot)  # the child holds it

    def _slot(self) -> int:
        """A descriptor that holds one of the locks. Raises `NoRoom`."""
        self._slots.mkdir(mode=0o700, parents=True, exist_ok=True)
        for number in range(self._processes):
            slot = os.open(self._slots / f"slot-{number}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(slot, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(slot)
            else:
                return slot
        raise NoRoom

    def _write(self, order: Order, program: tesseract.Tesseract) -> None:
        wanted = {
            "path": str(order.source.path),
            "name": order.source.name,
            "media_type": order.source.media_type,
            "seconds": order.seconds,
            "languages": program.languages(self._languages),
            "tesseract": asdict(program),
            "budget": asdict(self._budget),
        }
        (order.work / ORDER).write_text(json.dumps(wanted))


def _reap() -> None:
    """Children of this process that have ended leave its table."""
    _started[:] = [child for child in _started if child.poll() is None]


def _json(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
