"""What must hold at every moment, in every consistent view of the rows, whoever was killed just now."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

ACTIVE: Final = frozenset({"preparing", "processing", "reading", "embedding"})
INTERRUPTED: Final = "indexing_interrupted"

Row = Mapping[str, Any]
Ask = Callable[..., Iterable[Any]]  #: a statement and its values → rows; all of one view must come from one transaction


class Broken(AssertionError):
    """A promise of the product does not hold."""


def insist(holds: Any, promise: str, **facts: Any) -> None:
    if not holds:
        raise Broken(f"{promise}: " + ", ".join(f"{name}={value!r}" for name, value in facts.items()))


@dataclass(frozen=True)
class View:
    """Rows of one moment."""

    items: dict[str, Row]
    jobs: list[Row]  #: active ones
    named: dict[str, list[Row]]  #: item → the active jobs that name it
    leaving: set[str]  #: bases that are being deleted

    @classmethod
    def now(cls, ask: Ask) -> "View":
        items = {row["id"]: row for row in ask("SELECT * FROM knowledge_item")}
        jobs = list(ask("SELECT * FROM knowledge_job WHERE status IN ('pending', 'running')"))
        active = {job["id"]: job for job in jobs}
        named: dict[str, list[Row]] = defaultdict(list)
        for link in ask("SELECT * FROM knowledge_job_item"):
            if link["job_id"] in active:
                named[link["item_id"]].append(active[link["job_id"]])
        leaving = {row["id"] for row in ask("SELECT id FROM knowledge_base WHERE deleting_at IS NOT NULL")}
        return cls(items, jobs, named, leaving)

    def insist(self, *, window: int) -> None:
        """Every status has what explains it, containers agree with their children, and jobs are admitted once."""
        children: dict[str, list[Row]] = defaultdict(list)
        for row in self.items.values():
            if row["group_id"]:
                children[row["group_id"]].append(row)
        for row in self.items.values():
            if row["base_id"] not in self.leaving:
                self._explained(row, children[row["id"]])
        self._jobs_are_sound(window)

    def _explained(self, row: Row, below: list[Row]) -> None:
        named = {job["type"] for job in self.named[row["id"]]}
        facts = {"item": row["id"], "type": row["type"], "status": row["status"], "jobs": sorted(named)}
        if row["status"] == "deleting":
            covered = any(job["type"] == "knowledge.delete-subtree" for one in self._line(row) for job in self.named[one])
            insist(covered, "a row that is being deleted has a job that removes it", **facts)
        elif row["status"] in ACTIVE and row["type"] != "directory":
            insist(named - {"knowledge.delete-subtree"}, "an active item has a live job", **facts)
        elif row["status"] in ACTIVE:
            busy = any(child["status"] in ACTIVE | {"deleting"} for child in below)
            expanding = {"knowledge.prepare-root", "knowledge.reindex-subtree"}
            above = any(job["type"] in expanding for one in self._line(row) for job in self.named[one])
            insist(
                busy or above,
                "an active directory has a live job, or a child that has (parents change when rows are gone)",
                **facts,
            )
        if row["type"] == "directory" and row["status"] != "deleting":
            _agrees_with_children(row, below)
        insist(row["error"] != "internal_error", "no job fails for a fault of ours", detail=row["error_detail"], **facts)

    def _line(self, row: Row) -> list[str]:
        """The item and those above it."""
        line: list[str] = []
        one: Row | None = row
        while one is not None:
            line.append(one["id"])
            one = self.items.get(one["group_id"] or "")
        return line

    def _jobs_are_sound(self, window: int) -> None:
        keys = Counter(job["idempotency_key"] for job in self.jobs if job["cancel_requested_at"] is None)
        insist(not keys or max(keys.values()) == 1, "a key never admits two active jobs", keys=keys)
        flying = Counter(job["base_id"] for job in self.jobs if job["track"] == "index" and job["published_at"] is not None)
        insist(not flying or max(flying.values()) <= window, "the window is never exceeded", flying=flying)
        insist(
            all(job["error"] != "internal_error" for job in self.jobs),
            "no job fails for a fault of ours",
            jobs=[(job["type"], job["error_detail"]) for job in self.jobs if job["error"] == "internal_error"],
        )


def _agrees_with_children(row: Row, below: list[Row]) -> None:
    seen = [child["status"] for child in below if child["status"] != "deleting"]
    leaving = len(seen) < len(below)  # parents change when the rows are gone
    facts = {"item": row["id"], "status": row["status"], "error": row["error"], "children": seen}
    if row["status"] == "completed":
        insist(row["expanded_at"] is not None, "a directory is completed only when it was expanded to its end", **facts)
        insist(set(seen) <= {"completed"}, "a completed directory has completed children only", **facts)
    if row["status"] == "failed" and row["error"] == "child_failed":
        insist(leaving or "failed" in seen, "a directory that blames a child has one that failed", **facts)
        insist(not set(seen) & ACTIVE, "a directory with a busy child is busy", **facts)
    if row["expanded_at"] is not None and row["status"] == "processing":
        insist(leaving or set(seen) & ACTIVE, "a busy directory has a busy child", **facts)
