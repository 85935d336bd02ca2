"""What must hold when a schedule has come to rest, beyond `peace`: the diary and the provider's bill against what was asked."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.chaos.schedules.diary import Entry, Span, Story
from tests.chaos.schedules.people import Asked, People
from tests.chaos.sound import Ask, insist
from tests.fleet import BATCH_TEXTS, Fleet
from tests.paid import stored_at

CLOCK_SECONDS: Final = 0.01  #: rows keep milliseconds
LATE_SECONDS: Final = 1.0  #: a request that had left its process before that was lost may take so long to be read
_TERMINAL: Final = frozenset({"completed", "failed", "cancelled"})
#: why an item may fail here, beside the disk and the embedder: blows and cancels, notes without a word, folders that are empty
#: or go while they are read
_MAY: Final = frozenset(
    {"indexing_interrupted", "child_failed", "empty", "no_indexable_files", "path_not_found", "sources_unverifiable"}
)
_STORAGE: Final = frozenset({"storage_full", "storage_failed"})


def insist_on_promises(fleet: Fleet, people: People, story: Story, *, unpaid_late: int, woken_late: int) -> None:
    """Everything that the diary and the bill can show.

    Args:
        unpaid_late: texts of requests that were answered, but too late for whoever had asked.
        woken_late: texts that processes which stood still may have sent when they woke, one batch each.
    """
    _nothing_accepted_is_lost(people, story)
    _nothing_deleted_comes_back(story)
    _reasons_fit(people, story)
    _keys_admit_one_job(story)
    _runs_were_asked_for(people.asked, story)
    bill: Mapping[str, Mapping[str, list[float]]] = fleet.embedder.stats()["texts"]
    _Bill(people, story, bill, stored_at(fleet.settings.data_dir)).insist(unpaid_late=unpaid_late, woken_late=woken_late)


def _nothing_accepted_is_lost(people: People, story: Story) -> None:
    kept = {base["id"] for base in people.bases()}
    for item_id in people.accepted:
        entries = story.items[item_id]
        insist(entries, "what a receipt names has had a row", item=item_id)
        last = entries[-1]
        if last.status == "gone" and last.base_id in kept:
            insist(any(one.status == "deleting" for one in entries), "only a delete removes a row", item=item_id)


def insist_on_no_remains(data: Path, ask: Ask, story: Story, *, is_whole: bool) -> None:
    """Before anything is tidied: no file of a deleted item is left, and none that has no item unless a process was lost.

    Args:
        is_whole: nothing was killed, and no disk failed.
    """
    named = {(row["base_id"], row["relative_path"]) for row in ask("SELECT base_id, relative_path FROM knowledge_item")}
    bases = {row["id"] for row in ask("SELECT id FROM knowledge_base")}
    for base_id in bases:
        folder = data / "bases" / base_id
        staged = list((folder / "staging").glob("*"))
        insist(not (is_whole and staged), "staged bytes are left by lost processes only", files=staged)
        for path in (folder / "raw").rglob("*"):
            relative = str(path.relative_to(folder / "raw"))
            if path.is_dir() or (base_id, relative) in named:
                continue
            insist(not is_whole, "files without an item are left by lost processes only", base=base_id, path=relative)
            removed_at = story.removed.get((base_id, relative))
            is_later = removed_at is None or path.stat().st_ctime > removed_at
            insist(is_later, "no file of a deleted item is left", base=base_id, path=relative)


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
            is_known = not error or error in _MAY | _STORAGE or error.startswith("embed")
            insist(is_known, "an item fails for a reason that there is", item=item_id, error=error)
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


@dataclass(frozen=True)
class _Wasted:
    """A text for which more answers came than are accounted for."""

    text: str
    count: int
    times: Mapping[str, list[float]]
    stored: float | None
    senders: set[Span]

    @property
    def lost(self) -> list[Span]:
        return [run for run in self.senders if _is_lost(run)]


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
        self._bill = {key: times for key, times in bill.items() if key not in people.others}
        self._runs: dict[str, list[Span]] = defaultdict(list)  #: source → runs that index an item of that name
        for job_id, entries in story.jobs.items():
            if entries[0].note == "knowledge.index-documents":
                for item_id in story.named[job_id]:
                    if story.items[item_id]:
                        self._runs[story.items[item_id][0].note] += story.runs(job_id)

    def insist(self, *, unpaid_late: int, woken_late: int) -> None:
        """Each answer that came is stored, and no other is paid for, but for the one that a lost run was waiting for."""
        lost: list[_Wasted] = []
        self._woken_late = woken_late
        for key, times in self._bill.items():
            insist(key in self._people.holders, "only texts of items are sent", text=key)
            runs = [run for holder in self._people.holders[key] for run in self._runs[holder]]
            senders: set[Span] = set()
            for sent in times["sent"]:
                senders |= self._sent_by_a_run(key, sent, runs)
            wasted = len(times["answered"]) - (key in self._stored) - _overlapping(senders)
            if wasted > 0:
                lost.append(_Wasted(key, wasted, times, self._stored.get(key), senders))
        self._are_of_lost_runs(lost, unpaid_late)

    def _are_of_lost_runs(self, lost: list["_Wasted"], unpaid_late: int) -> None:
        """One batch for each run: what it was waiting for, or about to store, when it was lost."""
        room: dict[Span, int] = defaultdict(lambda: BATCH_TEXTS)
        excess = []
        for one in sorted(lost, key=lambda one: len(one.lost)):
            for _ in range(one.count):
                run = max(one.lost, key=lambda run: room[run], default=None)
                if run is not None and room[run] > 0:
                    room[run] -= 1
                else:
                    excess.append(one)
        insist(
            len(excess) <= unpaid_late,
            "an answer that came is stored, unless its process died before it could be, and nothing is bought again",
            texts=excess,
            unpaid_late=unpaid_late,
        )

    def _sent_by_a_run(self, key: str, sent: float, runs: list[Span]) -> set[Span]:
        under_way = [run for run in runs if run.began - CLOCK_SECONDS <= sent <= _last_word(run)]
        if not under_way and self._woken_late and (lost := [run for run in runs if run.began <= sent and _is_lost(run)]):
            self._woken_late -= 1
            under_way = lost[-1:]
        facts: dict[str, Any] = {"text": key, "sent": sent, "holders": self._people.holders[key], "runs": runs}
        insist(under_way, "nothing is sent but by the run of an item that has this text", **facts)
        stored = self._stored.get(key)
        if stored is not None and sent > (seen := self._seen(stored, runs)) + CLOCK_SECONDS:
            blind = [run for run in under_way if run.began <= seen]  # it may have asked the cache before the vector was there
            insist(blind, "no text whose vector had been stored is sent again", stored=stored, seen=seen, **facts)
            return set(blind)
        return set(under_way)

    def _seen(self, stored: float, runs: list[Span]) -> float:
        """From when on everybody could see a vector: its time was taken before the commit, what it cost is noted after it."""
        found = []
        for run in runs:
            if run.began <= stored <= run.ended:  # it may be the one that has stored it
                found.append(min((at for at in self._story.spent[run.job_id] if at > stored), default=run.ended))
        return max(found, default=stored)


def _last_word(run: Span) -> float:
    """Until when something may arrive that this run has sent: it waits for each answer, unless it is lost, and looks whether
    it was asked to stop before it sends.
    """
    if run.outcome == "cancelled" or run.stopped < run.ended:
        return min(run.ended, run.stopped) + LATE_SECONDS
    return run.ended + CLOCK_SECONDS


def _is_lost(run: Span) -> bool:
    return run.outcome == "cancelled"


def _overlapping(runs: set[Span]) -> int:
    """How many of these were under way side by side with an earlier one: neither could see what the other would buy."""
    ordered = sorted(runs, key=lambda run: run.began)
    return sum(
        any(other.job_id != run.job_id and run.began < other.ended for other in ordered[:place])
        for place, run in enumerate(ordered)
    )
