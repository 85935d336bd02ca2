"""The reference model: what was asked for, what was paid, and what must therefore hold.

It knows nothing of how the product works; it reads its rows, files and index, and what the third parties have seen.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from knowledge.pipeline.sources import snapshot
from tests.chaos import fate
from tests.chaos.fate import Outcome
from tests.chaos.outside import BATCH

if TYPE_CHECKING:
    from tests.chaos.world import World

ACTIVE = frozenset({"preparing", "processing", "reading", "embedding"})
INTERRUPTED = "indexing_interrupted"


class Broken(AssertionError):
    """A promise of the product does not hold."""


def insist(holds: Any, promise: str, **facts: Any) -> None:
    if not holds:
        raise Broken(f"{promise}: " + ", ".join(f"{name}={value!r}" for name, value in facts.items()))


class Ledger:
    def __init__(self, world: "World") -> None:
        self._world = world
        self.moment = 0
        self.deaths = 0
        self.overlaps = 0  #: texts sent by two processes at once: the one had asked the cache before the other had stored them
        self.request_inputs: dict[tuple[str, str], list[Any]] = {}
        self._complaints: list[str] = []
        self._asked: dict[str, int] = {}  #: item → the moment at which its indexing was last asked for
        self._interrupted: dict[str, tuple[int, float]] = {}
        self._status: dict[str, tuple[str, str | None]] = {}
        self._parents: dict[str, str | None] = {}

    # what happens ------------------------------------------------------------------------------------------------------------

    def asked(self, ids: Sequence[str], outcome: Outcome | None) -> None:
        """Somebody asked to have these indexed again; one who did not get an answer may have been heard."""
        if outcome is None or not outcome.is_refused:
            self._asked.update(dict.fromkeys(ids, self.moment + 1))  # the next look comes after it

    def request(self, hashes: Sequence[str]) -> None:
        """A paid request is about to be sent by the current process. A complaint is kept: the job settles it like any error."""
        try:
            self._check_request(hashes)
        except Broken as broken:
            if not fate.report({"complaint": str(broken)}):
                self._complaints.append(str(broken))
            raise

    def _check_request(self, hashes: Sequence[str]) -> None:
        process = fate.current()
        assert process is not None
        assert process.job is not None
        (item_id,) = process.job.item_ids
        self._no_text_is_bought_twice(hashes, process)
        row = self._row(item_id)
        insist(row and row["status"] != "deleting", "nothing is sent for an item that was deleted", item=item_id)
        leaving = self._world.ask("SELECT deleting_at FROM knowledge_base WHERE id = ?", row["base_id"])[0][0]
        insist(leaving is None, "nothing is sent for a base that was deleted", base=row["base_id"])
        interrupted = self._interrupted.get(item_id)
        if interrupted is not None:
            asks = [self._asked[one] for one in self._line(item_id) if one in self._asked]
            moment, instant = interrupted
            insist(
                (asks and max(asks) >= moment) or self._begun(process.job) >= instant,
                "nothing is sent for an item that nobody asked to index since its interruption",
                item=item_id,
                interrupted=interrupted,
                asks=asks,
            )

    def _no_text_is_bought_twice(self, hashes: Sequence[str], process: fate.Process) -> None:
        again = [one for one in hashes if one in self._world._paid_hashes()]
        known = [one for one in again if one in process.saw_paid]
        insist(not known, "no text whose vector is stored is sent again", texts=known)
        others = [other.in_flight for other in self._world.held if other is not process]
        overlaps = len(again) + sum(any(one in flying for flying in others) for one in set(hashes) - set(again))
        process.in_flight = frozenset(hashes)
        if overlaps and not fate.report({"overlaps": overlaps}):
            self.overlaps += overlaps

    def sent_by_child(self, event: dict[str, Any]) -> None:
        self.overlaps += event.get("overlaps", 0)
        self._complaints += [event["complaint"]] if "complaint" in event else []

    # what must hold after every move ---------------------------------------------------------------------------------------

    def look(self) -> None:
        """Compare the rows with those before, and check what must hold at every moment."""
        if self._complaints:
            raise Broken(self._complaints[0])
        self.moment += 1
        rows = {row["id"]: row for row in self._world.ask("SELECT * FROM knowledge_item")}
        jobs = self._world.ask("SELECT * FROM knowledge_job WHERE status IN ('pending', 'running')")
        links: dict[str, list[Any]] = defaultdict(list)
        active = {job["id"]: job for job in jobs}
        for link in self._world.ask("SELECT * FROM knowledge_job_item"):
            if link["job_id"] in active:
                links[link["item_id"]].append(active[link["job_id"]])
        leaving = {row["id"] for row in self._world.ask("SELECT id FROM knowledge_base WHERE deleting_at IS NOT NULL")}
        self._remember(rows)
        children: dict[str, list[Any]] = defaultdict(list)
        for row in rows.values():
            if row["group_id"]:
                children[row["group_id"]].append(row)
        for row in rows.values():
            if row["base_id"] not in leaving:
                self._explained(row, rows, children, links)
        self._jobs_are_sound(jobs)

    def _remember(self, rows: dict[str, Any]) -> None:
        status = {}
        for item_id, row in rows.items():
            status[item_id] = now = (row["status"], row["error"])
            before = self._status.get(item_id)
            self._parents[item_id] = row["group_id"]
            if before is None and row["group_id"] is None:
                self._asked[item_id] = self.moment
            if now == ("failed", INTERRUPTED) and before != now:
                self._interrupted[item_id] = (self.moment, self._world.clock.now)
            if before is not None and before[0] == "deleting":
                insist(row["status"] == "deleting", "a row that is being deleted never comes back", item=item_id)
        self._status = status

    def _explained(self, row: Any, rows: dict[str, Any], children: dict[str, list[Any]], links: dict[str, list[Any]]) -> None:
        named = {job["type"] for job in links[row["id"]]}
        facts = {"item": row["id"], "type": row["type"], "status": row["status"], "jobs": sorted(named)}
        if row["status"] == "deleting":
            covered = any(job["type"] == "knowledge.delete-subtree" for one in self._line(row["id"]) for job in links[one])
            insist(covered, "a row that is being deleted has a job that removes it", **facts)
        elif row["status"] in ACTIVE and row["type"] != "directory":
            insist(named - {"knowledge.delete-subtree"}, "an active item has a live job", **facts)
        elif row["status"] in ACTIVE:
            busy = any(child["status"] in ACTIVE | {"deleting"} for child in children[row["id"]])
            expanding = {"knowledge.prepare-root", "knowledge.reindex-subtree"}
            above = any(job["type"] in expanding for one in self._line(row["id"]) for job in links[one])
            insist(
                busy or above,
                "an active directory has a live job, or a child that has (parents change when rows are gone)",
                **facts,
            )
        if row["type"] == "directory" and row["status"] != "deleting":
            self._agrees_with_children(row, children[row["id"]])
        insist(row["error"] != "internal_error", "no job fails for a fault of ours", detail=row["error_detail"], **facts)

    def _agrees_with_children(self, row: Any, below: list[Any]) -> None:
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

    def _jobs_are_sound(self, jobs: list[Any]) -> None:
        keys = Counter(job["idempotency_key"] for job in jobs if job["cancel_requested_at"] is None)
        insist(not keys or max(keys.values()) == 1, "a key never admits two active jobs", keys=keys)
        flying = Counter(job["base_id"] for job in jobs if job["track"] == "index" and job["published_at"] is not None)
        insist(not flying or max(flying.values()) <= 2, "the window is never exceeded", flying=flying)
        insist(
            all(job["error"] != "internal_error" for job in jobs),
            "no job fails for a fault of ours",
            jobs=[(job["type"], job["error_detail"]) for job in jobs if job["error"] == "internal_error"],
        )

    # what must hold when all has settled -----------------------------------------------------------------------------------

    def settled(self) -> None:
        world = self._world
        insist(not world.ask("SELECT 1 FROM knowledge_base WHERE deleting_at IS NOT NULL"), "a deleted base is gone")
        insist(not world.ask("SELECT 1 FROM knowledge_job WHERE status IN ('pending', 'running')"), "no job is left")
        rows = world.ask("SELECT * FROM knowledge_item")
        unsettled = [(row["id"], row["status"]) for row in rows if row["status"] not in ("completed", "failed")]
        insist(not unsettled, "every item is completed, failed or gone", unsettled=unsettled)
        insist(all(row["error"] for row in rows if row["status"] == "failed"), "a failure has a reason")
        bases = {row["id"]: row for row in world.ask("SELECT * FROM knowledge_base")}
        for base_id, base in bases.items():
            mine = [row for row in rows if row["base_id"] == base_id]
            self._files_are_those_of_rows(base_id, mine)
            if base["status"] == "completed":
                self._index_is_that_of_rows(base, mine)
                self._search_finds_each_once(base, mine)
            with fate.being(None), world.rt.locks.base(base_id, wait_seconds=0):
                pass  # nobody holds it any more
        folders = world.data / "bases"
        left = {path.name for path in folders.iterdir()} if folders.is_dir() else set()
        insist(left <= set(bases), "nothing is left of a deleted base", folders=left - set(bases))
        self._requests_were_admitted_once()
        extra = sum(count - 1 for count in world.provider.sent.values())
        insist(
            extra <= self.deaths * BATCH + self.overlaps,
            "texts are bought twice only where a process died before it had stored the answer",
            extra=extra,
            deaths=self.deaths,
            overlaps=self.overlaps,
        )

    def _files_are_those_of_rows(self, base_id: str, rows: list[Any]) -> None:
        folder = self._world.data / "bases" / base_id
        raw = folder / "raw"
        there = {str(path.relative_to(raw)) for path in raw.rglob("*") if not path.is_dir()}
        named = {row["relative_path"] for row in rows if row["type"] != "directory"}
        insist(
            there == named,
            "raw/ holds the files of the rows and no others",
            base=base_id,
            unnamed=there - named,
            lost=named - there,
        )
        empty = [str(path) for path in raw.rglob("*") if path.is_dir() and not any(path.iterdir())]
        insist(not empty, "no empty folder is left", folders=empty)
        staged = list((folder / "staging").iterdir()) if (folder / "staging").is_dir() else []
        insist(not staged, "no staged bytes are left", files=staged)

    def _index_is_that_of_rows(self, base: Any, rows: list[Any]) -> None:
        path = self._world.index_path(base["id"])
        leaves = {row["id"]: row for row in rows if row["type"] != "directory"}
        if not path.exists():
            insist(not any(row["status"] == "completed" for row in leaves.values()), "an index is there", base=base["id"])
            return
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            materials = dict(connection.execute("SELECT item_id, text FROM material JOIN content ON content.id = content_id"))
            counts = {
                table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
                for table in ("body", "vector", "content")
            }
            (used_bodies,) = connection.execute("SELECT count(DISTINCT body_id) FROM unit").fetchone()
            (used_contents,) = connection.execute("SELECT count(DISTINCT content_id) FROM material").fetchone()
        finally:
            connection.close()
        insist(set(materials) <= set(leaves), "the index holds nothing of deleted items", gone=set(materials) - set(leaves))
        insist(
            counts["body"] == used_bodies and counts["content"] == used_contents,
            "no text is left without a unit",
            counts=counts,
        )
        wanted = used_bodies if base["embedding_model_id"] else 0
        complete = all(row["status"] == "completed" for row in rows)  # else it shows that something is missing
        insist(
            counts["vector"] == wanted or not complete,
            "each unit has its vector",
            counts=counts,
            wanted=wanted,
            rows=[(row["type"], row["group_id"], row["status"], row["error"]) for row in rows],
        )
        insist(counts["vector"] <= used_bodies, "no vector is left without a unit", counts=counts)
        for item_id, row in leaves.items():
            if row["status"] == "completed":
                stored = self._stored_text(base["id"], row)
                insist(
                    materials.get(item_id) == stored,
                    "a completed item's text is in the index",
                    item=item_id,
                    indexed=materials.get(item_id),
                    stored=stored,
                )

    def _stored_text(self, base_id: str, row: Any) -> str | None:
        path: Path = self._world.files.path(base_id, row["relative_path"])
        text = path.read_text()
        return (snapshot.strip(text) if row["type"] == "note" else text).strip("\n")

    def _search_finds_each_once(self, base: Any, rows: list[Any]) -> None:
        done = [row for row in rows if row["type"] != "directory" and row["status"] == "completed" and row["chunk_count"]]
        for row in done[:3]:
            text = self._stored_text(base["id"], row)
            assert text is not None
            unique = text.split()[0]
            outcome = self._world.search(base, unique)
            insist(outcome.refusal is None, "a settled base can be searched", refusal=outcome.refusal)
            found = Counter(hit.item_id for hit in outcome.value.hits if unique in hit.text)
            same = {other["id"] for other in done if (self._stored_text(base["id"], other) or "").startswith(unique)}
            stale = found.keys() - {other["id"] for other in rows if other["status"] == "failed"}
            insist(stale == same, "a search finds exactly the items with this text", word=unique, found=found, wanted=same)
            insist(max(found.values()) == 1, "a text is found once for each item", found=found)

    def _requests_were_admitted_once(self) -> None:
        for (base_id, key), inputs in self.request_inputs.items():
            titles = {one.title for one in inputs if getattr(one, "title", None)}
            for title in titles:
                asked = sum(getattr(one, "title", None) == title for one in inputs)
                got = self._world.ask(
                    "SELECT count(*) AS n FROM knowledge_item WHERE base_id = ? AND type = 'note' AND source = ?",
                    base_id,
                    title,
                )[0]["n"]
                insist(got <= asked, "a key admits a request once", key=key, got=got, asked=asked)

    def _row(self, item_id: str) -> Any:
        found = self._world.ask("SELECT * FROM knowledge_item WHERE id = ?", item_id)
        return found[0] if found else None

    def _begun(self, job: Any) -> float:
        """When the request behind a job was taken up, in seconds; a reindex that was accepted before may wait for long."""
        row: Any = None
        above = job.parent_id
        while above:
            found = self._world.ask("SELECT parent_id, started_at FROM knowledge_job WHERE id = ?", above)
            row, above = (found[0], found[0]["parent_id"]) if found else (row, None)
        return (row["started_at"] or 0) / 1000 if row else 0.0

    def _line(self, item_id: str) -> list[str]:
        """The item and those above it."""
        line = []
        one: str | None = item_id
        while one:
            line.append(one)
            if one not in self._parents:
                row = self._row(one)
                self._parents[one] = row["group_id"] if row else None
            one = self._parents[one]
        return line
