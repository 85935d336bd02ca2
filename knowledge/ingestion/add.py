"""Accept files, directories, notes and addresses: all of a call or nothing.

Bytes are copied beside raw/ first. Then, under the base lock, one durable transaction makes names, rows and jobs, and the
bytes are renamed into place inside it; a failure leaves neither rows nor files.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from knowledge.catalog import bases, items, jobs, requests
from knowledge.catalog.requests import Request
from knowledge.db.engine import Tx
from knowledge.errors import InvalidInput
from knowledge.files.store import Staged
from knowledge.ingestion import conflicts, convert
from knowledge.ingestion.incoming import Incoming, check
from knowledge.ingestion.placing import free_path, placing
from knowledge.ingestion.replace import Replacement, stop_those_in_the_way
from knowledge.model.ids import BaseId, ItemId, JobId, new_item_id
from knowledge.model.inputs import ItemInput, Strategy
from knowledge.model.jobs import JobSpec
from knowledge.model.results import AddReceipt, Conflict
from knowledge.model.status import CONTAINERS
from knowledge.runtime import Runtime


def add_items(
    rt: Runtime,
    base_id: BaseId,
    inputs: Sequence[ItemInput],
    *,
    strategy: Strategy = Strategy.RENAME,
    idempotency_key: str | None = None,
) -> AddReceipt:
    """See `KnowledgeService.add_items`.

    Raises:
        InvalidInput: nothing to add. InvalidUrl: an address.
        KeyReused: the idempotency key was used for other inputs.
        PathNotFound, PathUnreadable, PathNotAllowed, UnsupportedSource, BinarySource: one of the paths.
        BaseNotFound, BaseFailed, ModelNotFound, BaseBusy, StorageFull, StorageFailed, DatabaseBusy.
    """
    if not inputs:
        raise InvalidInput("There is nothing to add.")
    with rt.db.read() as tx:
        base = bases.require_runnable(tx, base_id)
    request = Request.of(idempotency_key, inputs)
    if (done := _done(rt, base_id, request)) is not None:
        return _receipt(rt, base_id, done)
    rt.require_embedder(base)
    for one in inputs:
        check(rt, base, one)
    return admit(rt, base_id, [Incoming.of(rt, one) for one in inputs], strategy=strategy, request=request)


def admit(
    rt: Runtime,
    base_id: BaseId,
    incoming: Sequence[Incoming],
    *,
    strategy: Strategy = Strategy.RENAME,
    request: Request | None = None,
) -> AddReceipt:
    """Take in what has been checked."""
    incoming = conflicts.each_page_once(incoming)
    if strategy is Strategy.REPLACE:
        incoming = conflicts.last_of_each(incoming)
    elif (
        strategy is Strategy.DETECT
        and (found := _conflicts(rt, base_id, incoming))
        and _done(rt, base_id, request) is None  # else they are what this request has added
    ):
        return AddReceipt(base_id, [], published=True, conflicts=found)
    with _copied(rt, base_id, incoming) as copies:
        if strategy is Strategy.REPLACE:  # not before the new bytes are here: a source that fails must not cost the old item
            stop_those_in_the_way(rt, base_id, incoming, request)
        with rt.locks.base(base_id):
            accepted = _done(rt, base_id, request)  # the same request may have been faster
            if accepted is None and strategy is Strategy.REPLACE:
                replacement = Replacement(rt, base_id, incoming)
                accepted = _commit(rt, base_id, incoming, copies, request, first=replacement.begin, last=replacement.hold)
                replacement.end(accepted)
            elif accepted is None:
                if strategy is Strategy.DETECT and (found := _conflicts(rt, base_id, incoming)):
                    return AddReceipt(base_id, [], published=True, conflicts=found)
                accepted = _commit(rt, base_id, incoming, copies, request)
    return _receipt(rt, base_id, accepted)


def fill(rt: Runtime, base_id: BaseId, incoming: Sequence[Incoming], reveal: Callable[[Tx], None]) -> list[ItemId]:
    """The items of a base that is being made, and so under its lock.

    Args:
        reveal: shows the base, in the transaction that brings the items.
    """
    with _copied(rt, base_id, incoming) as copies:
        return _commit(rt, base_id, incoming, copies, first=reveal)


@dataclass(frozen=True, slots=True)
class _Copies:
    """Bytes beside raw/, by the position of what they belong to."""

    files: dict[int, Staged] = field(default_factory=dict)
    converted: dict[int, Staged] = field(default_factory=dict)


@contextmanager
def _copied(rt: Runtime, base_id: BaseId, incoming: Sequence[Incoming]) -> Iterator[_Copies]:
    """The bytes of all of them; what was not published is gone after the block."""
    copies = _Copies()
    try:
        for position, one in enumerate(incoming):
            if one.bytes_at is not None:
                copies.files[position] = rt.files.stage_file(base_id, one.bytes_at, one.reach)
            elif one.text is not None:
                copies.files[position] = rt.files.stage_text(base_id, one.text)
            if one.converted_at is not None:
                copies.converted[position] = rt.files.stage_file(base_id, one.converted_at)
        yield copies
    finally:
        rt.files.discard([*copies.files.values(), *copies.converted.values()])


def _done(rt: Runtime, base_id: BaseId, request: Request | None) -> list[ItemId] | None:
    """The items that the same request was given before; None if it is new."""
    if request is None:
        return None
    with rt.db.read() as tx:
        return requests.find(tx, base_id, request)


def _conflicts(rt: Runtime, base_id: BaseId, incoming: Sequence[Incoming]) -> list[Conflict]:
    with rt.db.read() as tx:
        return conflicts.report(tx, base_id, incoming)


def _commit(
    rt: Runtime,
    base_id: BaseId,
    incoming: Sequence[Incoming],
    copies: _Copies,
    request: Request | None = None,
    first: Callable[[Tx], None] | None = None,
    last: Callable[[Tx, list[JobId]], None] | None = None,
) -> list[ItemId]:
    ids = [new_item_id() for _ in incoming]
    with placing(rt, base_id) as placed, rt.db.write(durable=True) as tx:
        if first is not None:
            first(tx)
        base = bases.require_runnable(tx, base_id)
        items.insert(tx, base_id, [_row(item_id, one) for item_id, one in zip(ids, incoming, strict=True)])
        for position, (item_id, one) in enumerate(zip(ids, incoming, strict=True)):
            if one.is_named_later:
                continue
            path = free_path(rt, tx, base_id, item_id, one.name, directory=one.type in CONTAINERS)
            items.set_path(tx, item_id, path)
            if position in copies.files:
                placed.append(path)
                rt.files.publish(copies.files[position], path)
            if position in copies.converted:
                placed.append(convert.place_result(rt, tx, item_id, copies.converted[position]))
        if placed:
            rt.files.sync(base_id, placed)
        specs = [_job(rt, base_id, item_id, one) for item_id, one in zip(ids, incoming, strict=True)]
        job_ids = jobs.enqueue_all(tx, specs, shard=base.shard)
        requests.keep(tx, base_id, request, ids)
        if last is not None:
            last(tx, job_ids)
    return ids


def _receipt(rt: Runtime, base_id: BaseId, accepted: Sequence[ItemId]) -> AddReceipt:
    published = rt.dispatch.publish_due(base_id)
    with rt.db.read() as tx:
        found = items.visible(tx, base_id, accepted)
    gone = [item_id for item_id in accepted if item_id not in found]
    return AddReceipt(base_id, [found[item_id] for item_id in accepted if item_id in found], published, gone=gone)


def _row(item_id: ItemId, one: Incoming) -> items.NewItem:
    return items.NewItem(item_id, one.type, one.source, one.status, data=one.data)


def _job(rt: Runtime, base_id: BaseId, item_id: ItemId, one: Incoming) -> JobSpec:
    if one.type in CONTAINERS:
        return JobSpec.prepare_root(base_id, item_id, confined=rt.reach.is_confined)
    return JobSpec.index_documents(base_id, item_id, converted=one.converted_at is not None)
