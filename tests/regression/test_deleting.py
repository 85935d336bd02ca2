"""Behaviours 57 to 72: deleting items and bases."""

import pytest

from knowledge.catalog import bases, jobs
from knowledge.db.columns import utc_now
from knowledge.errors import (
    BaseBusy,
    BaseNotFound,
    DatabaseBusy,
    IndexFault,
    InvalidOperation,
    ItemNotFound,
    ItemNotInBase,
    StorageFailed,
)
from knowledge.ingestion import index, recovery
from knowledge.ingestion.run import perform
from knowledge.model.ids import ItemId, new_item_id
from knowledge.model.inputs import NoteInput
from knowledge.model.jobs import JobSpec, JobStatus, JobType
from knowledge.model.status import ItemStatus
from tests.regression.failed import fail_base
from tests.regression.faults import Refused, hooked, raising, refusing
from tests.rows import new_item


def _child(house, root, name):
    return next(item for item in house.items(root.base_id) if item.title == name)


def _delete_jobs(house):
    return [job for job in house.jobs() if job.type is JobType.DELETE_SUBTREE]


def test_057_nested_and_repeated_picks_collapse(house, root):
    """One job, naming the directory once."""
    child = _child(house, root, "b.md")

    receipt = house.service.delete_items(root.base_id, [child.id, root.id, root.id, child.id])

    assert [root.id] == receipt.root_ids
    assert [(root.id,)] == [job.item_ids for job in _delete_jobs(house)]


def test_058_a_delete_without_its_job_has_not_happened(house, root):
    """Statuses and jobs are as before."""
    (waiting,) = house.notes(house.service.base(root.base_id), "waiting")
    before = house.items(root.base_id), house.jobs()

    with refusing(house, "INSERT ON knowledge_job"), pytest.raises(Refused):
        house.service.delete_items(root.base_id, [root.id, waiting.id])

    assert before == (house.items(root.base_id), house.jobs())


@pytest.mark.parametrize("has_failed", [False, True])
@pytest.mark.parametrize("status", ItemStatus)
def test_059_any_item_can_be_deleted(house, base, status, has_failed):
    """In each of the eight statuses, also in a base that has failed; its name is free again (case 113)."""
    kind = "directory" if status is ItemStatus.PREPARING else "note"
    with house.db.write() as tx:
        item = new_item(tx, base.id, kind=kind, status=status, relative_path="x")
    if has_failed:
        fail_base(house, base)

    house.service.delete_items(base.id, [item])
    house.work()

    assert [] == house.items(base)
    if not has_failed:
        (again,) = house.add(base, NoteInput(content="note", title="x"))
        house.work()
        assert ("x.md", ItemStatus.COMPLETED) == (again.relative_path, house.item(again).status)


def test_060_an_id_that_is_not_there_changes_nothing(house, root):
    """Unknown, or of another base: all such ids are named, and the others stay."""
    other = house.base()
    (foreign,) = house.notes(other, "note")
    unknown = new_item_id()

    with pytest.raises(ItemNotFound) as missing:
        house.service.delete_items(root.base_id, [root.id, unknown, ItemId("")])
    with pytest.raises(ItemNotInBase) as elsewhere:
        house.service.delete_items(root.base_id, [root.id, foreign.id])

    assert {"item_ids": [unknown, ""]} == missing.value.details
    assert {"base_id": root.base_id, "item_ids": [foreign.id]} == elsewhere.value.details
    assert {404} == {missing.value.http_status, elsewhere.value.http_status}
    assert ItemStatus.COMPLETED is house.item(root).status
    assert [] == _delete_jobs(house)


def test_061_jobs_stop_then_vectors_files_rows_go(house, base, root):
    """In this order, also if the job works on something inside what is deleted."""
    leaf = _child(house, root, "b.md")
    house.service.reindex_items(base.id, [leaf.id])
    house.deliver(house.sender.waiting.popleft())
    run = house.claim(house.sender.waiting.popleft())
    house.service.delete_items(base.id, [root.id])
    seen = []

    def look(*_):
        seen.append((house.rt.index(base).counts().materials, len(house.raw(base)), house.exists(leaf)))

    with hooked(house, files={"remove": look}):
        house.deliver(house.sender.waiting.popleft())

        assert ([], 3) == (seen, house.rt.index(base).counts().materials)

        perform(run, index.run)
        house.work(hurry=True)

    assert (JobType.INDEX_DOCUMENTS, JobStatus.CANCELLED) == (run.job.type, house.service.job(run.job.id).status)
    assert (0, 3, True) == seen[0]
    assert ([], []) == (house.raw(base), house.items(base))


def test_062_jobs_of_others_go_on(house, base):
    """A job on an item that is not below what is deleted is left alone, whether it waits or runs."""
    gone, running, waiting = house.notes(base, "gone", "running", "waiting")
    run = house.claim(house.job_of(running))

    house.service.delete_items(base.id, [gone.id])
    house.work()
    perform(run, index.run)

    assert not house.exists(gone)
    assert [ItemStatus.COMPLETED] * 2 == [house.item(kept).status for kept in (running, waiting)]


def test_062_a_reindex_that_names_others_as_well_goes_on_with_them(house, base, write):
    """What is deleted is left out; the rest, which was promised too, is done."""
    gone, kept = house.add(base, write("a.md", "a"), write("b.md", "b"))
    house.work()
    receipt = house.service.reindex_items(base.id, [gone.id, kept.id])
    before = house.item(kept).updated_at

    house.service.delete_items(base.id, [gone.id])
    house.work(hurry=True)

    assert JobStatus.COMPLETED is house.service.job(receipt.job_id).status
    assert not house.exists(gone)
    assert before < house.item(kept).updated_at
    assert ItemStatus.COMPLETED is house.item(kept).status


def test_064_nothing_is_removed_while_a_job_has_not_stopped(house, base, write):
    """The delete job waits for it by coming back; neither vectors, nor files, nor rows are touched."""
    (item,) = house.add(base, write("x.md", "the lighthouse"))
    house.work()
    house.service.reindex_items(base.id, [item.id])
    house.claim(house.sender.waiting.popleft())
    house.service.delete_items(base.id, [item.id])

    house.deliver(house.sender.waiting.popleft())

    (job,) = _delete_jobs(house)
    assert (JobStatus.PENDING, 0) == (job.status, job.attempt)
    assert job.scheduled_at > utc_now()
    assert ItemStatus.DELETING is house.item(item).status
    assert (["x.md"], 1) == (house.raw(base), house.rt.index(base).counts().materials)


def test_065_bytes_that_cannot_be_removed_keep_their_rows(house, root):
    """The purge is repeated until they are gone; meanwhile everything stays hidden."""
    house.service.delete_items(root.base_id, [root.id])
    with hooked(house, files={"remove": raising(StorageFailed("no right"))}):
        house.deliver(house.sender.waiting.popleft())

    assert {ItemStatus.DELETING} == {item.status for item in house.items(root.base_id)}
    assert [] == house.service.search(root.base_id, "lighthouse").hits
    house.work(hurry=True)
    assert [] == house.items(root.base_id)
    assert not (house.root / "bases" / root.base_id / "raw" / "docs").exists()


def test_066_a_failed_purge_is_deleting_never_failed(house, root):
    """However often it fails; the job says that it is stuck."""
    house.service.delete_items(root.base_id, [root.id])
    with hooked(house, indexes={"open": raising(IndexFault("damaged"))}):
        for _ in range(9):
            house.hasten()
            house.rt.dispatch.publish_all_due()
            house.deliver(house.sender.waiting.popleft())

    (job,) = _delete_jobs(house)
    assert {ItemStatus.DELETING} == {item.status for item in house.items(root.base_id)}
    assert (JobStatus.PENDING, True, "index_fault") == (job.status, job.is_stuck, job.error)


def test_067_a_stale_delete_job_touches_nothing_visible(house, root):
    """Rows that are not deleting are none of its business."""
    with house.db.write() as tx:
        jobs.enqueue(tx, JobSpec.delete_subtree(root.base_id, [root.id]), shard="main")
    house.rt.dispatch.publish_all_due()
    house.work()

    assert [ItemStatus.COMPLETED] * 6 == [item.status for item in house.items(root.base_id)]
    assert 3 == len(house.raw(house.service.base(root.base_id)))
    assert "a.md" == house.service.search(root.base_id, "lighthouse rock").hits[0].title


def test_068_overlapping_deletes_do_not_cancel_each_other(house, root):
    """Both complete, in whichever order they run."""
    house.service.delete_items(root.base_id, [_child(house, root, "inner").id])
    house.service.delete_items(root.base_id, [root.id])
    house.sender.waiting.reverse()
    house.work()

    assert [JobStatus.COMPLETED] * 2 == [job.status for job in _delete_jobs(house)]
    assert [] == house.items(root.base_id)


def test_069_the_one_job_among_thousands_is_found(house, base):
    """No page limit hides it."""
    with house.db.write() as tx:
        wanted = new_item(tx, base.id)
        others = [JobSpec.index_documents(base.id, new_item_id()) for _ in range(5001)]
        jobs.enqueue_all(tx, [*others, JobSpec.index_documents(base.id, wanted)], shard="main")

    house.service.delete_items(base.id, [wanted])

    cancelled = house.jobs(JobStatus.CANCELLED)
    assert [(wanted,)] == [job.item_ids for job in cancelled]


def test_070_a_base_goes_in_order(make_house):
    """Its jobs, waiting or running, then its index and files, then its row."""
    house = make_house(settle_seconds=0.0)
    base = house.base()
    running, waiting = house.notes(base, "running", "waiting")
    house.claim(house.job_of(running))
    order = []

    def note(what):
        def remember(*_):
            with house.db.read() as tx:
                order.append((what, {job.status for job in house.jobs()}, bool(bases.ids(tx))))

        return remember

    with hooked(house, indexes={"drop": note("index")}, files={"remove_base": note("files")}):
        house.service.delete_base(base.id)

    assert [("index", {JobStatus.CANCELLED}, True), ("files", {JobStatus.CANCELLED}, True)] == order
    assert not house.exists(waiting)
    assert [] == house.service.list_bases(include_deleting=True)
    assert [] == house.rt.files.base_ids()


def test_071_a_base_whose_artefacts_stay_keeps_its_row(house, root):
    """The error is raised; the base is hidden, refuses everything but delete, and recovery finishes it."""
    other = house.base()
    (kept,) = house.notes(other, "kept")
    with hooked(house, files={"remove_base": raising(StorageFailed("no right"))}), pytest.raises(StorageFailed):
        house.service.delete_base(root.base_id)

    assert [other.id] == [base.id for base in house.service.list_bases()]
    assert {other.id, root.base_id} == {base.id for base in house.service.list_bases(include_deleting=True)}
    for refused in (
        lambda: house.service.search(root.base_id, "lighthouse"),
        lambda: house.service.delete_items(root.base_id, [root.id]),
        lambda: house.service.reindex_items(root.base_id, [root.id]),
        lambda: house.service.list_items(root.base_id),
        lambda: house.service.chunks(root.base_id, root.id),
        lambda: house.service.restore_base(root.base_id, "new", None),
    ):
        with pytest.raises(BaseNotFound):
            refused()
    recovery.sweep(house.rt)
    assert [other.id] == [base.id for base in house.service.list_bases(include_deleting=True)]
    assert house.exists(kept)


@pytest.mark.parametrize("error", [StorageFailed("no right"), BaseBusy(), DatabaseBusy()], ids=lambda error: error.code)
def test_071_whoever_cannot_be_done_with_a_base_says_what_becomes_of_it(house, base, error):
    """The delete was accepted: the same error says that the base is hidden, and who removes it."""
    with hooked(house, files={"remove_base": raising(error)}), pytest.raises(type(error)) as told:
        house.service.delete_base(base.id)

    assert "hidden all the same, and the next sweep removes" in str(told.value)
    recovery.sweep(house.rt)
    assert [] == house.service.list_bases(include_deleting=True)


@pytest.mark.parametrize("by_the_sweep", [False, True])
def test_072_a_row_that_stays_is_finished_by_recovery(house, root, by_the_sweep):
    """Its artefacts are gone already; deleting it again, or the next sweep, completes it."""
    with refusing(house, "DELETE ON knowledge_base"), pytest.raises(Refused):
        house.service.delete_base(root.base_id)

    assert house.service.list_bases(include_deleting=True)[0].deleting_at is not None
    if by_the_sweep:
        recovery.sweep(house.rt)
    else:
        house.service.delete_base(root.base_id)
    with pytest.raises(BaseNotFound):
        house.service.delete_base(root.base_id)
    assert [] == house.service.list_bases(include_deleting=True)


def test_a_delete_is_not_cancelled(house, base):
    """What it hides must go."""
    (note,) = house.notes(base, "note")
    house.service.delete_items(base.id, [note.id])

    with pytest.raises(InvalidOperation):
        house.service.cancel_job(_delete_jobs(house)[0].id)
