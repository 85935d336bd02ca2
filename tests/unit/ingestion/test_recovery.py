"""The sweep: what was lost is settled, what is healthy is left alone."""

import os
import signal
import subprocess
import sys
import threading
from datetime import timedelta

import pytest

from knowledge.catalog import bases, jobs, orphans, workers
from knowledge.catalog.rows import BASE, ITEM, JOB, JOB_ITEM, WORKER
from knowledge.db.columns import utc_now
from knowledge.errors import StorageFailed
from knowledge.files.local import LocalRawFiles
from knowledge.ingestion import index, recovery
from knowledge.ingestion.run import perform
from knowledge.model.ids import BaseId
from knowledge.model.jobs import JobSpec, JobStatus, JobType, Owner
from knowledge.model.status import ItemStatus
from knowledge.pipeline.vectorstore.sqlite.store import SqliteIndexStore
from knowledge.process import began, this_process
from tests.rows import new_folder, new_item
from tests.waiting import PATIENCE_SECONDS

COMPLETED, FAILED, PROCESSING, DELETING = (
    ItemStatus.COMPLETED,
    ItemStatus.FAILED,
    ItemStatus.PROCESSING,
    ItemStatus.DELETING,
)
ELSEWHERE = Owner("another-host", 1, 1.0)


@pytest.fixture
def dead():
    """An owner on this host whose process is certainly gone."""
    me = this_process()
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return Owner(me.host, child.pid, me.started + 1)


@pytest.fixture
def lost(house, base):
    """A note whose job runs elsewhere under a lease that is over."""
    (item,) = house.notes(base, "lighthouse")
    return item, claimed_by(house, item, ELSEWHERE, lease_over=True)


def claimed_by(house, item, owner, *, lease_over=False):
    with house.db.write() as tx:
        job = jobs.claim(tx, house.job_of(item).id, owner, 60, 5)
    if lease_over:
        house.age(job.id, lease_until=1)
    return house.service.job(job.id)


def enqueue(house, spec):
    with house.db.write() as tx:
        return jobs.enqueue(tx, spec, shard="main")


def test_a_lost_run_is_parked_where_a_person_sees_it(house, lost):
    """The row is closed, the item failed with the reason, and nothing runs it again by itself."""
    item, job = lost
    assert recovery.sweep(house.rt)
    found, ended = house.item(item), house.service.job(job.id)

    assert (FAILED, "indexing_interrupted", job.id) == (found.status, found.error, found.error_detail["job_id"])
    assert (JobStatus.CANCELLED, "job_abandoned") == (ended.status, ended.error)
    assert 0 == house.work(hurry=True)


def test_a_lost_delete_goes_on(house, base):
    """Retry jobs are sent again until they converge."""
    (item,) = house.notes(base, "lighthouse")
    house.work()
    house.service.delete_items(base.id, [item.id])
    job = claimed_by(house, item, ELSEWHERE, lease_over=True)
    recovery.sweep(house.rt)

    assert 1 == house.service.job(job.id).losses
    house.work()
    assert not house.exists(item)


@pytest.mark.parametrize("owner", ["me", "elsewhere"])
def test_a_live_lease_is_never_touched(house, base, owner):
    """Neither of this process nor of a host that cannot be asked."""
    (item,) = house.notes(base, "lighthouse")
    job = claimed_by(house, item, this_process() if owner == "me" else ELSEWHERE)
    recovery.sweep(house.rt)
    recovery.settle_dead_of_this_host(house.rt)

    assert JobStatus.RUNNING is house.service.job(job.id).status
    assert PROCESSING is house.item(item).status


@pytest.mark.parametrize("how", ["sweep", "parent", "redelivery"])
def test_a_dead_process_of_this_host_is_not_waited_for(house, base, dead, how):
    """Its lease may last for a minute; that it is dead can be seen now."""
    (item,) = house.notes(base, "lighthouse")
    job = claimed_by(house, item, dead)
    if how == "sweep":
        recovery.sweep(house.rt)
    elif how == "parent":
        recovery.settle_dead_of_this_host(house.rt)
    else:
        assert house.deliver(job.id) is None

    assert (FAILED, "indexing_interrupted") == (house.item(item).status, house.item(item).error)


def test_the_late_run_of_a_settled_job_changes_nothing(house, base):
    """It was only slow: its result is refused, inside and outside the index."""
    (item,) = house.notes(base, "lighthouse")
    run = house.claim(house.job_of(item))
    house.age(run.job.id, lease_until=1)
    recovery.sweep(house.rt)
    perform(run, index.run)

    assert (FAILED, "indexing_interrupted") == (house.item(item).status, house.item(item).error)
    assert 0 == house.rt.index(base).counts().materials


def test_a_run_between_index_and_catalogue_cannot_be_taken(house, base, monkeypatch):
    """Whoever takes a row holds the base lock, which the commit holds as well: both stores agree in the end."""
    (item,) = house.notes(base, "lighthouse")
    run = house.claim(house.job_of(item))
    rebuild = SqliteIndexStore.rebuild_material

    def rebuild_with_a_sweep(store, material):
        rebuild(store, material)
        house.age(run.job.id, lease_until=1)
        sweeper = threading.Thread(target=recovery.sweep, args=(house.rt,))
        sweeper.start()
        sweeper.join()

    monkeypatch.setattr(SqliteIndexStore, "rebuild_material", rebuild_with_a_sweep)
    perform(run, index.run)

    assert (COMPLETED, 1) == (house.item(item).status, house.rt.index(base).counts().materials)


def test_active_items_that_no_job_explains_are_parked_in_one_sweep(house, base):
    """Leaves, halfway folders; folders that were expanded say what their children say."""
    with house.db.write() as tx:
        done = new_folder(tx, base.id)
        leaf = new_item(tx, base.id, done)
        halfway = new_folder(tx, base.id, status=ItemStatus.PREPARING, expanded=False)
        expanded = new_folder(tx, base.id)
        new_item(tx, base.id, expanded, status=COMPLETED)
        idle = new_item(tx, base.id, status=ItemStatus.IDLE)
    recovery.sweep(house.rt)
    found = {one: (house.item(one).status, house.item(one).error) for one in (leaf, done, halfway, expanded, idle)}

    assert {
        leaf: (FAILED, "indexing_interrupted"),
        done: (FAILED, "child_failed"),
        halfway: (FAILED, "indexing_interrupted"),
        expanded: (COMPLETED, None),
        idle: (ItemStatus.IDLE, None),
    } == found


@pytest.mark.parametrize("state", ["waiting", "running", "backing off"])
def test_active_items_with_a_job_are_left_alone(house, base, docs, state):
    """However long it waits; also folders whose ancestor is being expanded."""
    (item, root) = house.add(base, docs / "a.md", docs)
    with house.db.write() as tx:
        inner = new_folder(tx, base.id, root.id, expanded=False)
    for one in (item, root):
        if state != "waiting":
            run = house.claim(house.job_of(one))
        if state == "backing off":
            with house.db.write() as tx:
                jobs.put_back(tx, run.job, delay_seconds=600)
    recovery.sweep(house.rt)

    assert [PROCESSING, ItemStatus.PREPARING, PROCESSING] == [house.item(one).status for one in (item.id, root.id, inner)]


def test_deletes_whose_job_is_gone_are_taken_up_in_groups(house, base):
    """501 roots make two jobs; children of deleting folders and visible folders above are no roots."""
    with house.db.write() as tx:
        visible = new_folder(tx, base.id, status=COMPLETED)
        for _ in range(498):
            new_item(tx, base.id, status=DELETING)
        inside = new_item(tx, base.id, visible, status=DELETING)
        folder = new_folder(tx, base.id, status=DELETING)
        below = new_item(tx, base.id, folder, status=DELETING)
        new_item(tx, base.id, status=DELETING)
    recovery.sweep(house.rt)
    found = [job for job in house.jobs() if job.type is JobType.DELETE_SUBTREE]
    roots = {item_id for job in found for item_id in job.item_ids}

    assert [1, 500] == sorted(len(job.item_ids) for job in found)
    assert {inside, folder} <= roots
    assert below not in roots
    recovery.sweep(house.rt)
    assert 2 == len([job for job in house.jobs() if job.type is JobType.DELETE_SUBTREE])
    house.work()
    assert [visible] == [item.id for item in house.items(base)]


def test_bases_that_were_being_deleted_are_finished(house, docs, monkeypatch):
    """Also if one of them cannot be: the others do not wait for it, and it is tried again."""
    stuck, other = house.base(), house.base()
    house.add(stuck, docs)
    house.add(other, docs)
    with house.db.write() as tx:
        for base in (stuck, other):
            bases.mark_deleting(tx, base.id)
    remove = LocalRawFiles.remove_base

    def sometimes(files, base_id):
        if base_id == stuck.id:
            raise StorageFailed
        remove(files, base_id)

    with monkeypatch.context() as patched:
        patched.setattr(LocalRawFiles, "remove_base", sometimes)
        recovery.sweep(house.rt)
    assert [stuck.id] == [base.id for base in house.service.list_bases(include_deleting=True)]
    recovery.sweep(house.rt)
    assert [] == house.service.list_bases(include_deleting=True)
    assert [] == house.rt.files.base_ids()


def test_a_lost_message_is_sent_again_when_the_queue_is_empty(make_house):
    """Published, not claimed, and nothing waits: the message is gone."""
    house = make_house(republish_seconds=10.0)
    base = house.base()
    (item,) = house.notes(base, "lighthouse")
    house.sender.waiting.clear()
    house.age(house.job_of(item).id, published_at=9)
    recovery.sweep(house.rt)
    early = len(house.sender.sent)
    house.age(house.job_of(item).id, published_at=11)
    recovery.sweep(house.rt)

    assert (1, 2) == (early, len(house.sender.sent))
    assert 2 == house.job_of(item).publishes
    assert 1 == house.work()


def test_a_message_that_only_waits_is_not_doubled(make_house):
    """While the queue holds something, patience; after a quarter of an hour it is sent again all the same."""
    house = make_house(republish_seconds=10.0)
    (item,) = house.notes(house.base(), "lighthouse")
    house.age(house.job_of(item).id, published_at=600)
    recovery.sweep(house.rt)
    patient = len(house.sender.sent)
    house.age(house.job_of(item).id, published_at=901)
    recovery.sweep(house.rt)

    assert (1, 2) == (patient, len(house.sender.sent))


def test_patience_doubles_with_every_message(make_house):
    """A job that is sent again and again is asked for more and more seldom."""
    house = make_house(republish_seconds=10.0)
    (item,) = house.notes(house.base(), "lighthouse")
    job_id = house.job_of(item).id
    with house.db.write() as tx:
        tx.execute(JOB.update().values(publishes=4))
    house.sender.waiting.clear()
    house.age(job_id, published_at=60)
    recovery.sweep(house.rt)
    early = len(house.sender.sent)
    house.age(job_id, published_at=81)
    recovery.sweep(house.rt)

    assert (1, 2) == (early, len(house.sender.sent))


def test_a_silent_broker_is_not_taken_for_an_empty_queue(make_house):
    """Nothing is sent again on a guess."""
    house = make_house(republish_seconds=10.0)
    (item,) = house.notes(house.base(), "lighthouse")
    house.age(house.job_of(item).id, published_at=100)
    house.sender.is_away = True
    recovery.sweep(house.rt)

    assert house.job_of(item).published_at is not None


def test_each_queue_is_asked_once(make_house, monkeypatch):
    """A thousand waiting jobs are no thousand questions to the broker."""
    house = make_house(window=50, republish_seconds=10.0)
    base = house.base()
    for item in house.notes(base, *(f"note {number}" for number in range(40))):
        house.age(house.job_of(item).id, published_at=100)
    asked = []
    monkeypatch.setattr(house.sender, "queue_length", lambda job: asked.append(job) or 0)
    recovery.sweep(house.rt)

    assert 1 == len(asked)


def test_one_broken_step_does_not_stop_the_others(house, lost, monkeypatch):
    """Whatever a step raises; it is logged and tried again."""
    item, _ = lost

    def breaks(tx, now):
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr(jobs, "published_waiting", breaks)
    monkeypatch.setattr(jobs, "prune", lambda tx: seen.append("history"))
    seen = []
    assert recovery.sweep(house.rt)
    assert FAILED is house.item(item).status
    assert ["history"] == seen


def test_one_sweep_and_one_tick_at_a_time(house):
    """Who finds another at it returns at once."""
    with house.rt.locks.single_flight("recovery"), house.rt.locks.single_flight("due-tick"):
        assert not recovery.sweep(house.rt)
        recovery.tick(house.rt)


def test_the_tick_sends_what_has_become_due(house, base):
    """Back-off ends in the ledger, and the tick is its clock."""
    (item,) = house.notes(base, "lighthouse")
    run = house.claim(house.job_of(item))
    with house.db.write() as tx:
        jobs.put_back(tx, run.job, delay_seconds=600)
    house.sender.waiting.clear()
    recovery.tick(house.rt)
    early = len(house.sender.waiting)
    house.hasten()
    recovery.tick(house.rt)

    assert (0, 1) == (early, len(house.sender.waiting))


def test_a_busy_base_is_left_to_the_next_sweep(make_house):
    """Its lost run is settled when the lock is free; other bases are settled now."""
    house = make_house(lock_seconds=0.2)
    other = make_house()
    items = [house.notes(house.base(), "lighthouse")[0] for _ in range(2)]
    for item in items:
        claimed_by(house, item, ELSEWHERE, lease_over=True)
    with other.rt.locks.base(items[0].base_id):
        sweeper = threading.Thread(target=recovery.sweep, args=(house.rt,))
        sweeper.start()
        sweeper.join()
    assert [PROCESSING, FAILED] == [house.item(item).status for item in items]
    recovery.sweep(house.rt)
    assert [FAILED, FAILED] == [house.item(item).status for item in items]


FROZEN = """
import sys
from pathlib import Path
from knowledge.db.engine import Database
from knowledge.locks.file import FileLocks
root, base, holds = Path(sys.argv[1]), *sys.argv[2:]
print("ready", flush=True)
sys.stdin.readline()
with FileLocks(root / "locks", 5).base(base) if holds == "base" else Database(f"sqlite:///{root}/catalogue.sqlite").write():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize(("over_for", "killed"), [(30, False), (61, True)])
@pytest.mark.parametrize("holds", ["base", "catalogue"])
def test_a_frozen_owner_that_keeps_others_out_is_killed(make_house, holds, over_for, killed):
    """Neither renewing nor letting go for a minute: only its end frees the base, or the catalogue, if it was stopped in the
    middle of writing to that (schedule 31:156)."""
    house = make_house(busy_timeout_seconds=0.2)
    base = house.base()
    (item,) = house.notes(base, "lighthouse")
    command = [sys.executable, "-c", FROZEN, house.root, base.id, holds]
    frozen = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert "ready\n" == frozen.stdout.readline()
        owner = Owner(this_process().host, frozen.pid, began(frozen.pid))
        house.age(claimed_by(house, item, owner).id, lease_until=over_for)
        frozen.stdin.write("\n")
        frozen.stdin.flush()
        assert "held\n" == frozen.stdout.readline()
        frozen.send_signal(signal.SIGSTOP)
        os.waitpid(frozen.pid, os.WUNTRACED)
        recovery.sweep(house.rt)
        if killed:
            frozen.wait(PATIENCE_SECONDS)
        ended = frozen.poll()
        frozen.kill()
        frozen.wait(PATIENCE_SECONDS)
        recovery.sweep(house.rt)

        assert (-signal.SIGKILL if killed else None) == ended
        assert (FAILED, "indexing_interrupted") == (house.item(item).status, house.item(item).error)
    finally:
        frozen.kill()
        frozen.communicate()


@pytest.mark.parametrize(("state", "killed"), [("stopped", True), ("running", False)])
def test_a_stopped_owner_whose_job_was_taken_is_killed_after_a_minute(house, base, state, killed):
    """It held no lock, so its job was settled at once; one that goes on finds that out by itself."""
    (item,) = house.notes(base, "lighthouse")
    owner_process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        owner = Owner(this_process().host, owner_process.pid, began(owner_process.pid))
        if state == "stopped":
            owner_process.send_signal(signal.SIGSTOP)
            os.waitpid(owner_process.pid, os.WUNTRACED)
        job = claimed_by(house, item, owner, lease_over=True)
        recovery.sweep(house.rt)
        settled = house.item(item).error
        alive_then = owner_process.poll() is None
        house.age(job.id, finished_at=61)
        recovery.sweep(house.rt)
        if killed:
            owner_process.wait(PATIENCE_SECONDS)

        assert ("indexing_interrupted", True) == (settled, alive_then)
        assert killed == (owner_process.poll() == -signal.SIGKILL)
    finally:
        owner_process.kill()
        owner_process.communicate()


def test_workers_that_fell_silent_are_forgotten_after_a_day(house):
    """And shown as not alive before that."""
    with house.db.write() as tx:
        workers.beat(tx, "index@here", this_process(), ["knowledge.main"], "run")
        fresh = workers.list_all(tx)
        tx.execute(WORKER.update().values(heartbeat_at=utc_now() - timedelta(seconds=16)))
        silent = workers.list_all(tx)
        tx.execute(WORKER.update().values(heartbeat_at=utc_now() - timedelta(days=2)))
    recovery.sweep(house.rt)

    assert [True, False] == [fresh[0].is_alive, silent[0].is_alive]
    with house.db.read() as tx:
        assert [] == workers.list_all(tx)


def test_a_healthy_house_is_not_written_to(house, base, docs):
    """A sweep over finished work changes no row."""
    house.add(base, docs)
    house.work()
    before = _everything(house)
    recovery.sweep(house.rt)

    assert before == _everything(house)


def _everything(house):
    with house.db.read() as tx:
        return [tx.execute(table.select().order_by(*table.primary_key)).all() for table in (BASE, ITEM, JOB, JOB_ITEM)]


def test_the_order_of_work_never_leaves_an_active_item_uncovered(house, base, docs):
    """After every single delivery, of whatever job, nothing is active without an active job."""
    (docs / "bad.pdf").write_bytes(b"%PDF-1.4 and nothing more")
    (root,) = house.add(base, docs)
    house.notes(base, *(f"note {number}" for number in range(4)))
    deleted = False
    while house.sender.waiting:
        house.deliver(house.sender.waiting.popleft())
        if not deleted and len(house.items(base)) > 8:
            house.service.delete_items(base.id, [next(item.id for item in house.items(base) if item.title == "inner")])
            deleted = True
        house.hasten()
        house.rt.dispatch.publish_all_due()
        with house.db.read() as tx:
            assert {} == orphans.leaves_without_job(tx)
            assert {} == orphans.deletes_without_job(tx)

    assert deleted
    assert {COMPLETED, FAILED} == {item.status for item in house.items(base)}


def test_an_unrelated_bases_job_does_not_cover_an_item(house, base):
    """Only a job that names the item explains it."""
    with house.db.write() as tx:
        item = new_item(tx, base.id)
    enqueue(house, JobSpec.index_documents(BaseId(base.id), "another"))
    recovery.sweep(house.rt)

    assert FAILED is house.item(item).status
