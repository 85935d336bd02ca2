"""What happened to items and jobs, in the order of the commits: triggers in the catalogue write it down.

No process can forget to tell, and none is asked: the rows are the product's own, and so are the transactions.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from knowledge.db.engine import Database
from tests.chaos.sound import INTERRUPTED, Ask

_TABLE: Final = """\
CREATE TABLE IF NOT EXISTS chaos_diary (
  number INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL,
  base_id TEXT NOT NULL, status TEXT NOT NULL, error TEXT, note TEXT, above TEXT)"""

_WRITE: Final = "INSERT INTO chaos_diary (at, kind, id, base_id, status, error, note, above) SELECT unixepoch('subsec'),"
_ITEM: Final = "'item', NEW.id, NEW.base_id, NEW.status, NEW.error, NEW.source, NEW.group_id"
_JOB: Final = "'job', NEW.id, NEW.base_id, {status}, NEW.idempotency_key, NEW.type, NEW.parent_id"
_IS_STOPPED: Final = "OLD.cancel_requested_at IS NULL AND NEW.cancel_requested_at IS NOT NULL"

_ITEM_CHANGED: Final = "(OLD.status, OLD.error) IS NOT (NEW.status, NEW.error)"
_RUN_CHANGED: Final = "(OLD.status, OLD.run_token) IS NOT (NEW.status, NEW.run_token)"
_STOPPING: Final = f"{_IS_STOPPED} AND NOT ({_RUN_CHANGED})"

#: name → when, and what is written
_TRIGGERS: Final = {
    "item_new": ("AFTER INSERT ON knowledge_item", _ITEM),
    "item_changed": (f"AFTER UPDATE OF status, error ON knowledge_item WHEN {_ITEM_CHANGED}", _ITEM),
    "item_gone": (
        "AFTER DELETE ON knowledge_item",
        "'item', OLD.id, OLD.base_id, 'gone', NULL, OLD.source, OLD.group_id",
    ),
    "path_gone": (
        "AFTER DELETE ON knowledge_item WHEN OLD.relative_path IS NOT NULL",
        "'path', OLD.id, OLD.base_id, 'gone', NULL, OLD.relative_path, NULL",
    ),
    "job_new": ("AFTER INSERT ON knowledge_job", _JOB.format(status="NEW.status")),
    "job_changed": (
        f"AFTER UPDATE OF status, run_token ON knowledge_job WHEN {_RUN_CHANGED}",
        _JOB.format(status="NEW.status"),
    ),
    "job_stopping": (
        f"AFTER UPDATE OF cancel_requested_at ON knowledge_job WHEN {_STOPPING}",
        _JOB.format(status="'stopping'"),
    ),
    "spend": (
        "AFTER INSERT ON knowledge_spend WHEN NEW.job_id IS NOT NULL",
        "'spend', NEW.job_id, NEW.base_id, '', NULL, '', NULL",
    ),
    "link": ("AFTER INSERT ON knowledge_job_item", "'link', NEW.job_id, '', '', NULL, NEW.item_id, NULL"),
}


@dataclass(frozen=True)
class Entry:
    number: int
    at: float  #: seconds since the epoch
    kind: str  #: `item`, `job`, `link`: a job names an item, `path`: an item that is gone had it,
    #: or `spend`: a job has stored an answer that it paid for
    id: str
    base_id: str
    status: str  #: as in the row; `gone` for a row that was removed, `stopping` for a run that was asked to stop
    error: str | None  #: of an item; the idempotency key of a job
    note: str  #: an item's source, a job's type, a link's item, a path
    above: str | None  #: an item's directory, a job's parent


@dataclass(frozen=True)
class Span:
    """One run of a job."""

    job_id: str
    first: int  #: number of the entry with which it began
    began: float
    ended: float  #: when its row left `running`; infinity while it has not
    outcome: str = "running"  #: status of the row then
    stopped: float = math.inf  #: when it was asked to stop, by a cancel or a delete


class Diary:
    def __init__(self, db: Database) -> None:
        self._db = db
        with db.write() as tx:
            tx.exec_driver_sql(_TABLE)
            for name, (when, values) in _TRIGGERS.items():
                tx.exec_driver_sql(f"CREATE TRIGGER IF NOT EXISTS chaos_{name} {when} BEGIN {_WRITE} {values}; END")

    def begin(self) -> None:
        """Forget everything."""
        with self._db.write() as tx:
            tx.exec_driver_sql("DELETE FROM chaos_diary")

    def now(self) -> int:
        """Number of the last entry."""
        with self._db.read() as tx:
            return int(tx.exec_driver_sql("SELECT coalesce(max(number), 0) FROM chaos_diary").scalar_one())

    @contextmanager
    def view(self) -> Iterator[Ask]:
        """Questions to the catalogue, all answered from one moment."""
        with self._db.read() as tx:

            def ask(statement: str, *values: Any) -> Iterable[Any]:
                return tx.exec_driver_sql(statement, values).mappings().all()

            yield ask

    def read(self) -> "Story":
        with self.view() as ask:
            return Story([Entry(**row) for row in ask("SELECT * FROM chaos_diary ORDER BY number")])


class Story:
    """The diary, sorted by whom it is about."""

    def __init__(self, entries: list[Entry]) -> None:
        self.items: dict[str, list[Entry]] = defaultdict(list)
        self.jobs: dict[str, list[Entry]] = defaultdict(list)
        self.named: dict[str, list[str]] = defaultdict(list)  #: job → the items it names
        self.removed: dict[tuple[str, str], float] = {}  #: base and path → when the last item there went
        self.spent: dict[str, list[float]] = defaultdict(list)  #: job → when its answers had been stored
        for entry in entries:
            if entry.kind == "link":
                self.named[entry.id].append(entry.note)
            elif entry.kind == "spend":
                self.spent[entry.id].append(entry.at)
            elif entry.kind == "path":
                self.removed[entry.base_id, entry.note] = entry.at
            else:
                (self.items if entry.kind == "item" else self.jobs)[entry.id].append(entry)

    def runs(self, job_id: str) -> list[Span]:
        found: list[Span] = []
        begun, stopped = None, math.inf
        for entry in self.jobs[job_id]:
            if entry.status == "stopping":
                stopped = entry.at
                continue
            if begun is not None:
                found.append(Span(job_id, begun.number, begun.at, entry.at, entry.status, stopped))
            begun = entry if entry.status == "running" else None
        if begun is not None:
            found.append(Span(job_id, begun.number, begun.at, math.inf, stopped=stopped))
        return found

    def line(self, item_id: str) -> list[str]:
        """The item and the directories above it."""
        line, one = [], item_id
        while one in self.items:
            line.append(one)
            one = self.items[one][0].above or ""
        return line

    def ancestry(self, job_id: str) -> list[str]:
        """The jobs that enqueued this one, nearest first."""
        line, one = [], self.jobs[job_id][0].above
        while one is not None and one in self.jobs:
            line.append(one)
            one = self.jobs[one][0].above
        return line

    def interruptions(self, item_id: str) -> list[Entry]:
        return [one for one in self.items[item_id] if (one.status, one.error) == ("failed", INTERRUPTED)]
