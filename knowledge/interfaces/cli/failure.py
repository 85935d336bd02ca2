"""What a person or a program reads when a command did not work."""

import json
import logging
import sys
import traceback
from pathlib import Path
from typing import Any

from knowledge.errors import KnowledgeError
from knowledge.interfaces.cli.output import plain
from knowledge.interfaces.cli.printable import printable
from knowledge.interfaces.cli.shapes import error_object

MAX_DETAILS = 5


def refuse(code: str, message: str, details: dict[str, Any] | None = None, *, as_json: bool) -> None:
    """Print one error on stderr."""
    if as_json:
        print(json.dumps(error_object(code, message, details), default=str), file=sys.stderr)
        return
    print(f"knowledge: {printable(message)}", file=sys.stderr)
    known = [(name, value) for name, value in (details or {}).items() if value is not None]
    for name, value in known[:MAX_DETAILS]:
        print(f"  {printable(name)}: {printable(plain(value))}", file=sys.stderr)


def refuse_known(error: KnowledgeError, *, as_json: bool) -> None:
    message = str(error) if as_json else f"{error} ({error.code})"
    refuse(error.code, message, error.details, as_json=as_json)


def refuse_unknown(error: Exception, *, as_json: bool, debug: bool) -> None:
    """An error nobody foresaw: one line, and where the rest is."""
    if debug:
        traceback.print_exception(error)
        return
    written = _log(error)
    where = f"the traceback is in {written}" if written else "run it again with --debug to see the traceback"
    message = f"unexpected {type(error).__name__}: {error}; {where}"
    refuse("unexpected", message, {"log": str(written) if written else None} if as_json else None, as_json=as_json)


def _log(error: Exception) -> Path | None:
    """Append the traceback to the application's `cli.log`; None if that cannot be done, which must not hide the error."""
    from knowledge.interfaces.cli.application import application

    try:
        directory = application().log_directory()
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / "cli.log"
        handler = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    except Exception:  # whatever broke the command may well break this too
        return None
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    record = logging.LogRecord(
        "knowledge.cli", logging.ERROR, __file__, 0, "command failed", None, (type(error), error, error.__traceback__)
    )
    handler.emit(record)
    handler.close()
    return path
