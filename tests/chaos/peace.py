"""What must hold when everything has come to rest: rows, files, index and search of a whole installation.

It knows nothing of how the product works, and serves both the model and the schedules of real processes.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import apsw

from knowledge.model.results import SearchHit
from knowledge.pipeline import snapshot
from tests.chaos.sound import Ask, Row, insist


@dataclass(frozen=True)
class Home:
    """An installation, to be looked at from the outside."""

    data: Path
    ask: Ask
    find: Callable[[Row, str], Sequence[SearchHit]]  #: searches this base for these words; must succeed

    def insist_on_peace(self) -> None:
        """No work is left, every item is settled for a reason, and what is stored is what the rows say, once."""
        bases = {row["id"]: row for row in self.ask("SELECT * FROM knowledge_base")}
        insist(all(base["deleting_at"] is None for base in bases.values()), "a deleted base is gone", bases=list(bases))
        jobs = [dict(row) for row in self.ask("SELECT * FROM knowledge_job WHERE status IN ('pending', 'running')")]
        insist(not jobs, "no job is left", jobs=jobs)
        rows = list(self.ask("SELECT * FROM knowledge_item"))
        unsettled = [(row["id"], row["status"]) for row in rows if row["status"] not in ("completed", "failed")]
        insist(not unsettled, "every item is completed, failed or gone", unsettled=unsettled)
        insist(all(row["error"] for row in rows if row["status"] == "failed"), "a failure has a reason")
        for base_id, base in bases.items():
            mine = [row for row in rows if row["base_id"] == base_id]
            self._files_are_those_of_rows(base_id, mine)
            if base["status"] == "completed":
                self._index_is_that_of_rows(base, mine)
                self._search_finds_each_once(base, mine)
        folders = self.data / "bases"
        left = {path.name for path in folders.iterdir() if path.is_dir()} if folders.is_dir() else set()
        insist(left <= set(bases), "nothing is left of a deleted base", folders=left - set(bases))

    def insist_on_sound_databases(self) -> None:
        """No page, index or reference of the catalogue or of an index is damaged."""
        for check in ("integrity_check", "foreign_key_check"):
            found = [tuple(row.values()) for row in self.ask(f"PRAGMA {check}")]
            insist(found in ([], [("ok",)]), "the catalogue is sound", check=check, found=found)
        for path in (self.data / "bases").glob("*/.knowledge/index.sqlite"):
            connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
            try:
                found = connection.execute("PRAGMA integrity_check").fetchall()
            finally:
                connection.close()
            insist(found == [("ok",)], "an index is sound", path=path, found=found)

    def _files_are_those_of_rows(self, base_id: str, rows: list[Row]) -> None:
        folder = self.data / "bases" / base_id
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

    def _index_is_that_of_rows(self, base: Row, rows: list[Row]) -> None:
        path = self.data / "bases" / base["id"] / ".knowledge" / "index.sqlite"
        leaves = {row["id"]: row for row in rows if row["type"] != "directory"}
        if not path.exists():
            insist(not any(row["status"] == "completed" for row in leaves.values()), "an index is there", base=base["id"])
            return
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            materials = dict(connection.execute("SELECT item_id, text FROM material JOIN content ON content.id = content_id"))
            counts = {table: _number(connection, f"SELECT count(*) FROM {table}") for table in ("body", "vector", "content")}
            used_bodies = _number(connection, "SELECT count(DISTINCT body_id) FROM unit")
            used_contents = _number(connection, "SELECT count(DISTINCT content_id) FROM material")
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
                stored = self.stored_text(row)
                insist(
                    materials.get(item_id) == stored,
                    "a completed item's text is in the index",
                    item=item_id,
                    indexed=materials.get(item_id),
                    stored=stored,
                )

    def stored_text(self, row: Row) -> str:
        """What the bytes of a file or note say."""
        path = self.data / "bases" / row["base_id"] / "raw" / row["relative_path"]
        text = path.read_text()
        return (snapshot.strip(text) if row["type"] == "note" else text).strip("\n")

    def _search_finds_each_once(self, base: Row, rows: list[Row]) -> None:
        done = [row for row in rows if row["type"] != "directory" and row["status"] == "completed" and row["chunk_count"]]
        for row in done[:3]:
            unique = self.stored_text(row).split()[0]
            found = Counter(hit.item_id for hit in self.find(base, unique) if unique in hit.text)
            same = {other["id"] for other in done if self.stored_text(other).startswith(unique)}
            stale = found.keys() - {other["id"] for other in rows if other["status"] == "failed"}
            insist(stale == same, "a search finds exactly the items with this text", word=unique, found=found, wanted=same)
            insist(max(found.values()) == 1, "a text is found once for each item", found=found)


def _number(connection: apsw.Connection, question: str) -> int:
    ((found,),) = connection.execute(question)
    return int(found)
