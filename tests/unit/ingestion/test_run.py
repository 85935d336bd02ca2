"""One run: what its flow may ask, and how each end is settled, once for every job."""

import threading
import time
from datetime import timedelta

import pytest

from knowledge.catalog import jobs
from knowledge.catalog.rows import JOB
from knowledge.db.columns import utc_now
from knowledge.errors import (
    CancelRequested,
    CorruptSource,
    DatabaseBusy,
    Draining,
    EmbedderSlowDown,
    EmbedderUnavailable,
    LeaseLost,
    Stalled,
)
from knowledge.ingestion import claims
from knowledge.ingestion.run import PutBack, Run, perform
from knowledge.ingestion.stall import settle_stalled
from knowledge.model.jobs import STUCK_BACKOFF_SECONDS, JobStatus, JobType
from knowledge.model.status import ItemStatus
from knowledge.process import this_process

FAILED, DELETING = ItemStatus.FAILED, ItemStatus.DELETING
PENDING, CANCELLED = JobStatus.PENDING, JobStatus.CANCELLED


@pytest.fixture
def index_run(house, base):
    (item,) = house.notes(base, "lighthouse")
    return house.claim(house.job_of(item))


@pytest.fixture
def delete_run(house, base):
    (item,) = house.notes(base, "lighthouse")
    house.service.delete_items(base.id, [item.id])
    return house.claim(house.job_of(item))


def ends(house, run, error):
    def flow(rt, running):
        raise error

    perform(run, flow)
    return house.service.job(run.job.id)


def item_of(house, run):
    return house.item(run.job.item_ids[0])


ABANDON_ENDS = [
    (CancelRequested(), CANCELLED, "cancelled", FAILED, "indexing_interrupted"),
    (Draining(), CANCELLED, "job_abandoned", FAILED, "indexing_interrupted"),
    (Stalled(), JobStatus.FAILED, "stalled", FAILED, "stalled"),
    (CorruptSource(), JobStatus.FAILED, "corrupt", FAILED, "corrupt"),
    (PutBack(7), PENDING, None, ItemStatus.PROCESSING, None),
    (EmbedderSlowDown(retry_after_seconds=7), PENDING, "embedder_slow_down", ItemStatus.PROCESSING, None),
    (DatabaseBusy(), PENDING, "database_busy", ItemStatus.PROCESSING, None),
    (EmbedderUnavailable(), PENDING, "embedder_unavailable", ItemStatus.PROCESSING, None),
    (KeyError("a bug"), PENDING, "internal_error", ItemStatus.PROCESSING, None),
    (MemoryError(), PENDING, "internal_error", ItemStatus.PROCESSING, None),
    (LeaseLost(), JobStatus.RUNNING, None, ItemStatus.PROCESSING, None),
]


@pytest.mark.parametrize(
    ("error", "job_status", "job_error", "item_status", "item_error"), ABANDON_ENDS, ids=lambda v: type(v).__name__
)
def test_how_an_abandon_job_ends(house, index_run, error, job_status, job_error, item_status, item_error):
    """Row and item agree in one commit: an active item always has an active job."""
    job, item = ends(house, index_run, error), item_of(house, index_run)

    assert (job_status, job_error, item_status, item_error) == (job.status, job.error, item.status, item.error)


@pytest.mark.parametrize(
    "error",
    [Draining(), Stalled(), CorruptSource(), PutBack(0), EmbedderUnavailable(), DatabaseBusy(), KeyError("a bug")],
    ids=lambda value: type(value).__name__,
)
def test_a_retry_job_is_never_given_up(house, delete_run, error):
    """Whatever ends its run, it waits to run again, and what it deletes stays `deleting`."""
    job = ends(house, delete_run, error)

    assert (PENDING, DELETING) == (job.status, item_of(house, delete_run).status)


def test_a_retry_job_that_was_asked_to_stop_is_closed(house, delete_run):
    """Its base is being deleted: nothing of it shall go on."""
    assert CANCELLED is ends(house, delete_run, CancelRequested()).status


@pytest.mark.parametrize(
    "error",
    [PutBack(0), EmbedderSlowDown(), EmbedderUnavailable(), DatabaseBusy(), KeyError("a bug"), CorruptSource(), Draining()],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("kind", ["index_run", "delete_run"])
def test_asked_to_stop_wins_over_every_other_end(house, base, request, kind, error):
    """The row ends now; it neither waits nor stays running until its lease is over."""
    run = request.getfixturevalue(kind)
    with house.db.write() as tx:
        jobs.cancel_base(tx, base.id)
    job = ends(house, run, error)

    assert job.status in (CANCELLED, JobStatus.FAILED)
    assert item_of(house, run).status in (FAILED, DELETING)


def test_back_off_doubles_and_ends_stuck(house, delete_run):
    """2, 4, 8 … seconds, a minute at most; from the eighth trouble on a quarter of an hour."""
    expected = [2, 4, 8, 16, 32, 60, 60, STUCK_BACKOFF_SECONDS, STUCK_BACKOFF_SECONDS]
    run = delete_run
    for wait in expected:
        before = utc_now()
        job = ends(house, run, EmbedderUnavailable())
        after = utc_now()
        house.hasten()
        run = house.claim(job)

        assert before + timedelta(seconds=wait) <= job.scheduled_at <= after + timedelta(seconds=wait)


def test_ends_are_refused_to_a_run_that_lost_its_row(house, index_run):
    """Settling quietly does nothing; the new owner's row is untouched."""
    with house.db.write() as tx:
        jobs.put_back(tx, index_run.job, delay_seconds=0)
    new = house.claim(index_run.job.id)
    job = ends(house, index_run, CorruptSource())

    assert (JobStatus.RUNNING, new.job.run_token) == (job.status, job.run_token)
    assert FAILED is not item_of(house, index_run).status


def test_a_job_has_three_executions_in_all(house, base):
    """Errors count, whatever kind; losses, waits and busy times do not."""
    (item,) = house.notes(base, "lighthouse")
    errors = [KeyError(), PutBack(0), EmbedderUnavailable(), EmbedderSlowDown(), DatabaseBusy(), KeyError()]
    for error in errors:
        job = ends(house, house.claim(house.job_of(item)), error)
        house.hasten()

    assert (JobStatus.FAILED, "internal_error") == (job.status, job.error)
    assert 3 == house.item(item).error_detail["attempt"]


# checkpoints


def test_a_checkpoint_lets_healthy_work_pass(index_run):
    """No exception, and the catalogue is read once a second at most."""
    for _ in range(1000):
        index_run.checkpoint()


def test_a_run_past_its_lease_stops_by_its_own_clock(make_house):
    """Even if it cannot reach the catalogue: nobody knows who owns the row now."""
    house = make_house(lease_seconds=0.05)
    (item,) = house.notes(house.base(), "lighthouse")
    run = house.claim(house.job_of(item))
    until = time.monotonic() + 20

    def passes():
        try:
            run.checkpoint()
        except LeaseLost:
            return False
        return time.monotonic() < until

    while passes():
        time.sleep(0.005)
    with pytest.raises(LeaseLost):
        run.checkpoint()


def test_renewal_prolongs_and_tells_progress(house, index_run):
    """The row shows what the run does; the flag of a stop comes back with it."""
    before = index_run.job.lease_until
    index_run.tell("embedding", done=3, of=9)
    assert index_run.renew()
    job = house.service.job(index_run.job.id)

    assert {"stage": "embedding", "done": 3, "of": 9} == job.progress
    assert job.lease_until >= before


def test_a_cancel_is_seen_at_the_next_renewal(house, base, index_run):
    """And stops the run at its next checkpoint."""
    with house.db.write() as tx:
        jobs.cancel_base(tx, base.id)
    index_run.renew()

    with pytest.raises(CancelRequested):
        index_run.checkpoint()


def test_before_a_paid_request_the_row_is_read_at_once(house, base, index_run):
    """Nothing takes a payment back."""
    with house.db.write() as tx:
        jobs.cancel_base(tx, base.id)

    with pytest.raises(CancelRequested):
        index_run.checkpoint(look=True)


def test_a_planned_stop_leaves_time_until_it_is_over(house, index_run):
    """Before the deadline work goes on, after it the run drains; either way no further job is claimed."""
    me = this_process()
    with house.db.write() as tx:
        jobs.stamp_drain(tx, me.host, [me.pid], utc_now() + timedelta(minutes=1))
    index_run.renew()
    index_run.checkpoint()
    assert index_run.is_draining
    with house.db.write() as tx:
        jobs.stamp_drain(tx, me.host, [me.pid], utc_now())
    index_run.renew()

    with pytest.raises(Draining):
        index_run.checkpoint()


def test_a_stage_without_progress_stalls(make_house):
    """The time between two checkpoints is bounded."""
    house = make_house(stall_seconds=0.0)
    (item,) = house.notes(house.base(), "lighthouse")
    run = house.claim(house.job_of(item))

    with pytest.raises(Stalled):
        run.checkpoint()


@pytest.mark.parametrize(("kind", "status"), [("index_run", JobStatus.FAILED), ("delete_run", PENDING)])
def test_a_hanging_run_is_settled_from_outside(house, request, kind, status):
    """Abandon: failed as `stalled` with its item; retry: put back. A second time changes nothing."""
    run = request.getfixturevalue(kind)
    settle_stalled(run)
    first = house.service.job(run.job.id)
    settle_stalled(run)

    assert (status, "stalled") == (first.status, first.error)
    assert first == house.service.job(run.job.id)


def test_a_hanging_retry_run_that_was_asked_to_stop_is_closed(house, base, delete_run):
    """It must not wait with a cancel request."""
    with house.db.write() as tx:
        jobs.cancel_base(tx, base.id)
    settle_stalled(delete_run)

    assert CANCELLED is house.service.job(delete_run.job.id).status


# claims


def test_a_message_delivered_twice_runs_once(house, base):
    """While it runs, and after it has ended."""
    (item,) = house.notes(base, "lighthouse")
    job_id = house.job_of(item).id
    run = house.claim(job_id)
    again = claims.claim(house.rt, job_id)
    perform(run, lambda rt, running: None)

    assert again is None
    assert isinstance(run, Run)
    assert claims.claim(house.rt, "nobody") is None


def test_a_redelivered_message_of_a_lost_abandon_run_parks_it(house, index_run):
    """The broker brings the message back after the machine died: the item is parked, never run again."""
    house.age(index_run.job.id, lease_until=1)

    assert claims.claim(house.rt, index_run.job.id) is None
    assert (FAILED, "indexing_interrupted") == (item_of(house, index_run).status, item_of(house, index_run).error)


def test_a_redelivered_message_of_a_lost_retry_run_starts_it_again(house, delete_run):
    """At once, as a new run of the same row."""
    house.age(delete_run.job.id, lease_until=1)
    again = claims.claim(house.rt, delete_run.job.id)

    assert again.job.id == delete_run.job.id
    assert (1, True) == (again.job.losses, again.job.run_token != delete_run.job.run_token)


def test_a_run_that_renews_its_lease_just_in_time_is_not_taken_for_lost(house, index_run, monkeypatch):
    """Between the claim that was refused and the look at its row."""
    house.age(index_run.job.id, lease_until=1)
    attempt = claims._try

    def renewing(rt, job_id):
        answer = attempt(rt, job_id)
        index_run.renew()
        return answer

    monkeypatch.setattr(claims, "_try", renewing)

    assert claims.claim(house.rt, index_run.job.id) is None
    assert (JobStatus.RUNNING, ItemStatus.PROCESSING) == (
        house.service.job(index_run.job.id).status,
        item_of(house, index_run).status,
    )


def test_a_lost_run_of_a_busy_base_is_left_to_the_sweep(make_house):
    """The message is dropped without an error; the row stays for the sweep."""
    house, other = make_house(), make_house()
    (item,) = house.notes(house.base(), "lighthouse")
    run = house.claim(house.job_of(item))
    house.age(run.job.id, lease_until=1)

    with other.rt.locks.base(item.base_id):
        found = []
        claimer = threading.Thread(target=lambda: found.append(claims.claim(house.rt, run.job.id)))
        claimer.start()
        claimer.join()

    assert [None] == found
    assert JobStatus.RUNNING is house.service.job(run.job.id).status


def test_a_chain_takes_the_waiting_jobs_of_its_base_and_type_only(house, base):
    """One at a time, in the slot just left."""
    items = house.notes(base, *(f"note {number}" for number in range(7)))
    other = house.notes(house.base(), "elsewhere")
    run = house.claim(house.job_of(items[0]))
    assert claims.claim_next(house.rt, run.job) is None
    perform(run, lambda rt, running: finish(rt, running))
    following = claims.claim_next(house.rt, run.job)

    assert (items[5].id,) == following.job.item_ids
    assert claims.claim_next(house.rt, run.job) is None
    assert PENDING is house.job_of(other[0]).status


def finish(rt, run):
    with rt.db.write() as tx:
        jobs.finish(tx, run.job)


def test_jobs_of_a_base_are_of_one_kind_in_the_ledger(house, base, docs):
    """Each row carries the track and recovery of its type."""
    (root,) = house.add(base, docs)
    house.service.delete_items(base.id, [root.id])
    with house.db.read() as tx:
        rows = {row.type: (row.track.value, row.recovery.value) for row in tx.execute(JOB.select())}

    assert {JobType.PREPARE_ROOT: ("index", "abandon"), JobType.DELETE_SUBTREE: ("control", "retry")} == rows
