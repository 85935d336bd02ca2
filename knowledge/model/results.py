"""What the service answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from knowledge.model.ids import BaseId, ItemId, JobId
from knowledge.model.jobs import Job
from knowledge.model.status import ACTIVE, ItemStatus, ItemType
from knowledge.model.views import Base, Item


@dataclass(frozen=True, slots=True)
class Conflict:
    """A root of this type and name is there already, or twice in the call."""

    type: ItemType
    title: str


@dataclass(frozen=True, slots=True)
class AddReceipt:
    """Accepted: rows and jobs are committed. Not yet indexed."""

    base_id: BaseId
    items: Sequence[Item]
    published: bool  #: False: the broker does not answer; the jobs wait in the ledger and are sent when it is back
    conflicts: Sequence[Conflict] = ()  #: with `detect`: what is in the way; then nothing was added
    gone: Sequence[ItemId] = ()  #: accepted, by this add or by the same one before, and deleted or replaced meanwhile


@dataclass(frozen=True, slots=True)
class ReindexReceipt:
    """The outermost roots that will be acquired again; their statuses have not changed yet."""

    base_id: BaseId
    root_ids: Sequence[ItemId]
    job_id: JobId | None  #: None if nothing was chosen
    published: bool


@dataclass(frozen=True, slots=True)
class RestoreReceipt:
    """A new base that fetches its items from an old one."""

    base: Base
    items: Sequence[Item]
    skipped_missing_sources: int  #: roots whose source is gone


@dataclass(frozen=True, slots=True)
class DeleteReceipt:
    """The outermost roots now `deleting`; nothing has been removed yet."""

    base_id: BaseId
    root_ids: Sequence[ItemId]
    published: bool


@dataclass(frozen=True, slots=True)
class StatusCounts:
    """How many leaves and containers of some subtrees have each status; rows that are gone count nowhere."""

    leaves: Mapping[ItemStatus, int]
    containers: Mapping[ItemStatus, int]

    @property
    def total(self) -> int:
        return sum(self.leaves.values()) + sum(self.containers.values())

    @property
    def is_settled(self) -> bool:
        """Nothing of it is being worked on any more."""
        busy = ACTIVE | {ItemStatus.IDLE, ItemStatus.DELETING}
        return not any(counts.get(status, 0) for counts in (self.leaves, self.containers) for status in busy)

    @property
    def work_done(self) -> float:
        """Share of the leaves that are terminal, 0..1; an expanding directory counts as unfinished work."""
        done = sum(self.leaves.get(status, 0) for status in (ItemStatus.COMPLETED, ItemStatus.FAILED))
        open_containers = self.containers.get(ItemStatus.PREPARING, 0)
        total = sum(self.leaves.values()) + open_containers
        return 1.0 if total == 0 else done / total


@dataclass(frozen=True, slots=True)
class Waited:
    """How accepted work ended."""

    counts: StatusCounts
    failures: Sequence[Item]  #: the first of them
    seconds: float
    job: Job | None = None  #: of a reindex: what became of it; one that did not complete has left its items as they were
    gone: int = 0  #: rows that somebody deleted meanwhile, at least so many; 0 of a delete


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many leaves of a base have text that can be found; containers count nowhere.

    What is indexed again, or could not be, counts with the text that it had: that text is still found.
    """

    items: int
    with_text: int
    partial: int  #: of those with text: some of their pages or parts gave none
    without_text: int  #: read, and empty
    failed: int  #: could not be read and never were


@dataclass(frozen=True, slots=True)
class ItemPage:
    items: Sequence[Item]
    total: int
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class BasePage:
    bases: Sequence[Base]
    total: int
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class Group:
    """A name that bases are shown under."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """One search unit of an item, in the order of its text."""

    id: str
    item_id: ItemId
    content: str
    item_type: ItemType
    item_status: ItemStatus
    source: str
    chunk_index: int
    char_start: int
    char_end: int
    page: int | None
    locator: str | None  #: another place inside the file: `sheet Sales`, `slide 3` …
    token_count: int  #: estimated


@dataclass(frozen=True, slots=True)
class Preview:
    """The beginning of an item's text, as it is searched."""

    item_id: ItemId
    text: str
    total_characters: int
    truncated: bool


@dataclass(frozen=True, slots=True)
class Why:
    """What explains an item's status."""

    item: Item
    job: Job | None  #: the active job, else the last one
    explanation: str  #: one sentence
    owner_alive: bool | None  #: of a running job on this host or one with a heartbeat; None if that cannot be told


@dataclass(frozen=True, slots=True)
class JobPage:
    jobs: Sequence[Job]
    total: int


class ScoreKind(StrEnum):
    RANKING = "ranking"  #: orders the hits, says nothing about how good they are; thresholds do not apply
    RELEVANCE = "relevance"  #: 0..1, cut by the base's threshold; of rerankers, of which there is none yet


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One passage. `char_start`, `char_end` count code points of the item's text."""

    rank: int
    score: float
    score_kind: ScoreKind
    chunk_id: str
    item_id: ItemId
    concept_id: str
    title: str
    name: str  #: what people are shown, see `Item.name`
    text: str
    char_start: int
    char_end: int
    page: int | None
    locator: str | None  #: another place inside the file: `sheet Sales`, `slide 3` …
    item_status: ItemStatus
    source: str
    chunk_index: int
    token_count: int  #: estimated


class SearchNotice(StrEnum):
    """Why an answer is less than it would be at another time. Named after the error behind it."""

    EMBEDDER_UNAVAILABLE = "embedder_unavailable"  #: searched by words only: the embedder does not answer
    EMBEDDER_SLOW_DOWN = "embedder_slow_down"  #: searched by words only: the embedder asks to wait
    INDEX_LOST = "index_lost"  #: the index was damaged or gone, and not all of it has been made again


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """The hits, and what they cannot contain yet."""

    hits: Sequence[SearchHit]
    mode: str  #: "hybrid" or "lexical": how this search was done
    pending: int  #: leaves being indexed that have no material yet
    stale: int  #: leaves being indexed again, found with their last good material
    notices: Sequence[SearchNotice] = ()


@dataclass(frozen=True, slots=True)
class WorkerView:
    """One worker process that told of itself."""

    name: str
    host: str
    pid: int
    queues: Sequence[str]
    is_alive: bool
    seconds_since_heartbeat: float
