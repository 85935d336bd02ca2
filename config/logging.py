"""Logs: one line an event, for people or as JSON, with the ids of what it is about and without any secret.

    2026-03-01T09:30:00.123Z INFO  job parked  job=0190… base=7c1e… reason=lease_expired

A call gives a fixed phrase and fields: `log.info("job parked", extra={"reason": reason})`; job, base and item come from
`knowledge.logs`. Contents of documents never go into a log; as a safety net a field is cut after 300 characters.
What runs by the clock, each second for years, is told with level DEBUG only: that a message was sent, taken and done.
"""

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from config.secrets import redact
from config.settings import Settings
from knowledge.logs import log_ids
from knowledge.topology import DUE_TICK, RECOVERY, TIDY

LONGEST_FIELD: Final = 300  #: characters

#: libraries whose INFO lines tell an operator nothing, or tell what a job was asked
QUIET: Final = ("httpcore", "httpx", "kombu", "amqp", "alembic.runtime.plugins", "tornado.access")

#: Celery's loggers of sending, taking and finishing a task
COMINGS_AND_GOINGS: Final = frozenset({"celery.beat", "celery.worker.strategy", "celery.app.trace"})
UPKEEP: Final = frozenset({RECOVERY, DUE_TICK, TIDY})

_BUILT_IN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "data", "taskName"}
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/@%+,#*")


def configure(settings: Settings, *, stream: TextIO | None = None) -> None:
    """Send every logger of this process to one handler; may be called again, also in a forked child.

    Args:
        stream: where lines go; standard error unless told.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if settings.log_format == "json" else TextLines())
    if settings.log_level != "DEBUG":
        handler.addFilter(is_news)
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(settings.log_level)
    for name in QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    logging.captureWarnings(capture=True)


def is_news(record: logging.LogRecord) -> bool:
    """False for the ordinary comings and goings of what runs by the clock; its warnings and errors are news."""
    if record.levelno > logging.INFO or record.name not in COMINGS_AND_GOINGS:
        return True
    given = record.args.values() if isinstance(record.args, Mapping) else record.args or ()
    return not any(isinstance(value, str) and value in UPKEEP for value in given)


class TextLines(logging.Formatter):
    """`time level event  key=value …`; a traceback follows on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        event = " ".join(record.getMessage().splitlines())
        pairs = "".join(f" {name}={readable(value)}" for name, value in fields(record).items())
        line = f"{timestamp(record)} {record.levelname:<7} {event}" + (f" {pairs}" if pairs else "")
        trace = traceback(self, record)
        return redact(f"{line}\n{trace}" if trace else line)


class JsonLines(logging.Formatter):
    """One JSON object a line: `time`, `level`, `logger`, `event`, the fields, and `exception` where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": timestamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        line.update((name, value) for name, value in fields(record).items() if name not in line)
        if trace := traceback(self, record):
            line["exception"] = trace
        return redact(json.dumps(line, ensure_ascii=False, default=str))


def fields(record: logging.LogRecord) -> Mapping[str, Any]:
    """The ids of the context, then what the call gave; the call wins."""
    given = {name: value for name, value in vars(record).items() if name not in _BUILT_IN and not name.startswith("_")}
    return {name: cut(value) for name, value in {**log_ids(), **given}.items() if value is not None}


def cut(value: Any) -> Any:
    if isinstance(value, bool | int | float):
        return value
    text = str(value)
    return text if len(text) <= LONGEST_FIELD else f"{text[:LONGEST_FIELD]}…"


def readable(value: Any) -> str:
    """A value that stays in its line and its field: whatever could end either is quoted."""
    text = str(value)
    return text if text and _PLAIN.issuperset(text) else json.dumps(text, ensure_ascii=False)


def timestamp(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    trace = formatter.formatException(record.exc_info) if record.exc_info else record.exc_text or ""
    stack = formatter.formatStack(record.stack_info) if record.stack_info else ""
    return "\n".join(part for part in (trace, stack) if part)
