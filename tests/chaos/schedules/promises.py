"""What must hold when a schedule has come to rest, beyond `peace`: the diary and the provider's bill against what was asked."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from sqlalchemy import select

from knowledge.catalog.embeddings import VECTOR
from knowledge.db.engine import Database
from tests.chaos.schedules.diary import Entry, Span, Story
from tests.chaos.schedules.people import Asked, People
from tests.chaos.sound import insist
from tests.fleet import BATCH_TEXTS, Fleet

CLOCK_SECONDS: Final = 0.01  #: rows keep milliseconds
LATE_SECONDS: Final = 1.0  #: a request that had left its process before that was lost may take so long to be read
_TERMINAL: Final = frozenset({"completed", "failed", "cancelled"})
_STORAGE: Final = frozenset({"storage_full", "storage_failed"})


def insist_on_promises(fleet: Fleet, people: People, story: Story, *, unpaid_late: int) -> None:
    """Everything that the diary and the bill can show.

    Args:
        unpaid_late: texts of requests that were answered, but too late for whoever had asked.
    """
    _nothing_accepted_is_lost(people, story)
    _nothing_deleted_comes_back(story)
    _reasons_fit(people, story)
    _keys_admit_one_job(story)
    _runs_were_asked_for(people.asked, story)
    bill: Mapping[str, Mapping[str, list[float]]] = fleet.embedder.stats()["texts"]
    _Bill(people, story, bill, _stored_at(fleet)).insist(allowed=fleet.killed * BATCH_TEXTS + unpaid_late)


def _nothing_accepted_is_lost(people: People, story: Story) -> None:
    kept = {base["id"] for base in people.bases()}
    for item_id in people.accepted:
        entries = story.items[item_id]
        insist(entries, "what a receipt names has had a row", item=item_id)
        last = entries[-1]
        if last.status == "gone" and last.base_id in kept:
            insist(any(one.status == "deleting" for one in entries), "only a delete removes a row", item=item_id)


def _nothing_deleted_comes_back(story: Story) -> None:
    for item_id, entries in story.items.items():
        statuses = [one.status for one in entries]
        if "deleting" in statuses:
            after = set(statuses[statuses.index("deleting") :])
            insist(
                after <= {"deleting", "gone"}, "a row that is being deleted never comes back", item=item_id, statuses=statuses
            )


def _reasons_fit(people: People, story: Story) -> None:
    for item_id, entries in story.items.items():
        for one in entries:
            error = one.error or ""
            insist(error != "internal_error", "no job fails for a fault of ours", item=item_id)
            insist(people.has_bad_disk or error not in _STORAGE, "a disk that works fails nothing", item=item_id, error=error)
            fits = people.has_bad_embedder or not error.startswith("embed")
            insist(fits, "an embedder that works fails nothing", item=item_id, error=error)


def _keys_admit_one_job(story: Story) -> None:
    """Also for a moment: between any two entries of the diary."""
    holder: dict[str, str] = {}
    for one in sorted((entry for entries in story.jobs.values() for entry in entries), key=lambda entry: entry.number):
        key = one.error or ""
        if one.status == "stopping" or one.status in _TERMINAL:
            if holder.get(key) == one.id:
                del holder[key]
        elif one is story.jobs[one.id][0]:
            insist(key not in holder, "a key never admits two active jobs", key=key, jobs=(holder.get(key), one.id))
            holder[key] = one.id


def _runs_were_asked_for(asked: Iterable[Asked], story: Story) -> None:
    """No run begins for an interrupted item, unless somebody asked since, or what was asked before was taken up since."""
    asked = list(asked)
    for job_id, entries in story.jobs.items():
        if entries[0].note not in ("knowledge.index-documents", "knowledge.prepare-root"):
            continue
        for run in story.runs(job_id):
            for item_id in story.named[job_id]:
                before = [one for one in story.interruptions(item_id) if one.number < run.first]
                if before:
                    _asked_since(before[-1], asked, story, job_id, item_id)


def _asked_since(interruption: Entry, asked: Iterable[Asked], story: Story, job_id: str, item_id: str) -> None:
    line = set(story.line(item_id))
    by_person = any(
        one.until >= interruption.number and (one.base_id == interruption.base_id or line & one.item_ids) for one in asked
    )
    begun = [run.first for above in story.ancestry(job_id) for run in story.runs(above)]
    insist(
        by_person or any(first > interruption.number for first in begun),
        "nothing runs for an item that nobody asked to index since its interruption",
        item=item_id,
        job=job_id,
        interrupted=interruption,
    )


class _Bill:
    """What the provider was sent, against who had a reason to send it."""

    def __init__(
        self,
        people: People,
        story: Story,
        bill: Mapping[str, Mapping[str, list[float]]],
        stored: Mapping[str, float],
    ) -> None:
        self._people, self._story, self._stored = people, story, stored
        self._bill = {key: times for key, times in bill.items() if key not in people.queries}
        self._runs: dict[str, list[Span]] = defaultdict(list)  #: source → runs that index an item of that name
        for job_id, entries in story.jobs.items():
            if entries[0].note == "knowledge.index-documents":
                for item_id in story.named[job_id]:
                    if story.items[item_id]:
                        self._runs[story.items[item_id][0].note] += story.runs(job_id)

    def insist(self, *, allowed: int) -> None:
        overlaps = twice = 0
        for key, times in self._bill.items():
            insist(key in self._people.holders, "only texts of items are sent", text=key)
            runs = [run for holder in self._people.holders[key] for run in self._runs[holder]]
            for sent in times["sent"]:
                self._sent_by_a_run(key, sent, runs)
            twice += max(0, len(times["answered"]) - 1)
            overlaps += _overlapping(runs, times["answered"])
        insist(
            twice <= allowed + overlaps,
            "texts are bought twice only where a process died before it had stored the answer",
            bought_again=twice,
            allowed=allowed,
            overlaps=overlaps,
        )

    def _sent_by_a_run(self, key: str, sent: float, runs: list[Span]) -> None:
        under_way = [run for run in runs if run.began - CLOCK_SECONDS <= sent <= _last_word(run)]
        facts: dict[str, Any] = {"text": key, "sent": sent, "holders": self._people.holders[key], "runs": runs}
        insist(under_way, "nothing is sent but by the run of an item that has this text", **facts)
        stored = self._stored.get(key)
        if stored is not None and sent > stored + CLOCK_SECONDS:
            blind = [run for run in under_way if run.began <= stored]  # it had asked the cache before the vector was there
            insist(blind, "no text whose vector had been stored is sent again", stored=stored, **facts)


def _last_word(run: Span) -> float:
    """Until when something may arrive that this run has sent: it waits for each answer, unless it is lost."""
    return run.ended + (LATE_SECONDS if run.outcome == "cancelled" else CLOCK_SECONDS)


def _overlapping(runs: list[Span], answered: list[float]) -> int:
    """How many of these answers may have gone to runs that were under way side by side."""
    if len(answered) < 2:
        return 0
    around = [run for run in runs if run.began <= max(answered) and _last_word(run) >= min(answered)]
    return sum(
        any(other.job_id != run.job_id and other.began < run.ended and run.began < other.ended for other in around[:place])
        for place, run in enumerate(around)
    )


def _stored_at(fleet: Fleet) -> dict[str, float]:
    """When each paid vector was stored, in seconds since the epoch."""
    cache = Database(f"sqlite:///{fleet.settings.data_dir / 'embeddings.sqlite'}", pooled=False)
    if not cache.path.exists():
        return {}
    with cache.read() as tx:
        return {row.text_hash: row.paid_at.timestamp() for row in tx.execute(select(VECTOR.c.text_hash, VECTOR.c.paid_at))}
