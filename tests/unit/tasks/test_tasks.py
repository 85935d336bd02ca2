"""The Celery shells, in process: options, chains, leases, heartbeats."""

import os
import threading
from contextlib import suppress
from types import SimpleNamespace

import pytest
from celery import Celery, _state, current_app
from celery.exceptions import Ignore

from knowledge.catalog import jobs, workers
from knowledge.catalog.rows import WORKER
from knowledge.errors import DatabaseBusy
from knowledge.ingestion import run as runs
from knowledge.ingestion.boot import ParkPending
from knowledge.ingestion.run import Run
from knowledge.model.jobs import KINDS, JobStatus, JobType
from knowledge.model.status import ItemStatus
from knowledge.pipeline.conversion.docling import DoclingProcessor
from knowledge.process import this_process
from tasks import check_file_processing_result, delete_subtree, index_documents, job, lease, prepare_root, process, signals
from tasks import heartbeat as beats
from tasks.heartbeat import Heartbeat
from tasks.lease import LeaseKeeper
from tests.fakes.docling_server import FakeDocling
from tests.scans import scan
from tests.waiting import PATIENCE_SECONDS, eventually

LEASE_SECONDS = 1.5
TASKS = {
    JobType.PREPARE_ROOT: prepare_root.prepare_root,
    JobType.INDEX_DOCUMENTS: index_documents.index_documents,
    JobType.CHECK_FILE_PROCESSING_RESULT: check_file_processing_result.check_file_processing_result,
    JobType.DELETE_SUBTREE: delete_subtree.delete_subtree,
}


@pytest.fixture
def working(house, monkeypatch):
    """The house as this process's runtime, below a Celery application without a broker."""
    monkeypatch.setattr(process, "_runtime", None)
    before = _state.default_app
    app = Celery("tests")
    app.knowledge_runtime = lambda *, pooled: house.rt
    app.set_current()
    app.set_default()  # what other threads see, as in a worker
    yield house
    app.close()
    _state.set_default_app(before)


@pytest.mark.parametrize("kind", sorted(TASKS))
def test_options_say_what_happens_after_a_loss(kind):
    """The name and the recovery are those of the job table; the broker never repeats a lost task; nobody stores results."""
    task = TASKS[kind]

    assert (kind.value, KINDS[kind].recovery) == (task.name, task.recovery)
    assert (True, False, True, 0) == (task.acks_late, task.reject_on_worker_lost, task.ignore_result, task.max_retries)
    assert (None, None) == (task.time_limit, task.soft_time_limit)


def test_one_delivery_goes_on_with_the_waiting_jobs_of_its_base(working):
    """All seven notes of a base by one message; another base's note waits for its own."""
    base, other = working.base(), working.base()
    items = working.notes(base, *(f"note {number}" for number in range(7)))
    (elsewhere,) = working.notes(other, "elsewhere")
    index_documents.index_documents(working.job_of(items[0]).id)

    done = [working.item(item).status is ItemStatus.COMPLETED for item in items]
    assert [True, False, False, False, False, True, True] == done
    assert ItemStatus.PROCESSING is working.item(elsewhere).status


def test_a_chain_ends_after_its_second(working, monkeypatch):
    """Others must have their turn; what is left gets messages."""
    monkeypatch.setattr(job, "CHAIN_SECONDS", 0.0)
    base = working.base()
    items = working.notes(base, *(f"note {number}" for number in range(7)))
    index_documents.index_documents(working.job_of(items[0]).id)

    assert 1 == sum(working.item(item).status is ItemStatus.COMPLETED for item in items)
    assert 6 == len(working.sender.sent)


@pytest.mark.parametrize("job_id", ["nobody", ""])
def test_a_message_of_nothing_is_dropped(working, job_id):
    """No error, no work."""
    index_documents.index_documents(job_id)


def test_directories_and_deletes_run_by_their_tasks(working, tmp_path):
    """From the folder to the last byte removed."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("lighthouse")
    base = working.base()
    (root,) = working.add(base, tmp_path / "docs")
    prepare_root.prepare_root(working.job_of(root).id)
    for waiting in working.jobs(JobStatus.PENDING):
        index_documents.index_documents(waiting.id)
    assert ItemStatus.COMPLETED is working.item(root).status
    working.service.delete_items(base.id, [root.id])
    delete_subtree.delete_subtree(working.job_of(root).id)
    assert [] == working.items(base)


def test_only_the_look_that_finds_the_result_lets_the_chain_go_on(make_house, monkeypatch, tmp_path):
    """A look that finds the conversion unfinished, and one of a row that is over, end as ignored: the next link is not sent."""
    with FakeDocling() as docling:
        house = make_house(processors=[DoclingProcessor(url=docling.url)], conversion_poll_seconds=0.01)
        monkeypatch.setattr(process, "_runtime", (os.getpid(), house.rt))
        base = house.base(file_processor="docling")
        (item,) = house.add(base, scan(tmp_path / "scan.pdf", "Ring the bell"))
        index_documents.index_documents(house.job_of(item).id)
        (check,) = [job for job in house.jobs() if job.type is JobType.CHECK_FILE_PROCESSING_RESULT]
        look = check_file_processing_result.check_file_processing_result
        for _ in range(2):  # begun, then pending
            with pytest.raises(Ignore):
                look(check.id)
            house.hasten()
        look(check.id)

        assert JobStatus.COMPLETED is house.service.job(check.id).status
        assert look(check.id) is None  # its message twice: the chain goes on, and its next link finds a row that is over
        with pytest.raises(Ignore):
            look("nobody")


# lease


@pytest.fixture
def quick(make_house):
    """Leases of 1.5 s, renewed every quarter of a second: a machine with other work may let a thread wait for long."""
    return make_house(lease_seconds=LEASE_SECONDS)


def claimed(house):
    (item,) = house.notes(house.base(), "lighthouse")
    return house.claim(house.job_of(item))


def test_a_lease_is_kept_as_long_as_the_flow_works(quick):
    """Longer than the lease itself; the row shows progress."""
    run = claimed(quick)
    keeper = LeaseKeeper()
    with keeper.keeping(run):
        run.tell("reading", page=3)
        first = run.job.lease_until

        def is_renewed():
            run.checkpoint()
            seen = quick.service.job(run.job.id)
            return (seen.lease_until - first).total_seconds() > 2 * LEASE_SECONDS and seen

        seen = eventually(is_renewed, "two leases")

    assert (JobStatus.RUNNING, {"stage": "reading", "page": 3}) == (seen.status, seen.progress)


def test_nobody_renews_after_the_flow_has_ended(quick):
    """The lease of a run that nobody settled runs out, so that the sweep finds it."""
    run = claimed(quick)
    keeper = LeaseKeeper()
    with keeper.keeping(run):
        pass

    def is_over():
        with quick.db.read() as tx:
            return jobs.expired(tx, runs.utc_now())

    eventually(is_over, "the lease is over")


@pytest.mark.parametrize("error", [DatabaseBusy, RuntimeError])
def test_a_renewal_that_fails_is_tried_again(quick, monkeypatch, error):
    """Whatever it was: the thread lives, and the next renewal keeps the row."""
    run = claimed(quick)
    renew = Run.renew
    tries = []

    def sometimes(self):
        tries.append(1)
        if len(tries) == 1:
            raise error("as ordered")
        return renew(self)

    monkeypatch.setattr(Run, "renew", sometimes)
    with LeaseKeeper().keeping(run):
        eventually(lambda: quick.service.job(run.job.id).lease_until > run.job.lease_until, "a renewal")


def test_a_run_that_hangs_is_settled_by_the_keeper(make_house):
    """Its job fails as `stalled` although its own thread never comes back."""
    house = make_house(lease_seconds=0.3, stall_seconds=0.1)
    run = claimed(house)
    with LeaseKeeper().keeping(run):
        eventually(lambda: house.service.job(run.job.id).status is JobStatus.FAILED, "the job has failed")

    assert "stalled" == house.item(run.job.only_item).error


def test_the_keeper_keeps_the_run_that_follows_one_that_hung(quick, monkeypatch):
    """The hung one came back while it was settled, and the next one has begun: that is renewed."""
    hung = claimed(quick)
    hung.progressed_at -= quick.rt.options.stall_seconds + 1
    keeper = LeaseKeeper()
    is_settling, has_next = threading.Event(), threading.Event()

    def settle(run):
        is_settling.set()
        assert has_next.wait(PATIENCE_SECONDS)

    monkeypatch.setattr(lease, "settle_stalled", settle)
    with keeper.keeping(hung):
        assert is_settling.wait(PATIENCE_SECONDS)
    following = claimed(quick)
    with keeper.keeping(following):
        has_next.set()
        eventually(lambda: quick.service.job(following.job.id).lease_until > following.job.lease_until, "a renewal")


def test_the_keeper_serves_one_run_after_the_other(quick):
    """A thousand short jobs and then a long one: the long one is renewed."""
    keeper = LeaseKeeper()
    short = claimed(quick)
    for _ in range(1000):
        with keeper.keeping(short):
            pass
    long = claimed(quick)
    with keeper.keeping(long):
        eventually(lambda: quick.service.job(long.job.id).lease_until > long.job.lease_until, "a renewal")
    assert 1 == sum(thread.name == "lease" and thread._target == keeper._keep for thread in threading.enumerate())


# heartbeat


@pytest.fixture
def heartbeat(working, monkeypatch):
    monkeypatch.setattr(workers, "HEARTBEAT_SECONDS", 0.05)
    monkeypatch.setattr(beats, "AGAIN_SECONDS", 0.02)
    beating = Heartbeat("index@here", ["knowledge.main"])
    yield beating
    beating.stop()


def test_a_worker_tells_that_it_lives_and_that_it_leaves(working, heartbeat):
    """With its queues; after an orderly stop it is not there any more."""
    heartbeat.start()
    (seen,) = eventually(working.service.workers, "a heartbeat")
    heartbeat.stop()

    assert ("index@here", ("knowledge.main",), True) == (seen.name, tuple(seen.queues), seen.is_alive)
    assert [] == working.service.workers()


def test_a_worker_that_finds_another_broker_clears_the_marks(working, heartbeat):
    """The broker has lost its memory; every waiting job is sent again. A broker that was only away for a while has not."""
    (item,) = working.notes(working.base(), "lighthouse")
    heartbeat._beat(working.rt)
    working.rt.dispatch.publish_all_due()
    working.sender.is_away = True
    heartbeat._beat(working.rt)
    working.sender.is_away = False
    heartbeat._beat(working.rt)
    kept = working.job_of(item).published_at
    working.sender.run_id = "second"
    heartbeat._beat(working.rt)

    assert kept is not None
    assert working.job_of(item).published_at is None


@pytest.mark.parametrize("error", [DatabaseBusy, RuntimeError])
def test_a_heartbeat_that_fails_is_followed_by_the_next(working, heartbeat, monkeypatch, error):
    """A worker must not fall silent because of one bad moment."""
    beat = workers.beat
    tries = []

    def sometimes(*arguments):
        tries.append(1)
        if len(tries) == 1:
            raise error("as ordered")
        return beat(*arguments)

    monkeypatch.setattr(workers, "beat", sometimes)
    heartbeat.start()

    assert eventually(working.service.workers, "a heartbeat after the bad one")


def test_another_workers_row_is_not_removed(working, heartbeat):
    """A new process of the same name may have written it meanwhile."""
    heartbeat._beat(working.rt)
    with working.db.write() as tx:
        tx.execute(WORKER.update().values(pid=this_process().pid + 1))
    with suppress(RuntimeError):
        heartbeat.stop()

    assert 1 == len(working.service.workers())


def test_a_worker_that_cannot_report_for_work_does_not_start(working, make_house, monkeypatch):
    """Its boot may have to park what waits; a worker that begins without that could spend."""
    busy = make_house(busy_timeout_seconds=0.05)
    monkeypatch.setattr(process, "_runtime", (os.getpid(), busy.rt))
    current_app.knowledge_park_pending = ParkPending.BILLED

    with working.db.write(), pytest.raises(SystemExit, match="does not start"):
        signals._report("index@here", SimpleNamespace(max_memory_per_child=None))


def test_a_signal_handler_does_not_wait_for_the_transaction_that_it_interrupted(working, heartbeat, monkeypatch):
    """A stop that comes while the main thread writes: the handler returns, and the jobs are told when the write is done."""
    (item,) = working.notes(working.base(), "lighthouse")
    run = working.claim(working.job_of(item))
    current_app.knowledge_drain_seconds = 60
    heartbeat.start()
    eventually(working.service.workers, "a heartbeat")
    monkeypatch.setattr(signals, "_heartbeat", heartbeat)
    with working.db.write():
        signals._drain()

    def told():
        with working.db.read() as tx:
            return jobs.standing(tx, run.job).drain_until

    assert eventually(told, "the running job is told of the stop")


@pytest.fixture
def stopping(working, heartbeat, monkeypatch):
    """A worker of this process whose stop can be begun; and what each job knows of it."""
    current_app.knowledge_drain_seconds = 60
    heartbeat.start()
    eventually(working.service.workers, "a heartbeat")
    monkeypatch.setattr(signals, "_heartbeat", heartbeat)

    def told(run):
        with working.db.read() as tx:
            return jobs.standing(tx, run.job).drain_until

    return told


def test_a_job_that_begins_after_the_signal_is_told_of_the_stop(working, stopping):
    """Its message was on its way to its process; else it would run to its end, however far that is."""
    first, second = working.notes(working.base(), "one", "two")
    early = working.claim(working.job_of(first))
    signals._drain()
    eventually(lambda: stopping(early), "the first job is told")
    late = working.claim(working.job_of(second))

    assert eventually(lambda: stopping(late), "the second job is told") == stopping(early)


@pytest.mark.parametrize("error", [DatabaseBusy, RuntimeError])
def test_a_stop_that_cannot_be_told_at_once_is_told_later(working, stopping, monkeypatch, error):
    """The catalogue is busy for as long as it likes."""
    (item,) = working.notes(working.base(), "lighthouse")
    run = working.claim(working.job_of(item))
    stamp, tries = jobs.stamp_drain, []

    def sometimes(*arguments):
        tries.append(1)
        if len(tries) < 4:
            raise error("as ordered")
        stamp(*arguments)

    monkeypatch.setattr(jobs, "stamp_drain", sometimes)
    signals._drain()

    assert eventually(lambda: stopping(run), "the job is told")


def test_a_second_signal_does_not_prolong_the_first(working, stopping):
    """Whoever is in a hurry gets no longer wait."""
    (item,) = working.notes(working.base(), "lighthouse")
    run = working.claim(working.job_of(item))
    signals._drain()
    until = eventually(lambda: stopping(run), "the job is told")
    current_app.knowledge_drain_seconds = 600
    signals._drain()

    assert until == stopping(run)


def test_a_worker_that_stops_goes_on_telling_that_it_lives(working, stopping, heartbeat):
    """A long drain is no death."""
    signals._drain()
    with working.db.write() as tx:
        tx.execute(WORKER.delete())

    assert eventually(working.service.workers, "a heartbeat")


def test_no_child_is_forked_while_the_heartbeat_talks(working, heartbeat):
    """The fork waits until the catalogue and the broker have answered; the child holds no lock of a thread it does not have."""
    talking, answered, order = threading.Event(), threading.Event(), []

    def call(rt):
        talking.set()
        answered.wait(PATIENCE_SECONDS)
        order.append("answered")

    heartbeat.start()
    heartbeat.ask(call)
    assert talking.wait(PATIENCE_SECONDS)
    threading.Timer(0.1, answered.set).start()
    child = os.fork()
    if child == 0:
        os._exit(0)
    order.append("forked")
    os.waitpid(child, 0)

    assert "answered" == order[0]
    assert "forked" in order
