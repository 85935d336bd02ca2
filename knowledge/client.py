"""KnowledgeClient: the thin caller. Needs the broker's address and nothing else: no database, no index, no files.

Each method is the service's method of the same name, run by the fleet; results and errors come back as the same classes.
"""

import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self, TypeVar, cast

from celery import Celery, states
from celery.backends.redis import RedisBackend
from kombu import Connection
from kombu.exceptions import LimitExceeded, OperationalError
from kombu.pools import ProducerPool
from redis.exceptions import RedisError

from knowledge.errors import BrokerUnavailable, CommandLost, CommandTimeout, FleetBusy, InvalidInput, Unavailable
from knowledge.model import wire
from knowledge.model.ids import BaseId, ItemId, JobId
from knowledge.model.inputs import SHARD_PATTERN, BaseInput, BasePatch, BaseQuery, ItemInput, Strategy
from knowledge.model.jobs import Job, JobStatus
from knowledge.model.results import (
    AddReceipt,
    BasePage,
    Chunk,
    Coverage,
    DeleteReceipt,
    Group,
    ItemPage,
    JobPage,
    Preview,
    ReindexReceipt,
    RestoreReceipt,
    SearchAnswer,
    StatusCounts,
    Waited,
    Why,
    WorkerView,
)
from knowledge.model.status import ItemStatus, ItemType
from knowledge.model.views import Base, Item
from knowledge.settling import Settling
from knowledge.topology import EXCHANGE, commands_key, commands_queue_of

T = TypeVar("T")

TIMEOUT_SECONDS: Final = 60.0  #: longer than the fleet waits for a base that another operation is changing
MAX_TIMEOUT_SECONDS: Final = 86_400  #: a command that waits in the queue for longer is none that its sender remembers
CONNECT_SECONDS: Final = 2.0
SOCKET_SECONDS: Final = 3.0  #: without a socket timeout a broker that hangs would block for ever
MAX_CONNECTIONS: Final = 16  #: further threads wait for one of these
FIRST_LOOK_SECONDS: Final = 0.003
LATER_LOOK_SECONDS: Final = 0.1
RECEIPTS = AddReceipt | DeleteReceipt | ReindexReceipt | RestoreReceipt


class KnowledgeClient:
    """Speaks to a fleet through its broker. One client may be used by several threads.

    Args:
        broker_url: the fleet's Redis or Valkey, password included.
        shard: the workers that answer; they must see the files that are added.
        timeout_seconds: how long each method waits for its answer, at most a day. The clocks of client and fleet must agree
            better than that: a command that comes too late is not run.

    Every method raises kinds of `KnowledgeError` only: those of the service, `BrokerUnavailable`, and `CommandTimeout` when no
    answer came in time (the operation may be done all the same; give adds an idempotency key and ask again).

    Answers are fetched by short looks at the broker instead of a subscription: safe between threads, and a broker that hangs
    or vanishes in the middle is noticed within seconds.
    """

    def __init__(self, broker_url: str, *, shard: str = "main", timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        if not broker_url.startswith(("redis://", "rediss://", "redis+socket://")):
            raise InvalidInput("A client speaks to Redis or Valkey: redis://, rediss:// or redis+socket://.")
        self._shard = _require_shard(shard)
        self._timeout = _require_seconds("timeout_seconds", timeout_seconds)
        # Only builds messages and connects to nothing: Celery prefers CELERY_BROKER_URL and CELERY_RESULT_BACKEND to what it is
        # told, and they may be another application's.
        self._app = Celery("knowledge-client", set_as_current=False, fixups=[])
        self._app.backend_cls = "disabled"
        self._app.conf.update(
            task_serializer="json",
            accept_content=["json"],
            task_publish_retry_policy={"max_retries": 1, "interval_start": 0.1, "interval_step": 0.1, "interval_max": 0.2},
            redis_socket_timeout=SOCKET_SECONDS,
            redis_socket_connect_timeout=CONNECT_SECONDS,
        )
        try:
            timeouts = {"socket_timeout": SOCKET_SECONDS, "socket_connect_timeout": CONNECT_SECONDS, "socket_keepalive": True}
            connection = Connection(broker_url, connect_timeout=CONNECT_SECONDS, transport_options=timeouts)
            self._connections = connection.Pool(limit=MAX_CONNECTIONS)
            self._producers = ProducerPool(self._connections, limit=MAX_CONNECTIONS)
            self._answers = RedisBackend(app=self._app, url=broker_url.removeprefix("redis+"))
        except ValueError as error:  # a port that is no number, TLS parameters without TLS
            raise InvalidInput("This is not the address of a broker.") from error

    def close(self) -> None:
        self._producers.force_close_all()
        self._connections.force_close_all()
        self._answers.client.close()
        self._app.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # bases -------------------------------------------------------------------------------------------------------------------

    def create_base(self, base: BaseInput) -> Base:
        return self._call("create_base", Base, base=wire.dump(base, BaseInput))

    def base(self, id_or_name: str) -> Base:
        return self._call("base", Base, id_or_name=id_or_name)

    def find_bases(self, query: BaseQuery | None = None) -> BasePage:
        return self._call("find_bases", BasePage, query=wire.dump(query or BaseQuery(), BaseQuery))

    def patch_base(self, base_id: BaseId, changes: BasePatch) -> Base:
        return self._call("patch_base", Base, base_id=base_id, changes=wire.dump(changes, BasePatch))

    def delete_base(self, base_id: BaseId) -> None:
        """May outlast the timeout where a job is slow to stop: the base is hidden by then, and the fleet finishes by itself."""
        self._call("delete_base", type(None), base_id=base_id)

    def enable_embedder(self, base_id: BaseId, embedder: str) -> Base:
        return self._call("enable_embedder", Base, base_id=base_id, embedder=embedder)

    def restore_base(self, base_id: BaseId, name: str, embedder: str | None) -> RestoreReceipt:
        return self._call("restore_base", RestoreReceipt, base_id=base_id, name=name, embedder=embedder)

    def import_base(self, bundle_path: Path) -> Base:
        """The path is one of the fleet's."""
        return self._call("import_base", Base, bundle_path=str(bundle_path))

    # groups ------------------------------------------------------------------------------------------------------------------

    def create_group(self, name: str) -> Group:
        return self._call("create_group", Group, name=name)

    def list_groups(self) -> Sequence[Group]:
        return self._call("list_groups", list[Group])

    def rename_group(self, group_id: str, name: str) -> Group:
        return self._call("rename_group", Group, group_id=group_id, name=name)

    def delete_group(self, group_id: str) -> None:
        self._call("delete_group", type(None), group_id=group_id)

    # items -------------------------------------------------------------------------------------------------------------------

    def add_items(
        self,
        base_id: BaseId,
        inputs: Sequence[ItemInput],
        *,
        strategy: Strategy = Strategy.RENAME,
        idempotency_key: str | None = None,
    ) -> AddReceipt:
        """Paths are the fleet's, below its import roots; a call takes up to a hundred inputs."""
        return self._call(
            "add_items",
            AddReceipt,
            base_id=base_id,
            inputs=wire.dump(list(inputs), list[ItemInput]),
            strategy=strategy.value,
            idempotency_key=idempotency_key,
        )

    def delete_items(self, base_id: BaseId, item_ids: Sequence[ItemId]) -> DeleteReceipt:
        return self._call("delete_items", DeleteReceipt, base_id=base_id, item_ids=list(item_ids))

    def reindex_items(
        self, base_id: BaseId, item_ids: Sequence[ItemId], *, allow_empty: bool = False, only_changed: bool = False
    ) -> ReindexReceipt:
        return self._call(
            "reindex_items",
            ReindexReceipt,
            base_id=base_id,
            item_ids=list(item_ids),
            allow_empty=allow_empty,
            only_changed=only_changed,
        )

    def reindex_interrupted(self, base_id: BaseId) -> ReindexReceipt:
        return self._call("reindex_interrupted", ReindexReceipt, base_id=base_id)

    def list_items(
        self,
        base_id: BaseId,
        *,
        group_id: ItemId | None = None,
        roots_only: bool = False,
        type: ItemType | None = None,  # noqa: A002 - the name callers expect
        status: ItemStatus | None = None,
        limit: int = 20,
        cursor: str | None = None,
    ) -> ItemPage:
        return self._call(
            "list_items",
            ItemPage,
            base_id=base_id,
            group_id=group_id,
            roots_only=roots_only,
            type=type,
            status=status,
            limit=limit,
            cursor=cursor,
        )

    def item(self, item_id: ItemId) -> Item:
        return self._call("item", Item, item_id=item_id)

    def status_counts(self, base_id: BaseId, root_ids: Sequence[ItemId] | None = None) -> StatusCounts:
        return self._call("status_counts", StatusCounts, base_id=base_id, root_ids=root_ids and list(root_ids))

    def coverage(self, base_id: BaseId) -> Coverage:
        return self._call("coverage", Coverage, base_id=base_id)

    def failures(self, base_id: BaseId, root_ids: Sequence[ItemId] | None = None, *, limit: int = 100) -> Sequence[Item]:
        return self._call("failures", list[Item], base_id=base_id, root_ids=root_ids and list(root_ids), limit=limit)

    def chunks(self, base_id: BaseId, item_id: ItemId) -> Sequence[Chunk]:
        return self._call("chunks", list[Chunk], base_id=base_id, item_id=item_id)

    def preview(self, item_id: ItemId, *, characters: int = 2_000) -> Preview:
        return self._call("preview", Preview, item_id=item_id, characters=characters)

    def file_path(self, item_id: ItemId) -> Path:
        """Where the fleet's hosts keep the stored copy of a file."""
        return self._call("file_path", Path, item_id=item_id)

    def why(self, item_id: ItemId) -> Why:
        return self._call("why", Why, item_id=item_id)

    # search and jobs ---------------------------------------------------------------------------------------------------------

    def search(self, base_id: BaseId, query: str, *, limit: int | None = None) -> SearchAnswer:
        return self._call("search", SearchAnswer, base_id=base_id, query=query, limit=limit)

    def list_jobs(
        self, *, base_id: BaseId | None = None, statuses: Sequence[JobStatus] | None = None, limit: int = 50
    ) -> JobPage:
        return self._call("list_jobs", JobPage, base_id=base_id, statuses=statuses and list(statuses), limit=limit)

    def job(self, job_id: JobId) -> Job:
        return self._call("job", Job, job_id=job_id)

    def cancel_job(self, job_id: JobId) -> Job:
        return self._call("cancel_job", Job, job_id=job_id)

    def requeue_job(self, job_id: JobId) -> Job:
        return self._call("requeue_job", Job, job_id=job_id)

    def workers(self) -> Sequence[WorkerView]:
        return self._call("workers", list[WorkerView])

    # waiting -----------------------------------------------------------------------------------------------------------------

    def wait(
        self,
        receipt: RECEIPTS,
        on_progress: Callable[[StatusCounts], None] | None = None,
        *,
        timeout_seconds: float | None = None,
    ) -> Waited:
        """Until nothing of the receipt is being worked on any more.

        A fleet or broker that does not answer for a while is waited for, as long as one command may take.

        Raises:
            CommandTimeout: it is not done in time; the work goes on. Unavailable: the fleet has been away for too long.
        """
        began = heard = time.monotonic()
        base_id, roots = _subject(receipt)
        job_id = receipt.job_id if isinstance(receipt, ReindexReceipt) else None
        work = Settling(_InParts(self), base_id, roots, job_id=job_id, deleting=isinstance(receipt, DeleteReceipt))
        while True:
            try:
                is_settled = work.look()
                if on_progress is not None:
                    on_progress(work.counts)
                if is_settled:
                    return Waited(work.counts, work.failures(), time.monotonic() - began, work.job, work.gone())
                heard = time.monotonic()
            except Unavailable:
                if time.monotonic() - heard >= self._timeout:
                    raise
            if timeout_seconds is not None and time.monotonic() - began >= timeout_seconds:
                raise CommandTimeout("The work is not done yet; it goes on.", seconds=timeout_seconds)
            time.sleep(work.rest_seconds)

    # how a command travels ---------------------------------------------------------------------------------------------------

    def _call(self, operation: str, result: type[T], **arguments: Any) -> T:
        size = _size(arguments)
        if size > wire.MAX_COMMAND_BYTES:
            raise InvalidInput("This is too much for the broker; add it as a file.", bytes=size, most=wire.MAX_COMMAND_BYTES)
        deadline = time.monotonic() + self._timeout
        while True:
            answer = self._ask(operation, arguments, deadline)
            if "error" not in answer:
                return cast(T, wire.load(answer["ok"], result))
            error = wire.load_error(answer["error"])
            pause = random.uniform(0.1, 0.5)  # noqa: S311 - only so that callers do not come back all at once
            if not isinstance(error, FleetBusy) or time.monotonic() + pause >= deadline:
                raise error
            time.sleep(pause)  # it was refused before anything was done, so asking again repeats nothing

    def _ask(self, operation: str, given: dict[str, Any], deadline: float) -> dict[str, Any]:
        """Send one command and look for its answer until the deadline."""
        pause = FIRST_LOOK_SECONDS
        with _broker():
            task_id = self._send(operation, given, deadline - time.monotonic())
            while (meta := self._answers.get_task_meta(task_id, cache=False))["status"] not in states.READY_STATES:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise CommandTimeout(operation=operation, seconds=self._timeout)
                time.sleep(min(pause, left))
                pause = min(pause * 1.5, LATER_LOOK_SECONDS)
            with suppress(RedisError, OSError):  # the answer is here; the broker drops it by itself later
                self._answers.forget(task_id)
        if meta["status"] == states.REVOKED:  # it lay in the queue for too long; nothing was done
            raise CommandTimeout(operation=operation, seconds=self._timeout)
        if meta["status"] != states.SUCCESS:
            raise CommandLost(operation=operation)
        return cast(dict[str, Any], meta["result"])

    def _send(self, operation: str, given: dict[str, Any], seconds: float) -> str:
        with self._producers.acquire(block=True, timeout=max(0.001, seconds)) as producer:
            sent = self._app.send_task(
                wire.COMMAND,
                args=(operation, given),
                producer=producer,
                exchange=EXCHANGE,
                routing_key=commands_key(self._shard),
                declare=[commands_queue_of(self._shard)],
                argsrepr=f"({operation!r}, …)",  # events and Flower never show what was said
                kwargsrepr="{}",
                expires=seconds,
            )
        return str(sent.id)


class _InParts:
    """A client that is asked about any number of roots: a restore, or what was interrupted, can have more than a call takes."""

    def __init__(self, client: KnowledgeClient) -> None:
        self.job, self.item = client.job, client.item
        self._client = client

    def status_counts(self, base_id: BaseId, root_ids: Sequence[ItemId]) -> StatusCounts:
        leaves, containers = Counter[ItemStatus](), Counter[ItemStatus]()
        for part in _parts(root_ids):
            found = self._client.status_counts(base_id, part)
            leaves.update(found.leaves)
            containers.update(found.containers)
        return StatusCounts(leaves, containers)

    def failures(self, base_id: BaseId, root_ids: Sequence[ItemId]) -> Sequence[Item]:
        return [item for part in _parts(root_ids) for item in self._client.failures(base_id, part)]


def _parts(roots: Sequence[ItemId]) -> Iterator[Sequence[ItemId]]:
    """As many roots as one call takes; one empty part if there are none, since none means the whole base elsewhere."""
    for start in range(0, max(1, len(roots)), wire.MAX_ENTRIES):
        yield roots[start : start + wire.MAX_ENTRIES]


def _size(arguments: dict[str, Any]) -> int:
    """In bytes, as a message. Raises `InvalidInput` for what no message could hold."""
    try:
        return len(json.dumps(arguments))
    except (TypeError, ValueError) as error:  # of a type that nothing here has, or a number of thousands of digits
        raise InvalidInput(f"These arguments cannot be sent: {error}.") from error


def _require_shard(shard: object) -> str:
    if isinstance(shard, str) and re.fullmatch(SHARD_PATTERN, shard):
        return shard
    raise InvalidInput("shard is one word of small letters, digits and hyphens, as a queue is named.", field="shard")


def _require_seconds(name: str, seconds: object) -> float:
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds <= MAX_TIMEOUT_SECONDS:
        return float(seconds)
    raise InvalidInput(f"{name} must be more than 0 and at most {MAX_TIMEOUT_SECONDS:,} seconds.", field=name)


def _subject(receipt: RECEIPTS) -> tuple[BaseId, list[ItemId]]:
    match receipt:
        case RestoreReceipt():
            return receipt.base.id, [item.id for item in receipt.items]
        case AddReceipt():
            return receipt.base_id, [*(item.id for item in receipt.items), *receipt.gone]
        case _:
            return receipt.base_id, list(receipt.root_ids)


@contextmanager
def _broker() -> Iterator[None]:
    try:
        yield
    except (OperationalError, RedisError, LimitExceeded, OSError) as error:
        raise BrokerUnavailable(str(error)) from error
