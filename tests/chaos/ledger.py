"""The reference model: what was asked for, what was paid, and what must therefore hold.

It knows nothing of how the product works; it reads its rows, files and index, and what the third parties have seen.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tests.chaos import fate
from tests.chaos.fate import Outcome
from tests.chaos.outside import BATCH, WINDOW
from tests.chaos.peace import Home
from tests.chaos.sound import INTERRUPTED, Broken, View, insist

if TYPE_CHECKING:
    from tests.chaos.world import World


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
        view = View.now(self._world.ask)
        self._remember(view.items)
        view.insist(window=WINDOW)

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

    # what must hold when all has settled -----------------------------------------------------------------------------------

    def settled(self) -> None:
        world = self._world
        Home(world.data, world.ask, world.find).insist_on_peace()
        for base in world.ask("SELECT id FROM knowledge_base"):
            with fate.being(None), world.rt.locks.base(base["id"], wait_seconds=0):
                pass  # nobody holds it any more
        self._requests_were_admitted_once()
        extra = sum(count - 1 for count in world.provider.sent.values())
        insist(
            extra <= self.deaths * BATCH + self.overlaps,
            "texts are bought twice only where a process died before it had stored the answer",
            extra=extra,
            deaths=self.deaths,
            overlaps=self.overlaps,
        )

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
