"""Behaviours 115 to 132: the ledger, recovery, boot, paths and the base lock."""

import threading
from contextlib import suppress
from datetime import timedelta

import pytest
from sqlalchemy import select, update

from knowledge.catalog import jobs, status
from knowledge.catalog.rows import JOB
from knowledge.db.columns import utc_now
from knowledge.errors import BaseBusy, InvalidOperation, LeaseLost, UnsafePath
from knowledge.files.paths import guard
from knowledge.ingestion import boot, index, recovery
from knowledge.ingestion.boot import ParkPending
from knowledge.ingestion.run import perform
from knowledge.model.ids import new_item_id
from knowledge.model.inputs import FileInput, Strategy
from knowledge.model.jobs import JobSpec, JobStatus, JobType, Owner, Track
from knowledge.model.status import INDEXING_INTERRUPTED, ItemStatus
from knowledge.process import this_process
from tests.regression.faults import Refused, refusing
from tests.rows import new_folder, new_item
from tests.waiting import PATIENCE_SECONDS, eventually

ELSEWHERE = Owner("another-host", 1, 1.0)


def _lose(house, run):
    """As if the run's process were gone: its lease is over, and its owner is not of this host."""
    with house.db.write() as tx:
        tx.execute(
            update(JOB)
            .where(JOB.c.id == run.job.id)
            .values(owner_host=ELSEWHERE.host, lease_until=utc_now() - timedelta(seconds=1))
        )


def test_115_an_active_job_is_not_made_twice(house, base):
    """The same key gives the same job until it has ended; then a new one."""
    item = new_item_id()
    spec = JobSpec.index_documents(base.id, item)
    with house.db.write() as tx:
        first = jobs.enqueue(tx, spec, shard="main")

        assert first == jobs.enqueue(tx, spec, shard="main")

        jobs.cancel_one(tx, jobs.get(tx, first))

        assert first != jobs.enqueue(tx, spec, shard="main")


def test_116_a_transaction_that_is_rolled_back_leaves_no_job(house, base):
    """Neither a row nor a message."""
    with suppress(RuntimeError), house.db.write() as tx:
        jobs.enqueue(tx, JobSpec.index_documents(base.id, new_item_id()), shard="main")
        raise RuntimeError
    house.rt.dispatch.publish_all_due()

    assert [] == list(house.jobs()) == list(house.sender.waiting)


def test_117_five_index_jobs_of_a_base_are_in_flight(house, base, docs):
    """Of whichever types; deletes are outside, and another base has a window of its own."""
    house.notes(base, *"abcd")
    house.add(base, docs)
    notes = house.notes(base, "e", "f")
    other = house.base()
    house.notes(other, "g")
    house.service.delete_items(base.id, [notes[1].id])

    flying = [house.service.job(job_id) for job_id in house.sender.waiting]
    mine = [job for job in flying if job.base_id == base.id and job.kind.track is Track.INDEX]
    assert 5 == len(mine)
    assert {JobType.INDEX_DOCUMENTS, JobType.PREPARE_ROOT} == {job.type for job in mine}
    assert 1 == len([job for job in flying if job.type is JobType.DELETE_SUBTREE])
    assert 1 == len([job for job in flying if job.base_id == other.id])


@pytest.mark.parametrize("is_deleting", [False, True])
def test_118_a_waiting_job_is_cancelled_at_once(house, base, is_deleting):
    """Its item is parked in the same commit, unless it is being deleted."""
    (note,) = house.notes(base, "note")
    job = house.job_of(note)
    if is_deleting:
        with house.db.write() as tx:
            status.mark_deleting(tx, base.id, [note.id])
    else:
        with refusing(house, "UPDATE ON knowledge_item"), pytest.raises(Refused):
            house.service.cancel_job(job.id)

        assert JobStatus.PENDING is house.service.job(job.id).status

    cancelled = house.service.cancel_job(job.id)

    expected = (ItemStatus.DELETING, None) if is_deleting else (ItemStatus.FAILED, INDEXING_INTERRUPTED)
    assert JobStatus.CANCELLED is cancelled.status
    assert expected == (house.item(note).status, house.item(note).error)
    with pytest.raises(InvalidOperation):
        house.service.cancel_job(job.id)


def test_119_a_job_that_does_not_listen_loses_its_lease(make_house):
    """After the time to settle a delete goes on without it; what it writes late is refused."""
    house = make_house(settle_seconds=0.0)
    base = house.base()
    (note,) = house.notes(base, "note")
    stubborn = house.claim(house.sender.waiting.popleft())
    house.service.delete_items(base.id, [note.id])
    house.work(hurry=True)

    assert not house.exists(note)
    assert (JobStatus.CANCELLED, "lease_revoked") == (
        house.service.job(stubborn.job.id).status,
        house.service.job(stubborn.job.id).error,
    )
    with pytest.raises(LeaseLost):
        index._nothing_to_do(house.rt, stubborn)


def test_120_a_lost_index_job_is_closed_and_never_run_again(house, base):
    """Its item is parked; jobs that only waited go on, unless the start of the first worker parks them."""
    lost, waiting = house.notes(base, "lost", "waiting")
    run = house.claim(house.sender.waiting.popleft())
    _lose(house, run)

    recovery.sweep(house.rt)

    assert (JobStatus.CANCELLED, "job_abandoned") == (house.service.job(run.job.id).status, house.service.job(run.job.id).error)
    assert (ItemStatus.FAILED, INDEXING_INTERRUPTED) == (house.item(lost).status, house.item(lost).error)
    assert house.deliver(run.job.id) is None
    assert JobStatus.PENDING is house.job_of(waiting).status
    boot.report_for_work(house.rt, ParkPending.ALWAYS, "worker", this_process(), ["main"])
    assert JobStatus.CANCELLED is house.job_of(waiting).status
    assert INDEXING_INTERRUPTED == house.item(waiting).error


def test_a_lost_reindex_shows_on_its_roots_and_is_finished_by_one_call(house, base):
    """It had not begun on them; what they had stays searchable, and `reindex_interrupted` finds them."""
    (note,) = house.notes(base, "the lighthouse")
    house.work()
    receipt = house.service.reindex_items(base.id, [note.id])
    _lose(house, house.claim(receipt.job_id))

    recovery.sweep(house.rt)

    assert (ItemStatus.FAILED, INDEXING_INTERRUPTED) == (house.item(note).status, house.item(note).error)
    assert ["the lighthouse"] == [hit.text for hit in house.service.search(base.id, "lighthouse").hits]
    house.service.reindex_interrupted(base.id)
    house.work(hurry=True)
    assert ItemStatus.COMPLETED is house.item(note).status


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_121_a_lost_delete_job_is_run_again(house, base, is_cancelled):
    """A loss uses up no attempt; one that was asked to stop (its base is going) is closed."""
    (note,) = house.notes(base, "note")
    house.work()
    house.service.delete_items(base.id, [note.id])
    run = house.claim(house.sender.waiting.popleft())
    if is_cancelled:
        with house.db.write() as tx:
            jobs.cancel_base(tx, base.id)
    _lose(house, run)

    recovery.sweep(house.rt)

    job = house.service.job(run.job.id)
    assert ((JobStatus.CANCELLED, 0, 0) if is_cancelled else (JobStatus.PENDING, 0, 1)) == (job.status, job.attempt, job.losses)
    house.work(hurry=True)
    assert not house.exists(note)


def test_122_a_live_run_is_left_alone(house, base):
    """Whatever the sweep finds besides."""
    (note,) = house.notes(base, "note")
    run = house.claim(house.sender.waiting.popleft())

    recovery.sweep(house.rt)

    assert JobStatus.RUNNING is house.service.job(run.job.id).status
    assert ItemStatus.PROCESSING is house.item(note).status


def test_123_history_is_pruned_and_active_rows_never(house, base):
    """Rows over a week old, and of the completed ones of each type all but the newest hundred; failed ones stay their week."""
    minutes = [timedelta(minutes=number) for number in range(101)]

    def rows(tx, spec, state, ages):
        ids = jobs.enqueue_all(tx, [spec(base.id, new_item_id()) for _ in ages], shard="main")
        for job_id, age in zip(ids, ages, strict=True):
            then = utc_now() - age
            ended = {} if state is JobStatus.PENDING else {"finished_at": then}
            tx.execute(update(JOB).where(JOB.c.id == job_id).values(status=state, created_at=then, **ended))
        return ids

    with house.db.write() as tx:
        indexed = rows(tx, JobSpec.index_documents, JobStatus.COMPLETED, minutes)
        prepared = rows(tx, JobSpec.prepare_root, JobStatus.COMPLETED, minutes)
        failed = rows(tx, JobSpec.index_documents, JobStatus.FAILED, [*minutes, timedelta(days=8)])
        active = rows(tx, JobSpec.index_documents, JobStatus.PENDING, [timedelta(days=400)])
        jobs.prune(tx)
        left = set(tx.scalars(select(JOB.c.id)))

    assert {*indexed[:-1], *prepared[:-1], *failed[:-1], *active} == left


@pytest.mark.parametrize("state", ItemStatus)
def test_124_active_items_without_a_job_are_parked(house, base, state):
    """Exactly the active statuses; everything else stays as it is."""
    with house.db.write() as tx:
        item = (
            new_folder(tx, base.id, status=state, expanded=False)
            if state is ItemStatus.PREPARING
            else new_item(tx, base.id, status=state)
        )
    recovery.sweep(house.rt)

    is_active = state in ("preparing", "processing", "reading", "embedding")
    expected = (ItemStatus.FAILED, INDEXING_INTERRUPTED) if is_active else (state, "x" if state == "failed" else None)
    assert expected == (house.item(item).status, house.item(item).error)


@pytest.mark.parametrize("mode", ParkPending)
def test_125_a_restart_spends_nothing(paid_house, paid_server, mode):
    """Jobs that waited when everything was stopped are parked where they would cost money."""
    paid, free = paid_house.base("paid"), paid_house.base("hashing")
    (costly,), (cheap,) = paid_house.notes(paid, "costly"), paid_house.notes(free, "cheap")

    boot.report_for_work(paid_house.rt, mode, "worker", this_process(), ["main"])
    paid_house.work()

    parks_paid, parks_free = mode is not ParkPending.NEVER, mode is ParkPending.ALWAYS
    assert (None, INDEXING_INTERRUPTED)[parks_paid] == paid_house.item(costly).error
    assert (None, INDEXING_INTERRUPTED)[parks_free] == paid_house.item(cheap).error
    assert (0 if parks_paid else 1) == paid_server.stats()["requests"]


def test_125_a_second_worker_is_no_restart(house, base):
    """While another one lives, what waits goes on waiting."""
    boot.report_for_work(house.rt, ParkPending.ALWAYS, "first", this_process(), ["main"])
    (note,) = house.notes(base, "note")

    assert not boot.report_for_work(house.rt, ParkPending.ALWAYS, "second", this_process(), ["main"])
    assert ItemStatus.PROCESSING is house.item(note).status


def _unfinished(house):
    recovery.sweep(house.rt)
    return [job for job in house.jobs() if job.type is JobType.DELETE_SUBTREE]


def test_126_unfinished_deletes_are_taken_up_in_groups(house, base):
    """Of five hundred roots each."""
    with house.db.write() as tx:
        for _ in range(501):
            new_item(tx, base.id, status=ItemStatus.DELETING)

    assert [1, 500] == sorted(len(job.item_ids) for job in _unfinished(house))


def test_127_a_deleting_child_of_a_visible_directory_is_taken_up(house, base):
    """It is a root of what must go."""
    with house.db.write() as tx:
        folder = new_folder(tx, base.id, status=ItemStatus.COMPLETED)
        inner = new_folder(tx, base.id, folder, status=ItemStatus.DELETING)
        new_item(tx, base.id, inner, status=ItemStatus.DELETING)

    assert [(inner,)] == [job.item_ids for job in _unfinished(house)]
    house.work()
    assert [folder] == [item.id for item in house.items(base)]


@pytest.mark.parametrize("turn", [0, 1])
def test_128_a_base_that_cannot_be_taken_up_does_not_stop_the_others(house, turn):
    """Whichever comes first."""
    ids = sorted(house.base().id for _ in range(2))
    with house.db.write() as tx:
        for base_id in ids:
            new_item(tx, base_id, status=ItemStatus.DELETING)
    with refusing(house, f"INSERT ON knowledge_job WHEN NEW.base_id = '{ids[turn]}'"):
        taken_up = _unfinished(house)

    assert [ids[1 - turn]] == [job.base_id for job in taken_up]
    assert set(ids) == {job.base_id for job in _unfinished(house)}


@pytest.mark.parametrize(
    "path", ["", ".", "..", "/etc/passwd", "a\x00b", "../x", "a/../../x", "a/..", "a//b", "a/./b", "\ud800"]
)
def test_129_paths_that_leave_the_base_are_refused(house, base, path):
    """Empty, absolute, climbing, with a NUL, or not text; by whatever reaches for a file."""
    files = house.rt.files
    staged = files.stage_text(base.id, "x")
    for reach in (
        lambda: guard(path),
        lambda: files.publish(staged, path),
        lambda: files.sync(base.id, [path]),
        lambda: files.local(base.id, path).__enter__(),
        lambda: files.path(base.id, path),
        lambda: files.exists(base.id, path),
        lambda: files.remove(base.id, [path]),
        lambda: files.remove(base.id, [], [path]),
    ):
        with pytest.raises(UnsafePath):
            reach()


@pytest.mark.parametrize("path", [".knowledge", ".knowledge/index.sqlite", ".KNOWLEDGE/x"])
def test_129_the_folder_of_the_index_is_reserved(path):
    """In any case, whatever the disk makes of it; nested paths are fine."""
    assert "a/b/.knowledge.md" == guard("a/b/.knowledge.md")
    with pytest.raises(UnsafePath) as refusal:
        guard(path)

    assert "reserved" == refusal.value.details["reason"]


def test_130_emptied_folders_go_and_others_stay(house, base):
    """Deepest first, never raw/ itself."""
    files = house.rt.files
    for path in ("docs/sub/a", "docs/b", "other/c", "other/d"):
        files.publish(files.stage_text(base.id, "x"), path)
    files.remove(base.id, ["docs/sub/a", "docs/b", "other/c", "absent/e"])

    raw = house.root / "bases" / base.id / "raw"
    assert ["other", "other/d"] == sorted(str(path.relative_to(raw)) for path in raw.rglob("*"))
    files.remove(base.id, ["other/d"])
    assert (True, []) == (raw.is_dir(), list(raw.iterdir()))


def test_131_the_lock_is_free_after_an_error_and_of_its_own_base(house):
    """A second holder of one base goes on when the first fails, not before; two bases never wait for each other."""
    order, has_tried = [], threading.Event()

    def enter_second():
        try:
            with house.rt.locks.base("one", wait_seconds=0):
                order.append("too early")
        except BaseBusy:
            order.append("busy")
        has_tried.set()
        with house.rt.locks.base("one"):
            order.append("second")

    second = threading.Thread(target=enter_second)
    with suppress(RuntimeError), house.rt.locks.base("one"):
        second.start()
        assert has_tried.wait(PATIENCE_SECONDS)
        with house.rt.locks.base("two", wait_seconds=0):
            order.append("two")
        second.join(0.1)
        order.append("first fails")
        raise RuntimeError
    second.join(PATIENCE_SECONDS)

    assert ["busy", "two", "first fails", "second"] == order


@pytest.mark.parametrize("operation", ["delete", "replace"])
def test_132_no_deadlock_with_a_job_that_waits_for_the_lock(make_house, write, operation):
    """A cancel reaches it there, it finishes, and the operation goes on; no time limit has to end anything."""
    house = make_house(lock_seconds=600.0, settle_seconds=600.0)
    base = house.base()
    (old,) = house.add(base, write("a/x.md", "the old lighthouse"))
    run = house.claim(house.sender.waiting.popleft())

    def operate():
        if operation == "delete":
            house.service.delete_items(base.id, [old.id])
        else:
            house.service.add_items(base.id, [FileInput(path=write("b/x.md", "new"))], strategy=Strategy.REPLACE)

    waits, operates = (
        threading.Thread(target=target, args=arguments, daemon=True)
        for target, arguments in ((perform, (run, index.run)), (operate, ()))
    )
    with house.rt.locks.base(base.id):
        waits.start()
        waits.join(timeout=0.3)
        assert waits.is_alive()
        operates.start()
        if operation == "replace":
            eventually(lambda: house.service.job(run.job.id).cancel_requested_at, "it is asked to stop")
    for thread in (waits, operates):
        thread.join(PATIENCE_SECONDS)

    assert [False, False] == [thread.is_alive() for thread in (waits, operates)]
    assert operation == "delete" or JobStatus.CANCELLED is house.service.job(run.job.id).status
    house.work(hurry=True)
    assert not house.exists(old)
    assert [] == house.jobs(JobStatus.PENDING, JobStatus.RUNNING)
