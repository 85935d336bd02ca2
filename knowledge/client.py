"""KnowledgeClient: the thin caller. Needs the broker's address and nothing else: no database, no index, no files.

Each method is the service's method of the same name, run by the fleet; results and errors come back as the same classes.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self, TypeVar, cast

from celery import Celery
from celery.exceptions import TimeoutError as NoAnswer
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from knowledge.errors import BrokerUnavailable, CommandTimeout, InvalidInput
from knowledge.model import wire
from knowledge.model.ids import BaseId, ItemId, JobId
from knowledge.model.inputs import BaseInput, BasePatch, BaseQuery, ItemInput, Strategy
from knowledge.model.jobs import Job, JobStatus
from knowledge.model.results import (
    AddReceipt,
    BasePage,
    Chunk,
    DeleteReceipt,
    Group,
    ItemPage,
    JobPage,
    Preview,
    ReindexReceipt,
    RestoreReceipt,
    SearchAnswer,
    StatusCounts,
    Why,
    WorkerView,
)
from knowledge.model.status import ItemStatus, ItemType
from knowledge.model.views import Base, Item
from knowledge.topology import EXCHANGE, commands_key, commands_queue_of

T = TypeVar("T")

POLL_SECONDS: Final = 0.25
_OPTIONS: Final = {
    "socket_timeout": 5,
    "socket_connect_timeout": 2,
    "socket_keepalive": True,
}


@dataclass(frozen=True, slots=True)
class Waited:
    """How accepted work ended."""

    counts: StatusCounts
    failures: Sequence[Item]
    seconds: float


class KnowledgeClient:
    """Speaks to a fleet through its broker. One client may be used by several threads.

    Args:
        broker_url: the fleet's Redis or Valkey, password included.
        shard: the workers that answer; they must see the files that are added.
        timeout_seconds: how long each method waits for its answer.

    Every method raises kinds of `KnowledgeError` only: those of the service, `BrokerUnavailable`, and `CommandTimeout` when no
    answer came in time (the operation may be done all the same; give adds an idempotency key and ask again).
    """

    def __init__(self, broker_url: str, *, shard: str = "main", timeout_seconds: float = 30.0) -> None:
        self._shard = shard
        self._timeout = timeout_seconds
        self._app = Celery("knowledge-client", broker=broker_url, backend=broker_url, set_as_current=False)
        self._app.conf.update(
            task_serializer="json",
            result_serializer="json",
            accept_content=["json"],
            result_expires=600,
            broker_transport_options=_OPTIONS,
            redis_socket_timeout=timeout_seconds + 5,
            redis_socket_connect_timeout=2,
            task_publish_retry_policy={"max_retries": 1, "interval_start": 0.1, "interval_step": 0.1, "interval_max": 0.2},
        )

    def close(self) -> None:
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
        """Paths are the fleet's, below its import roots."""
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

    def reindex_items(self, base_id: BaseId, item_ids: Sequence[ItemId], *, allow_empty: bool = False) -> ReindexReceipt:
        return self._call("reindex_items", ReindexReceipt, base_id=base_id, item_ids=list(item_ids), allow_empty=allow_empty)

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

    def failures(self, base_id: BaseId, root_ids: Sequence[ItemId] | None = None, *, limit: int = 100) -> Sequence[Item]:
        return self._call("failures", list[Item], base_id=base_id, root_ids=root_ids and list(root_ids), limit=limit)

    def chunks(self, base_id: BaseId, item_id: ItemId) -> Sequence[Chunk]:
        return self._call("chunks", list[Chunk], base_id=base_id, item_id=item_id)

    def preview(self, item_id: ItemId, *, characters: int = 2_000) -> Preview:
        return self._call("preview", Preview, item_id=item_id, characters=characters)

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
        receipt: AddReceipt | DeleteReceipt | ReindexReceipt,
        on_progress: Callable[[StatusCounts], None] | None = None,
        *,
        timeout_seconds: float | None = None,
    ) -> Waited:
        """Until nothing of the receipt is being worked on any more.

        Raises:
            CommandTimeout: it is not done in time; the work goes on.
        """
        began = time.monotonic()
        roots = [item.id for item in receipt.items] if isinstance(receipt, AddReceipt) else list(receipt.root_ids)
        while True:
            counts = self.status_counts(receipt.base_id, roots)
            if on_progress is not None:
                on_progress(counts)
            if counts.is_settled and not self._still_to_begin(receipt):
                return Waited(counts, self.failures(receipt.base_id, roots), time.monotonic() - began)
            if timeout_seconds is not None and time.monotonic() - began >= timeout_seconds:
                raise CommandTimeout("The work is not done yet; it goes on.", seconds=timeout_seconds)
            time.sleep(POLL_SECONDS)

    def _still_to_begin(self, receipt: AddReceipt | DeleteReceipt | ReindexReceipt) -> bool:
        """A reindex changes no status before its job has the sources."""
        if not isinstance(receipt, ReindexReceipt) or receipt.job_id is None:
            return False
        return self.job(receipt.job_id).status in (JobStatus.PENDING, JobStatus.RUNNING)

    def _call(self, operation: str, result: type[T], **arguments: Any) -> T:
        given = {name: value for name, value in arguments.items() if value is not None}
        size = len(json.dumps(given))
        if size > wire.MAX_COMMAND_BYTES:
            raise InvalidInput("This is too much for the broker; add it as a file.", bytes=size, most=wire.MAX_COMMAND_BYTES)
        try:
            pending = self._app.send_task(
                wire.COMMAND,
                args=(operation, given),
                exchange=EXCHANGE,
                routing_key=commands_key(self._shard),
                declare=[commands_queue_of(self._shard)],
                argsrepr=f"({operation!r}, …)",  # events and Flower never show what was said
                kwargsrepr="{}",
                expires=self._timeout,
            )
            answer = pending.get(timeout=self._timeout)
            pending.forget()
        except NoAnswer as error:
            raise CommandTimeout(operation=operation, seconds=self._timeout) from error
        except (OperationalError, RedisError, OSError) as error:
            raise BrokerUnavailable(str(error)) from error
        if "error" in answer:
            raise wire.load_error(answer["error"])
        return cast(T, wire.load(answer["ok"], result))
