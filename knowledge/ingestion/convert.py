"""knowledge.check-file-processing-result: one look at the conversion of a file; the first one begins it.

An index job that finds a file it cannot read as it is hands over to two rows: this check, and an index job that may run only
when the check has succeeded (`pass_on`). A look that finds the conversion unfinished puts its own row back; the one that finds
the result places it beside the file, and ends its row and frees the next in the same commit.

Nothing waits here, and no look takes more than seconds: the work is done by a process of its own, or by a server. What is known
of it lies in the row's `progress` and in a folder beside raw/ (`conversions.py`). A conversion that is lost is parked, never
begun again by itself: the row says `began`, on the disk, before it is begun, and its ticket is kept in both places. A look that
finds `began` goes on with the ticket from either, and parks the item if there is none.
"""

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Never

from knowledge import clock
from knowledge.catalog import items, jobs, paths, status
from knowledge.db.engine import Tx
from knowledge.errors import ConversionFault, ConversionTimeout, SourceFault
from knowledge.files.paths import derived
from knowledge.files.store import Staged
from knowledge.ingestion import capture, conversions
from knowledge.ingestion.placing import free_path, placing
from knowledge.ingestion.run import PutBack, Run
from knowledge.model.documents import SourceFile
from knowledge.model.ids import ItemId
from knowledge.model.item_data import DataKey
from knowledge.model.jobs import Job, JobSpec
from knowledge.model.status import ACTIVE, INDEXING_INTERRUPTED, ItemStatus
from knowledge.model.views import Item
from knowledge.pipeline.conversion.port import Converted, FileProcessor, Lost, NoRoom, Order, Ticket, Waiting
from knowledge.runtime import Runtime

log = logging.getLogger(__name__)

FIRST_LOOK_SECONDS: Final = 1.0  #: a picture of one page is read by then; later looks are further apart


@dataclass(frozen=True, slots=True)
class Needed:
    """A file has to be converted before it can be indexed."""

    processor: str
    media_type: str


def pass_on(tx: Tx, job: Job, item_id: ItemId, needed: Needed) -> None:
    """Put the item back to work: its check and, after it, its index job. The caller ends its own row in this transaction."""
    if status.begin(tx, item_id, ItemStatus.PROCESSING) is None:
        return  # a delete won the race
    check = JobSpec.check_file_processing_result(
        job.base_id, item_id, job.id, processor=needed.processor, media_type=needed.media_type
    )
    index = JobSpec.index_documents(job.base_id, item_id, job.id, converted=True)
    jobs.enqueue_chain(tx, [check, index], shard=job.shard)


def place_result(rt: Runtime, tx: Tx, item_id: ItemId, staged: Staged) -> str:
    """Put Markdown beside the file that it was made of; the path. The base lock is held, the caller makes it durable."""
    item = items.get(tx, item_id)
    path = item.indexed_path or _free_path(rt, tx, item)
    rt.files.publish(staged, path, overwrite=True)
    items.set_indexed_path(tx, item_id, path)
    return path


def forget_result(tx: Tx, item: Item) -> None:
    """The file is read itself now; the caller removes the Markdown after the commit."""
    assert item.indexed_path is not None
    items.set_indexed_path(tx, item.id, None)
    items.set_data(tx, item.id, **{DataKey.CONVERTED_SHA256: None})
    paths.release(tx, item.base_id, item.id, item.indexed_path)


def has_result(rt: Runtime, job: Job, item: Item) -> bool:
    """Whether the Markdown of an earlier conversion will do: a backfill needs vectors, not news, and OCR takes its time."""
    if item.indexed_path is None or item.relative_path is None or DataKey.CONVERTED_SHA256 not in item.data:
        return False
    with rt.db.read() as tx:
        if not jobs.is_backfill(tx, job):
            return False
    if not rt.files.exists(item.base_id, item.indexed_path):
        return False
    with rt.files.local(item.base_id, item.relative_path) as stored:
        return _digest(stored) == item.data[DataKey.CONVERTED_SHA256]


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def run(rt: Runtime, run: Run) -> None:
    """One delivery of knowledge.check-file-processing-result."""
    job = run.job
    with rt.db.read() as tx:
        item = items.find_wanted(tx, job.only_item)
    if item is None or item.status not in ACTIVE:  # deleted, or parked because its index job was cancelled
        return _withdraw(rt, run)
    try:
        processor = rt.processors.get(str(job.input["processor"]))
        if "began" not in job.progress:
            _begin(rt, run, item, processor)
        ticket: Any = job.progress.get("ticket")
        if ticket is None:
            ticket = conversions.kept_ticket(rt, job.base_id, job.id)
        if ticket is None:
            return _abandon(rt, run, "Whether its conversion began is not known.")
        _look(rt, run, processor, ticket)
    except (
        ConversionFault,
        SourceFault,
    ) as error:  # what else may happen leaves the conversion to the next look, or to the sweep
        if not error.transient:
            conversions.stop(rt, job.base_id, job.id)
        raise


def _withdraw(rt: Runtime, run: Run) -> None:
    conversions.stop(rt, run.job.base_id, run.job.id)
    with rt.db.write() as tx:
        jobs.cancel(tx, run.job, jobs.CANCELLED)


def _begin(rt: Runtime, run: Run, item: Item, processor: FileProcessor) -> Never:
    """Begin the conversion and come back later. Raises `PutBack`."""
    job = run.job
    assert item.relative_path is not None  # it was read, or it would not be known that it must be converted
    with rt.files.local(item.base_id, item.relative_path) as stored:
        work = conversions.make(rt, item.base_id, job.id, stored)
    source = SourceFile(path=work / conversions.SOURCE, name=capture.file_name(item), media_type=str(job.input["media_type"]))
    conversions.keep_ticket(work, processor.name, None)
    began = clock.seconds()
    known = {"stage": "converting", "processor": processor.name, "began": began, "looks": 0}
    run.keep(known, durable=True)
    try:
        ticket = processor.start(Order(source, work, rt.options.conversion_seconds))
    except NoRoom:
        conversions.stop(rt, job.base_id, job.id)
        looks = int(str(job.progress.get("looks", 0))) + 1
        progress = {"stage": "queued", "processor": processor.name, "looks": looks}
        raise PutBack(_delay_seconds(rt, looks - 1), None, progress) from None
    except ConversionFault as error:
        conversions.stop(rt, job.base_id, job.id)
        since = float(str(job.progress.get("since", began)))
        error.transient = error.transient and began - since <= rt.options.conversion_seconds
        if not error.transient:
            raise
        progress = {"stage": "not reached", "processor": processor.name, "since": since, "trouble": str(error)}
        raise PutBack(rt.options.conversion_poll_seconds, None, progress) from None
    try:
        conversions.keep_ticket(work, processor.name, ticket)
    except OSError as error:  # the row will do
        log.warning("ticket not kept in its folder", extra={"item": item.id, "reason": error.strerror})
    run.keep({**known, "ticket": dict(ticket)})
    log.info("conversion began", extra={"item": item.id, "processor": processor.name})
    raise PutBack(_delay_seconds(rt, 0))


def _look(rt: Runtime, run: Run, processor: FileProcessor, ticket: Ticket) -> None:
    """See how it stands: place the result, or come back later. Raises `PutBack`."""
    job, known = run.job, run.job.progress
    work = conversions.place(rt, job.base_id, job.id)
    trouble: Mapping[str, Any] = {}
    try:
        answer = processor.poll(ticket, work)
    except Lost:
        return _abandon(rt, run, "The process that converted it was lost.")
    except ConversionFault as error:
        if not error.transient:
            raise
        answer, trouble = Waiting("not reached"), {"trouble": str(error)}
    if isinstance(answer, Converted):
        return _take(rt, run, answer)
    if clock.seconds() - float(str(known["began"])) > rt.options.conversion_seconds:
        raise ConversionTimeout(seconds=rt.options.conversion_seconds, processor=processor.name)
    looks = int(str(known["looks"])) + 1
    kept = {"processor": known["processor"], "ticket": dict(ticket), "began": known["began"]}
    told = {name: value for name, value in (("done", answer.done), ("of", answer.of)) if value is not None}
    run.keep({**kept, "stage": "converting", "looks": looks, "step": answer.stage, **told, **trouble})
    raise PutBack(_delay_seconds(rt, looks))


def _delay_seconds(rt: Runtime, looks: int) -> float:
    return min(rt.options.conversion_poll_seconds, FIRST_LOOK_SECONDS * 2.0 ** min(looks, 16))


def _take(rt: Runtime, run: Run, answer: Converted) -> None:
    """Place the result beside the file and let the index job follow."""
    job = run.job
    digest = _digest(conversions.place(rt, job.base_id, job.id) / conversions.SOURCE)
    staged = rt.files.stage_file(job.base_id, answer.artefact)
    try:
        with rt.locks.base(job.base_id), placing(rt, job.base_id) as placed, rt.db.write(durable=True) as tx:
            jobs.require_ours(tx, job)
            item = items.find_wanted(tx, job.only_item)
            if item is None:  # a delete won the race
                jobs.cancel(tx, job, jobs.CANCELLED)
            else:
                path = place_result(rt, tx, item.id, staged)
                if item.indexed_path is None:
                    placed.append(path)
                rt.files.sync(job.base_id, [path])
                items.set_data(tx, item.id, **{DataKey.CONVERTED_SHA256: digest})
                jobs.finish(tx, job)
    finally:
        rt.files.discard([staged])
    conversions.stop(rt, job.base_id, job.id)


def _abandon(rt: Runtime, run: Run, message: str) -> None:
    """Whether it is begun again is for a person to say."""
    conversions.stop(rt, run.job.base_id, run.job.id)
    detail = {"message": message, "processor": run.job.input["processor"]}
    with rt.db.write() as tx:
        jobs.cancel(tx, run.job, jobs.JOB_ABANDONED)
        status.park_unfinished(tx, run.job, INDEXING_INTERRUPTED, detail)
    log.warning("conversion lost")


def _free_path(rt: Runtime, tx: Tx, item: Item) -> str:
    """A name beside the file that no item has and the disk does not hold, reserved for this item."""
    assert item.relative_path is not None
    folder, _, name = derived(item.relative_path).rpartition("/")
    return free_path(rt, tx, item.base_id, item.id, name, folder=folder)
