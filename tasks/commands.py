"""knowledge.command: the thin client's requests, answered by the service of this process.

Arguments are typed inputs and ids, never bytes. Paths must lie below `KNOWLEDGE_IMPORT_ROOTS`, because a client need not be the
person whose files these are.
"""

import inspect
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

from celery import current_app, shared_task

from knowledge.errors import InvalidInput, JsonValue, KnowledgeError, PathNotAllowed
from knowledge.model import wire
from knowledge.model.inputs import DirectoryInput, FileInput
from knowledge.service import KnowledgeService
from tasks import process

log = logging.getLogger(__name__)


@shared_task(name=wire.COMMAND, ignore_result=False, acks_late=False)
def command(operation: str, arguments: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Run one service method. Acknowledged early: a command that was lost is asked again by whoever waits for it."""
    try:
        return {"ok": answer(KnowledgeService(process.runtime()), operation, arguments, current_app.knowledge_import_roots)}
    except KnowledgeError as error:
        return {"error": error.to_wire()}
    except Exception as error:  # the client must get an answer; the traceback stays here
        log.exception("command failed", extra={"operation": operation})
        return {
            "error": KnowledgeError("The command failed inside the fleet; see the worker's log.").to_wire()
            | {"details": {"exception": type(error).__name__}}
        }


def answer(service: KnowledgeService, operation: str, arguments: dict[str, JsonValue], roots: list[Path]) -> JsonValue:
    """Check, call, and dump the result.

    Raises:
        InvalidInput: no such operation, or its arguments do not fit. PathNotAllowed. Whatever the method raises.
    """
    if operation not in wire.OPERATIONS:
        raise InvalidInput(f"There is no operation {operation!r}.", operation=operation)
    method = getattr(service, operation)
    hints = get_type_hints(getattr(KnowledgeService, operation))
    result = hints.pop("return")
    if unknown := sorted(set(arguments) - set(hints)):
        raise InvalidInput(f"{operation} takes no {', '.join(unknown)}.", operation=operation)
    values = {name: wire.load(value, hints[name]) for name, value in arguments.items()}
    try:
        inspect.signature(method).bind(**values)
    except TypeError as error:
        raise InvalidInput(f"{operation}: {error}.", operation=operation) from error
    for path in _paths(values):
        if not any(path.resolve().is_relative_to(root) for root in roots):
            raise PathNotAllowed(path=str(path))
    return wire.dump(method(**values), result)


def _paths(values: dict[str, Any]) -> Iterator[Path]:
    for value in values.values():
        for one in value if isinstance(value, list | tuple) else [value]:
            if isinstance(one, FileInput | DirectoryInput):
                yield one.path
            elif isinstance(one, Path):
                yield one
