"""KnowledgeService: the whole product in one process, one line per public method.

Every method raises kinds of `KnowledgeError` only. Methods that accept work return receipts: committed, not yet done.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from knowledge.bases import bundle, create, enable, patch, restore
from knowledge.bases import delete as delete_base_flow
from knowledge.catalog import bases, coverage, groups, items, jobs, spend, tree, workers
from knowledge.ingestion import add, delete, intervene, reindex
from knowledge.model.ids import BaseId, ItemId, JobId
from knowledge.model.inputs import BaseInput, BasePatch, BaseQuery, ItemInput, Strategy
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
    Why,
    WorkerView,
)
from knowledge.model.status import ItemStatus, ItemType
from knowledge.model.views import Base, Item
from knowledge.pipeline.sources import watch
from knowledge.pipeline.sources.directory import shown
from knowledge.query import chunks, search, why
from knowledge.runtime import Runtime

log = logging.getLogger(__name__)


class KnowledgeService:
    def __init__(self, runtime: Runtime) -> None:
        self.rt = runtime

    # bases -------------------------------------------------------------------------------------------------------------------

    def create_base(self, base: BaseInput) -> Base:
        return create.create_base(self.rt, base)

    def list_bases(self, *, include_deleting: bool = False) -> Sequence[Base]:
        """Every base, newest first, with its item count."""
        with self.rt.db.read() as tx:
            return bases.list_all(tx, include_deleting=include_deleting)

    def find_bases(self, query: BaseQuery) -> BasePage:
        """One page of bases, searched, filtered and sorted."""
        with self.rt.db.read() as tx:
            return bases.page(tx, query)

    def patch_base(self, base_id: BaseId, changes: BasePatch) -> Base:
        """Change settings; new ones count for later indexing only."""
        return self._counted(patch.patch_base(self.rt, base_id, changes))

    def enable_embedder(self, base_id: BaseId, embedder: str) -> Base:
        """Give a base that searches by words alone its first embedder, and index everything in it again."""
        return self._counted(enable.enable_embedder(self.rt, base_id, embedder))

    def restore_base(self, base_id: BaseId, name: str, embedder: str | None) -> RestoreReceipt:
        """Rebuild a base, failed ones included, into a new one; the old one is not changed.

        Its settings come along; a file processor that is not installed (any more) is kept, and named by the files that need it.
        """
        receipt = restore.restore_base(self.rt, base_id, name, embedder)
        return replace(receipt, base=self._counted(receipt.base))

    def import_base(self, bundle_path: Path) -> Base:
        """A base from a bundle; `failed` if its model is not declared or its vectors are unusable.

        A file processor that is not installed here is kept, as for `restore_base`.
        """
        return self._counted(bundle.import_base(self.rt, bundle_path))

    def base(self, id_or_name: str) -> Base:
        """A base by id, else by name if exactly one has it.

        Raises:
            BaseNotFound: none has it.
            InvalidInput: several bases have this name; use the id.
        """
        with self.rt.db.read() as tx:
            return bases.resolve(tx, id_or_name)

    def delete_base(self, base_id: BaseId) -> None:
        """Hide the base at once, stop its jobs, then remove its files, index and rows.

        Raises:
            BaseNotFound, BaseBusy, StorageFailed: after the last two the base stays hidden and recovery finishes it.
        """
        delete_base_flow.delete_base(self.rt, base_id)

    def _counted(self, base: Base) -> Base:
        """As it is shown: flows give it as jobs see it, without its item count."""
        with self.rt.db.read() as tx:
            return bases.counted(tx, base)

    # groups ------------------------------------------------------------------------------------------------------------------

    def create_group(self, name: str) -> Group:
        with self.rt.db.write(durable=True) as tx:
            return groups.create(tx, name)

    def list_groups(self) -> Sequence[Group]:
        with self.rt.db.read() as tx:
            return groups.list_all(tx)

    def rename_group(self, group_id: str, name: str) -> Group:
        with self.rt.db.write(durable=True) as tx:
            return groups.rename(tx, group_id, name)

    def delete_group(self, group_id: str) -> None:
        """Its bases are ungrouped."""
        with self.rt.db.write(durable=True) as tx:
            groups.delete(tx, group_id)

    # items -------------------------------------------------------------------------------------------------------------------

    def add_items(
        self,
        base_id: BaseId,
        inputs: Sequence[ItemInput],
        *,
        strategy: Strategy = Strategy.RENAME,
        idempotency_key: str | None = None,
    ) -> AddReceipt:
        """Accept files, directories, pages, sitemaps and notes; all or none.

        Bytes of files and notes are copied before this returns; folders and archives are read, and pages fetched, by jobs.

        Args:
            strategy: what to do about roots of the same type and name.
            idempotency_key: the same key of a base within a week adds nothing again and gives the same items; with other
                inputs it is refused (`KeyReused`). `strategy` is no part of what it stands for.
        """
        return add.add_items(self.rt, base_id, inputs, strategy=strategy, idempotency_key=idempotency_key)

    def reindex_items(
        self, base_id: BaseId, item_ids: Sequence[ItemId], *, allow_empty: bool = False, only_changed: bool = False
    ) -> ReindexReceipt:
        """Acquire sources again onto their stored paths and index them again; containers are synchronised with their source.

        Args:
            allow_empty: let a source that has become empty empty its container.
            only_changed: of directories and archives, leave completed files alone whose size and time are as they were.
        """
        return reindex.reindex_items(self.rt, base_id, item_ids, allow_empty=allow_empty, only_changed=only_changed)

    def reindex_interrupted(self, base_id: BaseId) -> ReindexReceipt:
        """The same for everything in a base that an interruption, or the loss of its index, left `failed`."""
        return reindex.reindex_interrupted(self.rt, base_id)

    def delete_items(self, base_id: BaseId, item_ids: Sequence[ItemId]) -> DeleteReceipt:
        """Hide these subtrees at once and have their remains removed; allowed in any status."""
        return delete.delete_items(self.rt, base_id, item_ids)

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
        """Directories first, then newest first; `deleting` rows are hidden. `limit` 1..100."""
        with self.rt.db.read() as tx:
            return items.page(
                tx, base_id, group_id=group_id, roots_only=roots_only, type=type, status=status, limit=limit, cursor=cursor
            )

    def item(self, item_id: ItemId) -> Item:
        """One item, also while it is `deleting`."""
        with self.rt.db.read() as tx:
            return items.get(tx, item_id)

    def directory_at(self, base_id: BaseId, path: Path) -> Item | None:
        """The directory that was added from this folder, the newest if there are several; None if there is none."""
        with self.rt.db.read() as tx:
            return items.directory_at(tx, base_id, shown(str(path)))

    def changes_in(
        self, folder: Path, *, quiet_seconds: float = 1.0, poll: bool = False, say: Callable[[str], None] = log.warning
    ) -> Iterator[bool]:
        """See `pipeline.sources.watch.changes`: True when there is a reason to reindex the directory of this folder."""
        return watch.changes(folder, quiet_seconds, poll=poll, say=say)

    def status_counts(self, base_id: BaseId, root_ids: Sequence[ItemId] | None = None) -> StatusCounts:
        """Counts over these subtrees, or over the whole base (then without `deleting` rows). Raises `BaseNotFound`."""
        with self.rt.db.read() as tx:
            bases.get(tx, base_id)
            return tree.status_counts(tx, base_id, root_ids)

    def coverage(self, base_id: BaseId) -> Coverage:
        """How much of what a base holds can be searched. Raises `BaseNotFound`."""
        with self.rt.db.read() as tx:
            bases.get(tx, base_id)
            return coverage.coverage(tx, base_id)

    def failures(self, base_id: BaseId, root_ids: Sequence[ItemId] | None = None, *, limit: int = 100) -> Sequence[Item]:
        """Failed leaves, and containers that failed for a reason of their own, oldest first. `limit` 1..1,000.

        Raises:
            BaseNotFound.
        """
        with self.rt.db.read() as tx:
            bases.get(tx, base_id)
            return tree.failures(tx, base_id, root_ids, limit=limit)

    def chunks(self, base_id: BaseId, item_id: ItemId) -> Sequence[Chunk]:
        """The search units of an item, in the order of its text."""
        return chunks.list_chunks(self.rt, base_id, item_id)

    def preview(self, item_id: ItemId, *, characters: int = 2_000) -> Preview:
        """The beginning of an item's text, as it is searched."""
        return chunks.preview(self.rt, item_id, characters=characters)

    def file_path(self, item_id: ItemId) -> Path:
        """Where the stored copy of a file or page lies on this host. Raises `ItemNotFound`; `InvalidOperation`: it has none."""
        return chunks.file_path(self.rt, item_id)

    def why(self, item_id: ItemId) -> Why:
        """What explains an item's status."""
        return why.explain(self.rt, item_id)

    # search ------------------------------------------------------------------------------------------------------------------

    def search(self, base_id: BaseId, query: str, *, limit: int | None = None) -> SearchAnswer:
        """The passages that answer best. `limit` overrides the base's own count (10 unless set).

        Raises:
            EmptyQuery: nothing in the query can be searched for.
            BaseFailed, BaseNotFound, ModelNotFound, IndexFault.
            EmbedderRefused, EmbedderBadAnswer: of hybrid bases. An embedder that cannot be reached now, or asks to wait, is no
                error: the answer is by words, and its `notices` say why.
        """
        return search.search(self.rt, base_id, query, limit=limit)

    # jobs --------------------------------------------------------------------------------------------------------------------

    def list_jobs(
        self, *, base_id: BaseId | None = None, statuses: Sequence[JobStatus] | None = None, limit: int = 50
    ) -> JobPage:
        """Newest first."""
        with self.rt.db.read() as tx:
            return jobs.page(tx, base_id=base_id, statuses=statuses, limit=limit)

    def job(self, job_id: JobId) -> Job:
        with self.rt.db.read() as tx:
            return jobs.get(tx, job_id)

    def cancel_job(self, job_id: JobId) -> Job:
        """Have a job stop; its items are parked. Deletes cannot be cancelled."""
        return intervene.cancel_job(self.rt, job_id)

    def requeue_job(self, job_id: JobId) -> Job:
        """Have a waiting job go on now."""
        return intervene.requeue_job(self.rt, job_id)

    # the house itself --------------------------------------------------------------------------------------------------------

    def workers(self) -> Sequence[WorkerView]:
        """Worker processes that told of themselves within the last day."""
        with self.rt.db.read() as tx:
            return workers.list_all(tx)

    def spend_total(self, base_id: BaseId) -> spend.SpendTotal:
        """What a base has cost: requests, texts sent, tokens, texts that came from the cache."""
        with self.rt.db.read() as tx:
            return spend.total(tx, base_id)

    def broker_answers(self) -> bool:
        return self.rt.dispatch.broker_answers()

    def close(self) -> None:
        self.rt.close()
