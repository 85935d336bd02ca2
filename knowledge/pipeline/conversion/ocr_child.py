"""The process that reads one file by OCR: `python -P -m knowledge.pipeline.conversion.ocr_child WORK`.

WORK is a folder with `order.json`. What becomes of it: `process.json` at once, so that whoever finds the folder can end the
process; `progress.json` while it works; `result.md` (see `artefact.py`) or `error.json` at the end, each renamed into place
whole.

Nobody waits for this process, so it looks after itself: it stops when its folder is gone or its time is over, is the first to
go when memory is short, and leaves the processor to others. A page that cannot be drawn or read does not cost the others. While
the disk is full it waits for room: that is no fault of the file.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from knowledge.errors import ConversionFault, ConversionTimeout, KnowledgeError, ReaderBudgetExceeded, StorageFull
from knowledge.model.budget import Budget
from knowledge.model.documents import SourceFile
from knowledge.model.wire import dump_error, load_error
from knowledge.pipeline.conversion import artefact, pages
from knowledge.pipeline.conversion.apart import FULL, NoSpace, StepFailed, apart
from knowledge.pipeline.conversion.process import this_process
from knowledge.pipeline.conversion.tesseract import Tesseract
from knowledge.pipeline.readers.media_type import PDF

T = TypeVar("T")

ORDER: Final = "order.json"
PROCESS: Final = "process.json"
PROGRESS: Final = "progress.json"
RESULT: Final = "result.md"
ERROR: Final = "error.json"

_SURVEY_SECONDS: Final = 120.0
_DRAW_SECONDS: Final = 60.0
_PAGE_SECONDS: Final = 300.0  #: of OCR; a newspaper page takes half a minute on a slow machine
_SPACE_SECONDS: Final = 2.0  #: between two looks whether there is room on the disk again
_GRACE_SECONDS: Final = 30.0  #: after its time a process that hangs is ended by the system


def main(work: Path) -> None:
    os.setpriority(os.PRIO_PROCESS, 0, 10)
    with suppress(OSError), Path("/proc/self/oom_score_adj").open("w") as score:
        score.write("500")
    _put(work / PROCESS, this_process())
    order = json.loads((work / ORDER).read_text())
    signal.setitimer(signal.ITIMER_REAL, order["seconds"] + _GRACE_SECONDS)  # its default action ends the process
    until = time.monotonic() + order["seconds"]
    try:
        found = _read(work, order, until)
        whole = work / f"{RESULT}.part"
        with_space(partial(artefact.write, whole, found), until)
        whole.rename(work / RESULT)
    except KnowledgeError as error:
        _put(work / ERROR, dump_error(error))
    except FileNotFoundError:
        if work.exists():
            raise  # else nobody wants it any more


def with_space(step: Callable[[], T], until: float) -> T:
    """Do it, as often as a full disk prevents it.

    Args:
        until: by `time.monotonic`.

    Raises:
        StorageFull: there was no room for so long. Whatever else the step raises.
    """
    while True:
        try:
            return step()
        except NoSpace:
            pass
        except OSError as error:
            if error.errno not in FULL:
                raise
        if time.monotonic() + _SPACE_SECONDS > until:
            raise StorageFull
        time.sleep(_SPACE_SECONDS)


def _read(work: Path, order: dict[str, Any], until: float) -> artefact.Artefact:
    budget = Budget(**order["budget"])
    source = SourceFile(path=Path(order["path"]), name=order["name"], media_type=order["media_type"])
    todo = _survey(work, source, budget, until)
    program = Tesseract(**{**order["tesseract"], "installed": tuple(order["tesseract"]["installed"])})
    texts: dict[int, str] = {int(number): text for number, text in todo["texts"].items()}
    unread: list[int] = []
    faults: list[ConversionFault] = []
    for position, number in enumerate(todo["lacking"]):
        with_space(partial(_put, work / PROGRESS, {"done": position, "of": len(todo["lacking"])}), until)
        if time.monotonic() > until:
            raise ConversionTimeout(seconds=order["seconds"], pages_done=position, pages=len(todo["lacking"]))
        try:
            text = _page(work, source, number, budget, program, order["languages"], until)
        except ConversionFault as error:
            faults.append(error)
            unread.append(number)
            continue
        texts[number] = text if text.strip() else texts.get(number, "")
        if not texts[number].strip():
            unread.append(number)
    if faults and len(faults) == len(todo["lacking"]) and not any(text.strip() for text in texts.values()):
        raise faults[-1]
    return artefact.Artefact(
        pages=[texts.get(number, "") for number in range(1, todo["pages"] + 1)] or [""],
        media_type=source.media_type,
        converter=f"tesseract {program.version} ({'+'.join(order['languages'])})",
        has_pages=source.media_type == PDF or todo["pages"] > 1,
        unread=unread,
        extra={"resource": source.name, "pages_by_ocr": len(todo["lacking"]), "pages_failed": len(faults)},
    )


def _survey(work: Path, source: SourceFile, budget: Budget, until: float) -> dict[str, Any]:
    report = work / "survey.json"
    try:
        survey = partial(pages.survey, source, budget, report)
        with_space(partial(apart, survey, seconds=_SURVEY_SECONDS, memory_bytes=budget.memory_bytes), until)
    except StepFailed as error:
        if str(error) == "out of memory":
            raise ReaderBudgetExceeded("Reading this file took more memory than it may.", name=source.name) from error
        raise ConversionFault("This file cannot be opened for OCR.", reason=str(error)) from error
    found: dict[str, Any] = json.loads(report.read_text())
    if "error" in found:
        raise load_error(found["error"])
    return found


def _page(
    work: Path, source: SourceFile, number: int, budget: Budget, program: Tesseract, languages: list[str], until: float
) -> str:
    """The text of one page. Raises `ConversionFault`."""
    image = work / "page.tif"
    try:
        draw = partial(pages.draw, source, number, budget, image)
        longest = min(_DRAW_SECONDS, max(until - time.monotonic(), 1.0))
        with_space(partial(apart, draw, seconds=longest, memory_bytes=budget.memory_bytes), until)
    except StepFailed as error:
        raise ConversionFault("This page cannot be drawn.", page=number, reason=str(error)) from error
    try:
        longest = min(_PAGE_SECONDS, max(until - time.monotonic(), 1.0))
        return program.read(image, languages, seconds=longest, memory_bytes=budget.memory_bytes)
    finally:
        image.unlink(missing_ok=True)


def _put(path: Path, value: Any) -> None:
    part = path.with_suffix(".part")
    part.write_text(json.dumps(value))
    part.rename(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
