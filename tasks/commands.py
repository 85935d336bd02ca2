"""knowledge.command: the thin client's requests, answered by the service of this process.

Arguments are typed inputs and ids, never bytes. Paths must lie below `KNOWLEDGE_IMPORT_ROOTS`, because a client need not be the
person whose files these are; so must the sources of items that a client has acquired again. Nothing that was said or answered
appears in events, Flower or logs.

Commands run in the threads of a worker of their own. Some of them wait: for a base that another operation is changing, for a
job to stop, for bytes to be copied. Only so many of these run at once that a question is always answered; see `waiting_place`.
"""

import inspect
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_type_hints

from celery import Task, current_app, shared_task

from knowledge.errors import CommandTimeout, FleetBusy, InvalidInput, JsonValue, KnowledgeError
from knowledge.model import wire
from knowledge.model.inputs import DirectoryInput, FileInput
from knowledge.runtime import Runtime
from knowledge.service import KnowledgeService
from tasks import process

log = logging.getLogger(__name__)


@shared_task(bind=True, name=wire.COMMAND, ignore_result=False, acks_late=False, resultrepr_maxsize=1)
def command(self: Task, operation: str, arguments: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Run one service method. Acknowledged early: a command that was lost is asked again by whoever waits for it.

    Late results are removed by the broker (`result_expires`), and `resultrepr_maxsize` keeps answers out of events and logs.
    """
    try:
        if _is_over(self.request.expires):  # it waited here for a free thread; its sender has gone
            raise CommandTimeout(operation=operation)  # noqa: TRY301 - one place makes answers
        with waiting_place(operation):
            return {"ok": answer(process.runtime(), operation, arguments)}
    except KnowledgeError as error:
        return {"error": wire.dump_error(error)}
    except Exception as error:  # the client must get an answer; the traceback stays here
        log.exception("command failed", extra={"operation": operation})
        failed = KnowledgeError("The command failed inside the fleet; see the worker's log.", exception=type(error).__name__)
        return {"error": wire.dump_error(failed)}


def answer(rt: Runtime, operation: str, arguments: dict[str, JsonValue]) -> JsonValue:
    """Check, call, and dump the result. The call reads no file outside the import roots, neither now nor by its jobs.

    Raises:
        InvalidInput: no such operation, its arguments do not fit or are too many, or its answer is too large.
        PathNotAllowed. Whatever the method raises.
    """
    if operation not in wire.OPERATIONS:
        raise InvalidInput(f"There is no operation {operation!r}.", operation=operation)
    confined = rt.confined()
    method = getattr(KnowledgeService(confined), operation)
    hints = get_type_hints(getattr(KnowledgeService, operation))
    result = hints.pop("return")
    if unknown := sorted(set(arguments) - set(hints)):
        raise InvalidInput(f"{operation} takes no {', '.join(unknown)}.", operation=operation)
    _require_few(operation, arguments)
    values = {name: wire.load(value, hints[name], name) for name, value in arguments.items()}
    try:
        inspect.signature(method).bind(**values)
    except TypeError as error:
        raise InvalidInput(f"{operation}: {error}.", operation=operation) from error
    for path in _paths(values):
        confined.reach.require(path)
    told = wire.dump(method(**values), result)
    size = len(json.dumps(told))
    if size > wire.MAX_ANSWER_BYTES and operation in wire.QUESTIONS:
        raise InvalidInput("This answer is too large for the broker; ask for less.", bytes=size, most=wire.MAX_ANSWER_BYTES)
    return told


def _require_few(operation: str, arguments: dict[str, JsonValue]) -> None:
    """One command must not hold a base, or a thread, for as long as its sender likes."""
    for name, value in arguments.items():
        if isinstance(value, list) and len(value) > wire.MAX_ENTRIES:
            raise InvalidInput(
                f"{operation} takes at most {wire.MAX_ENTRIES} {name} a call, not {len(value)}; split them.",
                field=name,
                given=len(value),
                most=wire.MAX_ENTRIES,
            )


@contextmanager
def waiting_place(operation: str) -> Iterator[None]:
    """For operations that may wait: one of the places that they have in this process.

    Refusing is better than queueing here: a queue of waiting threads would leave none for questions. The client asks again.

    Raises:
        FleetBusy: all are taken; nothing has been done.
    """
    if operation not in wire.MAY_WAIT:
        yield
        return
    places = _places()
    if not places.acquire(blocking=False):
        raise FleetBusy(operation=operation)
    try:
        yield
    finally:
        places.release()


_places_lock = threading.Lock()
_places_made: list[threading.BoundedSemaphore] = []


def _places() -> threading.BoundedSemaphore:
    with _places_lock:
        if not _places_made:
            _places_made.append(threading.BoundedSemaphore(current_app.knowledge_waiting_places))
        return _places_made[0]


def _is_over(expires: object) -> bool:
    """Whether this instant, ISO 8601 as Celery writes it, has passed."""
    if not isinstance(expires, str):
        return False
    until = datetime.fromisoformat(expires)
    return datetime.now(UTC) > (until if until.tzinfo else until.replace(tzinfo=UTC))


def _paths(values: dict[str, Any]) -> Iterator[Path]:
    for value in values.values():
        for one in value if isinstance(value, list | tuple) else [value]:
            if isinstance(one, FileInput | DirectoryInput):
                yield one.path
            elif isinstance(one, Path):
                yield one
