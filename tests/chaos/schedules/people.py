"""What people do in a schedule, through `KnowledgeClient` alone, and what they have to be told."""

import math
import shutil
import threading
import time
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from config import broker
from knowledge import KnowledgeClient
from knowledge.errors import (
    BrokerUnavailable,
    CommandLost,
    CommandTimeout,
    EmbeddingFault,
    InvalidInput,
    InvalidOperation,
    KnowledgeError,
    NotFound,
    StorageFailed,
    StorageFull,
    Unavailable,
)
from knowledge.model.documents import Chunking, Document, text_hash
from knowledge.model.inputs import BaseInput, BasePatch, BaseQuery, DirectoryInput, FileInput, ItemInput, NoteInput, Strategy
from knowledge.model.results import AddReceipt, SearchHit
from knowledge.pipeline.indexing import chunker
from tests.chaos.schedules.diary import Diary
from tests.chaos.schedules.plan import Do
from tests.chaos.sound import Row, insist
from tests.chaos.world import BUNDLED, manifest, word
from tests.fleet import DIMENSIONS, Fleet

ANSWER_SECONDS: Final = 3.5  #: how long a command is waited for
JUDGE_SECONDS: Final = 30.0  #: the same for who judges: nothing fails any more, but the machine may have other work
RIPEN_SECONDS: Final = 2.0
FOLDERS: Final = ("shelf", "shelf/inner", "shelf/inner/deep", "case")
MAX_BASES: Final = 4
MAX_ROOTS: Final = 14  #: of a base, so that a schedule stays short; those that an ambush brings come in any case, see `_room`
MARK: Final = "entry"  #: a word of every paragraph, and of no query
_SEPARATOR: Final = "\\n\\n"
_CHUNK_SIZES: Final = (24, 32, 40)
ASKED_AGAIN: Final = 3
_UNHEARD: Final = (CommandTimeout, CommandLost, BrokerUnavailable)  #: it may have been done all the same
_ALWAYS: Final = (Unavailable, InvalidInput, InvalidOperation, NotFound)  #: whatever else happens, these may be answered

Found = TypeVar("Found")


@dataclass(frozen=True)
class Asked:
    """Somebody asked to have these items, or all of a base, indexed again; heard at some moment up to `until`."""

    item_ids: frozenset[str]
    base_id: str | None
    until: float  #: number of the last entry in the diary when the answer was there; infinity without an answer


class People:
    """Use as a context manager.

    Args:
        others: hashes of what may be embedded beside this schedule's texts: searches, and what the schedules before had. A
            command that was doubled, or an answer that a slow embedder still owed to a dead worker, may come that late.
    """

    def __init__(self, fleet: Fleet, diary: Diary, others: set[str], seed: int, number: int) -> None:
        self._fleet, self._diary = fleet, diary
        self._name = f"{seed}.{number}"
        self.source = fleet.root / "source" / str(number)
        self.bundles = fleet.root / "source" / f"{number}-bundles"
        for folder in (self.source, self.bundles):
            folder.mkdir(parents=True)
        self.client = KnowledgeClient(broker.endpoint(fleet.settings), timeout_seconds=ANSWER_SECONDS)
        self._judge = KnowledgeClient(broker.endpoint(fleet.settings), timeout_seconds=JUDGE_SECONDS)
        self.accepted: set[str] = set()  #: items that a receipt names
        self.asked: list[Asked] = []
        self.holders: dict[str, set[str]] = defaultdict(set)  #: text hash → sources of the items whose text it is part of
        self.others = others
        self.keyed: dict[tuple[str, str], tuple[list[ItemInput], set[str]]] = {}  #: request → inputs, and items it was given
        self.refusals: list[str] = []
        self.is_unheard = False  #: whether something was asked that may be done though no answer came
        self.has_bad_disk = self.has_bad_embedder = False  #: since when certain refusals are no surprise
        self._words = self._notes = self._made = 0
        self._writing, self._sources = threading.Lock(), threading.Lock()

    def __enter__(self) -> "People":
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self._judge.close()
        for folder in (self.source, self.bundles):
            shutil.rmtree(folder, ignore_errors=True)

    def do(self, step: Do) -> None:
        operation = getattr(self, f"_{step.what.replace(' ', '_')}")
        operation(*step.picks)

    def do_at_once(self, steps: Sequence[Do]) -> None:
        with ThreadPoolExecutor(len(steps)) as threads:
            for _ in threads.map(self.do, steps):
                pass

    # bases -------------------------------------------------------------------------------------------------------------------

    def create_bases(self, count: int) -> None:
        for number in range(count):
            self.create_base(number)

    def create_base(self, number: int) -> None:
        """Of three numbers in a row the second makes a base that searches by words alone."""
        self._made += 1
        wanted = BaseInput(
            name=f"base {self._made} of {self._name}",
            embedder=None if number % 3 == 1 else "fake/paid",
            chunk_size=_CHUNK_SIZES[0],
            chunk_overlap=0,
            chunk_strategy="delimiter",
            chunk_separator=_SEPARATOR,
            fail_on_empty=number % 5 == 4,
        )
        self._ask(lambda: self.client.create_base(wanted))

    def _create_base(self, number: int) -> None:
        if len(self.bases()) < MAX_BASES:
            self.create_base(number)

    def _patch_base(self, pick: int, number: int) -> None:
        changes: dict[str, Any] = (
            {"chunk_size": _CHUNK_SIZES[number % len(_CHUNK_SIZES)]},
            {"name": f"renamed {number} of {self._name}"},
            {"fail_on_empty": bool(number % 2)},
            {"embedder": "fake/paid" if number % 2 else None},
        )[number % 4]
        if base := self._base(pick):
            self._ask(lambda: self.client.patch_base(base["id"], BasePatch(**changes)))

    def _delete_base(self, pick: int) -> None:
        if len(self.bases()) > 1 and (base := self._base(pick)):
            self._ask(lambda: self.client.delete_base(base["id"]))

    def _restore_base(self, pick: int, number: int) -> None:
        base = self._base(pick)
        if base and len(self.bases()) < MAX_BASES:
            self._made += 1
            embedder = None if number % 3 == 2 else "fake/paid"
            receipt = self._ask(lambda: self.client.restore_base(base["id"], f"copy {self._made} of {self._name}", embedder))
            self.accepted |= {item.id for item in receipt.items} if receipt else set()

    def _import_base(self, number: int) -> None:
        if len(self.bases()) < MAX_BASES:
            self._made += 1
            path = self.bundles / f"{self._made}.zip"
            model = (None, "fake/paid", "not/declared")[number % 3]
            finely = {"chunk_size": _CHUNK_SIZES[0], "chunk_strategy": "delimiter", "chunk_separator": _SEPARATOR}
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("base.json", manifest(f"import {self._made} of {self._name}", model, DIMENSIONS, **finely))
                for stored, source in BUNDLED.items():
                    archive.writestr(f"raw/{stored}", self._text(number, source))
            self._ask(lambda: self.client.import_base(path))

    def _enable_embedder(self, pick: int) -> None:
        if base := self._base(pick):
            self._again(lambda: self.client.enable_embedder(base["id"], "fake/paid"), base_id=base["id"])

    def _group(self, pick: int, number: int) -> None:
        groups = self._ask(self.client.list_groups) or []
        if not groups or number % 4 == 0:
            self._ask(lambda: self.client.create_group(f"group {number} of {self._name}"))
            return
        group = groups[number % len(groups)]
        if number % 4 == 1:
            self._ask(lambda: self.client.rename_group(group.id, f"group {number + 1} of {self._name}"))
        elif number % 4 == 2:
            self._ask(lambda: self.client.delete_group(group.id))
        elif base := self._base(pick):
            self._ask(lambda: self.client.patch_base(base["id"], BasePatch(group_id=group.id)))

    # items -------------------------------------------------------------------------------------------------------------------

    def _add_notes(self, pick: int, strategy: int, *numbers: int) -> None:
        self._add(pick, strategy, [self._note(number, f"note {number % 3} of {self._name}") for number in numbers])

    def _add_files(self, pick: int, strategy: int, *numbers: int) -> None:
        self._add(pick, strategy, [FileInput(path=self._some_file(number)) for number in numbers])

    def _add_directory(self, pick: int, strategy: int, number: int) -> None:
        for name in range(3 + number % 3):
            self._write_source(number + name, name, number)
        self._add(pick, strategy, [DirectoryInput(path=self.source / FOLDERS[0 if number % 3 else 1].split("/")[0])])

    def _add_with_a_key(self, pick: int, key: int, number: int, how: int) -> None:
        base = self._room(pick)
        if base is None:
            return
        name = f"key {key % 2}"
        request = (base["id"], name)
        if request not in self.keyed:
            self.keyed[request] = ([self._note(number, f"asked by {name} of {self._name}")], set())
        inputs, given = self.keyed[request]
        strategy = tuple(Strategy)[how % 3]

        def ask() -> AddReceipt:
            return self.client.add_items(base["id"], inputs, strategy=strategy, idempotency_key=name)

        with ThreadPoolExecutor(2) as threads:
            for receipt in threads.map(lambda _: self._ask(ask), range(1 + how % 2)):
                if receipt:
                    given |= {item.id for item in receipt.items}
        self.accepted |= given
        insist(len(given) <= len(inputs), "a request with a key is done once", base=base["id"], key=name, items=given)

    def _write_source(self, folder: int, name: int, number: int) -> None:
        path = self.source / FOLDERS[folder % len(FOLDERS)] / f"{'abcdef'[name % 6]}.{'txt' if name % 2 else 'md'}"
        text = "" if number % 17 == 16 else self._text(number, str(path))
        with self._sources:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def _remove_source(self, number: int) -> None:
        with self._sources:
            there = sorted(self.source.rglob("*"))
            if there:
                path = there[number % len(there)]
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _delete_items(self, pick: int, *numbers: int) -> None:
        base = self._base(pick)
        if base and (ids := self._picked(base, numbers)):
            for _ in range(1 + numbers[-1] % 2):  # also what is being deleted already
                self._ask(lambda: self.client.delete_items(base["id"], ids))

    def _reindex(self, pick: int, how: int, *numbers: int) -> None:
        base = self._base(pick)
        if base and (ids := self._picked(base, numbers)):
            self._again(lambda: self.client.reindex_items(base["id"], ids, allow_empty=how % 2 == 1), item_ids=ids)

    def _reindex_interrupted(self, pick: int) -> None:
        if base := self._base(pick):
            self._again(lambda: self.client.reindex_interrupted(base["id"]), base_id=base["id"])

    def _cancel_job(self, pick: int) -> None:
        if job := self._job(pick):
            self._ask(lambda: self.client.cancel_job(job["id"]))

    def _requeue_job(self, pick: int) -> None:
        if job := self._job(pick):
            self._ask(lambda: self.client.requeue_job(job["id"]))

    def hurry(self) -> None:
        """What waits for a later time, after an error or a loss, goes on now: a schedule has no time for that."""
        with self._diary.view() as ask:
            later = list(
                ask("SELECT id FROM knowledge_job WHERE status = 'pending' AND scheduled_at > 1000 * unixepoch('subsec') + 300")
            )
        for job in later:
            self._ask(partial(self.client.requeue_job, job["id"]))

    # looks -------------------------------------------------------------------------------------------------------------------

    def _search(self, pick: int, number: int) -> None:
        if base := self._base(pick):
            gone = self._gone(base)
            words = f"harbour rules {word(number % (self._words + 1))}"
            hits = self._ask(lambda: self.search(base, words)) or []
            shown = {hit.item_id for hit in hits}
            insist(not shown & gone, "a search never shows what was deleted", items=shown & gone)

    def search(self, base: Row, words: str) -> Sequence[SearchHit]:
        return self._search_by(self.client, base, words)

    def _search_by(self, client: KnowledgeClient, base: Row, words: str) -> Sequence[SearchHit]:
        self.others.add(text_hash(words))
        return client.search(base["id"], words, limit=50).hits

    def find(self, base: Row, words: str) -> Sequence[SearchHit]:
        """For who judges: a worker that has just got its broker back may be slow to answer, and a search can be asked again."""
        for _ in range(ASKED_AGAIN):
            with suppress(*_UNHEARD):
                return self._search_by(self._judge, base, words)
        return self._search_by(self._judge, base, words)

    def _list(self, pick: int, number: int) -> None:
        self._ask(lambda: self.client.find_bases(BaseQuery(search=self._name)))
        if base := self._base(pick):
            gone = self._gone(base)
            page = self._ask(lambda: self.client.list_items(base["id"], roots_only=number % 2 == 0, limit=100))
            shown = {item.id for item in page.items} if page else set()
            insist(not shown & gone, "a list never shows what was deleted", items=shown & gone)
            self._ask(lambda: self.client.status_counts(base["id"]))

    def _why(self, pick: int, number: int) -> None:
        base = self._base(pick)
        if base and (ids := self._picked(base, [number])):
            self._ask(lambda: self.client.why(ids[0]))
            self._ask(lambda: self.client.preview(ids[0]))
            self._ask(lambda: self.client.chunks(base["id"], ids[0]))

    # work at the end ---------------------------------------------------------------------------------------------------------

    def add_fresh(self, base: Row) -> str:
        """A note that nobody has had before; the word it is found by."""
        content = self.note_of_their_own()
        receipt = self._judge.add_items(base["id"], [content])
        self.accepted |= {item.id for item in receipt.items}
        return content.content.split()[0]

    def clear(self) -> None:
        """Delete every base."""
        for base in self.bases():
            self._ask(partial(self._judge.delete_base, base["id"]))

    def note_of_their_own(self) -> NoteInput:
        self._notes += 1
        return self._note(2, f"fresh note {self._notes} of {self._name}")

    def ripen(self, is_worked: Callable[[], bool]) -> None:
        """Have something in the first base that is indexed, so that it can be deleted; no longer than it is worth."""
        self._add_notes(0, 0, 2)
        until = time.monotonic() + RIPEN_SECONDS
        while is_worked() and time.monotonic() < until:
            time.sleep(0.02)

    # helpers -----------------------------------------------------------------------------------------------------------------

    def bases(self) -> list[Row]:
        """Those that are not being deleted, oldest first."""
        with self._diary.view() as ask:
            return list(ask("SELECT * FROM knowledge_base WHERE deleting_at IS NULL ORDER BY created_at, id"))

    def _base(self, pick: int) -> Row | None:
        bases = self.bases()
        return bases[pick % len(bases)] if bases else None

    def _job(self, pick: int) -> Row | None:
        with self._diary.view() as ask:
            jobs = list(ask("SELECT id FROM knowledge_job WHERE status IN ('pending', 'running') ORDER BY id"))
        return jobs[pick % len(jobs)] if jobs else None

    def _picked(self, base: Row, numbers: Iterable[int]) -> list[Any]:
        with self._diary.view() as ask:
            rows = list(ask("SELECT id FROM knowledge_item WHERE base_id = ? ORDER BY created_at, id", base["id"]))
        return [rows[number % len(rows)]["id"] for number in numbers] if rows else []

    def _room(self, pick: int) -> Row | None:
        """The base, unless it holds much already; the first one, which is what an ambush names, always has room."""
        base = self._base(pick)
        if base is None or pick == 0:
            return base
        with self._diary.view() as ask:
            rows = list(ask("SELECT 1 FROM knowledge_item WHERE base_id = ? AND group_id IS NULL", base["id"]))
        return base if len(rows) < MAX_ROOTS else None

    def _gone(self, base: Row) -> set[str]:
        """Items of this base whose deletion is committed by now."""
        with self._diary.view() as ask:
            told = "SELECT id FROM chaos_diary WHERE kind = 'item' AND status IN ('deleting', 'gone') AND base_id = ?"
            return {row["id"] for row in ask(told, base["id"])}

    def _add(self, pick: int, strategy: int, inputs: Sequence[ItemInput]) -> None:
        base = self._room(pick)
        if base is None:
            return
        how = tuple(Strategy)[strategy % 3]
        receipt = self._ask(lambda: self.client.add_items(base["id"], inputs, strategy=how))
        if receipt:
            self.accepted |= {item.id for item in receipt.items}

    def _again(self, call: Callable[[], object], *, item_ids: Iterable[str] = (), base_id: str | None = None) -> None:
        """Something that asks to have known items indexed again."""
        refused: KnowledgeError | None = None
        try:
            call()
        except KnowledgeError as error:
            refused = error
        until = math.inf if isinstance(refused, _UNHEARD) else float(self._diary.now())
        if refused is None or isinstance(refused, _UNHEARD):
            self.asked.append(Asked(frozenset(item_ids), base_id, until))
        if refused is not None:
            self._refused(refused)

    def _ask(self, call: Callable[[], Found]) -> Found | None:
        try:
            return call()
        except KnowledgeError as error:
            self._refused(error)
            return None

    def _refused(self, error: KnowledgeError) -> None:
        self.refusals.append(error.code)
        self.is_unheard |= isinstance(error, _UNHEARD)
        expected = isinstance(error, _ALWAYS)
        expected |= self.has_bad_disk and isinstance(error, StorageFull | StorageFailed)
        expected |= self.has_bad_embedder and isinstance(error, EmbeddingFault)
        insist(expected, "a refusal is of a kind that fits", code=error.code, message=str(error), details=error.details)

    def _some_file(self, number: int) -> Path:
        files = sorted(path for path in self.source.rglob("*") if path.is_file())
        if not files or number % 4 == 0:
            self._write_source(number, number, number)
            files = sorted(path for path in self.source.rglob("*") if path.is_file())
        return files[number % len(files)]

    def _note(self, number: int, title: str) -> NoteInput:
        return NoteInput(content=self._text(number, title), title=title)

    def _text(self, number: int, holder: str) -> str:
        """Paragraphs that no other text has, and some that others have as well."""
        paragraphs = []
        for _ in range(2 + number % 9):
            with self._writing:
                self._words += 1
                first = word(self._words)
            paragraphs.append(f"{first} opens {MARK} {self._name} of this log, and nobody else has it.")
        shared = (
            f"{MARK} {rule} of the harbour rules {self._name} is the same in many books." for rule in {number % 4, number % 3}
        )
        text = "\n\n".join((*paragraphs, *shared))
        for size in _CHUNK_SIZES:
            for unit in chunker.split([Document(text=text)], Chunking(size, 0, "delimiter", _SEPARATOR)).units:
                self.holders[text_hash(unit.text)].add(holder)
        return text
