"""The ledger: every decision about a job is one compare-and-set, and no two decisions contradict each other."""

from datetime import timedelta

import pytest
from sqlalchemy import func, select, update
from sqlalchemy.exc import IntegrityError

from knowledge.catalog import bases, jobs
from knowledge.catalog.jobs import Refusal, history
from knowledge.catalog.rows import JOB, JOB_ITEM
from knowledge.db.columns import utc_now
from knowledge.errors import CancelRequested, InvalidInput, JobNotFound, LeaseLost
from knowledge.model.ids import BaseId, JobId
from knowledge.model.jobs import KINDS, STUCK_AFTER, STUCK_BACKOFF_SECONDS, JobSpec, JobStatus, JobType, Owner
from tests.rows import new_base, new_folder, new_item

ME = Owner("here", 1, 1.0)
OTHER = Owner("there", 2, 2.0)
PENDING, RUNNING = JobStatus.PENDING, JobStatus.RUNNING
COMPLETED, FAILED, CANCELLED = JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED


@pytest.fixture
def base_id(tx):
    return new_base(tx)


def spec(base_id, item="a", kind=JobType.INDEX_DOCUMENTS, **more):
    items = (item,) if isinstance(item, str) else tuple(item)
    return JobSpec(kind, base_id, items, **more)


def enqueued(tx, base_id, item="a", kind=JobType.INDEX_DOCUMENTS, **more):
    return jobs.enqueue(tx, spec(base_id, item, kind, **more), shard="main")


def claimed(tx, base_id, item="a", kind=JobType.INDEX_DOCUMENTS, owner=ME):
    job = jobs.claim(tx, enqueued(tx, base_id, item, kind), owner, 60, 5)
    assert not isinstance(job, Refusal)
    return job


def ask_to_stop(tx, job):
    tx.execute(update(JOB).where(JOB.c.id == job.id).values(cancel_requested_at=utc_now()))


def follows(tx, job_id, before):
    tx.execute(update(JOB).where(JOB.c.id == job_id).values(after=before))


def taken(tx, base_id, window=5, later=0):
    return [job.id for job in jobs.take_due(tx, base_id, window, utc_now() + timedelta(seconds=later))]


# enqueue


def test_an_active_job_of_the_same_key_is_returned_instead(tx, base_id):
    """Asking twice makes one job; once it has ended, a new one is made."""
    first = enqueued(tx, base_id)
    again = enqueued(tx, base_id)
    jobs.finish(tx, jobs.claim(tx, first, ME, 60, 5))
    later = enqueued(tx, base_id)

    assert first == again
    assert first != later


def test_duplicates_inside_one_call_share_their_job(tx, base_id):
    """Ids come back in the order of the specs, also when two specs mean one job."""
    first, second, third = jobs.enqueue_all(tx, [spec(base_id, "a"), spec(base_id, "b"), spec(base_id, "a")], shard="main")

    assert first == third != second
    assert 2 == tx.scalar(select(func.count()).select_from(JOB))
    assert 2 == tx.scalar(select(func.count()).select_from(JOB_ITEM))


def test_a_spec_that_names_an_item_twice_links_it_once(tx, base_id):
    """A careless caller does not break the transaction."""
    job_id = enqueued(tx, base_id, ["a", "b", "a"], JobType.DELETE_SUBTREE)

    assert ("a", "b") == jobs.get(tx, job_id).item_ids


def test_the_order_of_items_does_not_make_another_job(tx, base_id):
    """A key is canonical."""
    assert enqueued(tx, base_id, ["a", "b"], JobType.DELETE_SUBTREE) == enqueued(
        tx, base_id, ["b", "a"], JobType.DELETE_SUBTREE
    )


def test_base_type_and_parent_make_another_job(tx, base_id):
    """Everything that belongs to the key does."""
    ids = {
        enqueued(tx, base_id),
        enqueued(tx, BaseId("other")),
        enqueued(tx, base_id, kind=JobType.PREPARE_ROOT),
        enqueued(tx, base_id, parent_id=JobId("p")),
    }

    assert 4 == len(ids)


def test_a_running_job_that_was_asked_to_stop_does_not_hold_its_key(tx, base_id):
    """Work asked for again after a cancel gets a job of its own."""
    running = claimed(tx, base_id)
    ask_to_stop(tx, running)

    assert running.id != enqueued(tx, base_id)


def test_a_key_has_a_fixed_length(base_id):
    """Also for 5,000 items; an index entry has a limit elsewhere."""
    assert 64 == len(spec(base_id, [str(number) for number in range(5000)], JobType.DELETE_SUBTREE).idempotency_key)


def test_a_rolled_back_transaction_leaves_no_job(db):
    """Work exists only if the status it explains was committed."""
    with pytest.raises(KeyError):
        _enqueue_and_break(db)

    with db.read() as tx:
        assert 0 == tx.scalar(select(func.count()).select_from(JOB))


def _enqueue_and_break(db):
    with db.write() as tx:
        enqueued(tx, new_base(tx))
        raise KeyError


# window


def test_the_window_is_never_exceeded(tx, base_id):
    """However often it is asked, at most five index jobs of a base are in flight; an end lets one more in."""
    for number in range(8):
        enqueued(tx, base_id, f"i{number}")
    first = taken(tx, base_id)

    assert 5 == len(first)
    assert [] == taken(tx, base_id)
    running = jobs.claim(tx, first[0], ME, 60, 5)
    assert [] == taken(tx, base_id)
    jobs.finish(tx, running)
    assert 1 == len(taken(tx, base_id))


def test_checks_have_a_window_of_their_own_and_deletes_none(tx, base_id):
    """A base full of index work still polls and still deletes."""
    for number in range(7):
        enqueued(tx, base_id, f"i{number}")
        enqueued(tx, base_id, f"c{number}", JobType.CHECK_FILE_PROCESSING_RESULT)
        enqueued(tx, base_id, f"d{number}", JobType.DELETE_SUBTREE)
    kinds = [job.type for job in jobs.take_due(tx, base_id, 5, utc_now())]

    assert [5, 5, 7] == [
        kinds.count(kind) for kind in (JobType.INDEX_DOCUMENTS, JobType.CHECK_FILE_PROCESSING_RESULT, JobType.DELETE_SUBTREE)
    ]


def test_windows_of_different_bases_do_not_touch(tx, base_id):
    """One base's backlog takes nothing from another."""
    other = new_base(tx)
    for number in range(9):
        enqueued(tx, base_id, f"i{number}")
    enqueued(tx, other)
    taken(tx, base_id)

    assert 1 == len(taken(tx, other))


def test_priority_then_age_decide(tx, base_id):
    """Lower priority numbers first, then the order of arrival, also inside one millisecond."""
    late, first, second = (enqueued(tx, base_id, name, priority=rank) for name, rank in (("x", 5), ("y", 0), ("z", 0)))

    assert [first, second, late] == taken(tx, base_id)


def test_what_waits_for_its_time_or_for_another_job_is_not_published(tx, base_id):
    """Back-off and chains live in the ledger, never in the broker."""
    link, check = enqueued(tx, base_id), enqueued(tx, base_id, kind=JobType.CHECK_FILE_PROCESSING_RESULT)
    follows(tx, link, check)
    running = claimed(tx, base_id, "b")
    jobs.put_back(tx, running, delay_seconds=30)

    assert [check] == taken(tx, base_id)
    assert [running.id] == taken(tx, base_id, later=31)


def test_put_back_leaves_the_window(tx, base_id):
    """A job that backs off makes room."""
    for number in range(6):
        enqueued(tx, base_id, f"i{number}")
    first, *_ = taken(tx, base_id)
    jobs.put_back(tx, jobs.claim(tx, first, ME, 60, 5), delay_seconds=30)

    assert 1 == len(taken(tx, base_id))


def test_bases_with_due_work_and_only_those_are_named(tx, base_id):
    """The tick asks bases that have something to send now."""
    idle, waiting = new_base(tx), new_base(tx)
    enqueued(tx, base_id)
    jobs.put_back(tx, claimed(tx, waiting), delay_seconds=30)

    assert [base_id] == jobs.bases_with_due(tx, utc_now())
    assert [True, False, False] == [jobs.has_due(tx, one, utc_now()) for one in (base_id, idle, waiting)]


def test_a_cleared_mark_is_published_again(tx, base_id):
    """What the broker did not take waits as before; a running row keeps its mark."""
    sent, running = enqueued(tx, base_id, "a"), enqueued(tx, base_id, "b")
    taken(tx, base_id)
    jobs.claim(tx, running, ME, 60, 5)
    jobs.clear_published(tx, [sent, running])

    assert [sent] == taken(tx, base_id)
    assert 2 == jobs.get(tx, sent).publishes


def test_a_broker_without_memory_costs_every_waiting_mark(tx, base_id):
    """Only waiting rows had a message to lose."""
    sent, running = enqueued(tx, base_id, "a"), enqueued(tx, base_id, "b")
    taken(tx, base_id)
    jobs.claim(tx, running, ME, 60, 5)

    assert 1 == jobs.clear_all_published(tx)
    assert (None, RUNNING) == (jobs.get(tx, sent).published_at, jobs.get(tx, running).status)


# claim


def test_two_workers_one_run(tx, base_id):
    """A message that arrives twice starts one run."""
    job = claimed(tx, base_id)

    assert Refusal.TAKEN is jobs.claim(tx, job.id, OTHER, 60, 5)
    assert ME == jobs.get(tx, job.id).owner


def test_messages_of_what_cannot_run_are_dropped(tx, base_id):
    """Absent, ended, not due, behind another job, lost: each has its reason."""
    ended, later, behind, lost = (claimed(tx, base_id, name) for name in "abcd")
    jobs.finish(tx, ended)
    jobs.put_back(tx, later, delay_seconds=30)
    jobs.put_back(tx, behind, delay_seconds=0)
    follows(tx, behind.id, later.id)
    tx.execute(update(JOB).where(JOB.c.id == lost.id).values(lease_until=utc_now()))

    assert [Refusal.GONE, Refusal.GONE, Refusal.NOT_YET, Refusal.NOT_YET, Refusal.TAKEN] == [
        jobs.claim(tx, job_id, OTHER, 60, 5) for job_id in ("nobody", ended.id, later.id, behind.id, lost.id)
    ]


def test_a_claim_is_a_lease_from_now_on(tx, base_id):
    """The row says who, since when and until when; each run has a token of its own."""
    job = claimed(tx, base_id)
    jobs.put_back(tx, job, delay_seconds=0)
    again = jobs.claim(tx, job.id, OTHER, 60, 5)

    assert timedelta(seconds=60) == again.lease_until - again.started_at
    assert job.run_token != again.run_token


def test_the_next_job_of_the_base_is_claimed_in_the_slot_just_left(tx, base_id):
    """One at a time, of the same type, inside the window."""
    done = claimed(tx, base_id, "a")
    enqueued(tx, base_id, "b")
    full = [claimed(tx, base_id, f"f{number}") for number in range(4)]

    assert jobs.claim_next(tx, done, ME, 60, 5) is None
    jobs.finish(tx, done)
    following = jobs.claim_next(tx, done, ME, 60, 5)
    assert ("b",) == following.item_ids
    assert following.published_at is not None
    assert jobs.claim_next(tx, full[0], ME, 60, 5) is None


def test_a_chain_does_not_jump_the_queue(tx, base_id):
    """If a job of another type comes first, the delivery ends and the window lets that one in."""
    done = claimed(tx, base_id, "a")
    enqueued(tx, base_id, "root", JobType.PREPARE_ROOT)
    enqueued(tx, base_id, "b")
    jobs.finish(tx, done)

    assert jobs.claim_next(tx, done, ME, 60, 5) is None


@pytest.mark.parametrize("end", ["finish", "put_back"])
def test_a_worker_that_was_told_to_stop_claims_no_further_job(tx, base_id, end):
    """A row claimed after the stop would carry no deadline and could run for ever."""
    job = claimed(tx, base_id)
    enqueued(tx, base_id, "b")
    jobs.stamp_drain(tx, ME.host, [ME.pid], utc_now())
    jobs.finish(tx, job) if end == "finish" else jobs.put_back(tx, job, delay_seconds=0)

    assert jobs.claim_next(tx, job, ME, 60, 5) is None


def test_a_new_run_knows_nothing_of_an_old_stop(tx, base_id):
    """The deadline belonged to the worker that stopped."""
    job = claimed(tx, base_id)
    jobs.stamp_drain(tx, ME.host, [ME.pid], utc_now())
    jobs.put_back(tx, job, delay_seconds=0)
    again = jobs.claim(tx, job.id, OTHER, 60, 5)

    assert jobs.standing(tx, again).drain_until is None


# ownership


ENDS = {
    "finish": lambda tx, job: jobs.finish(tx, job),
    "fail": lambda tx, job: jobs.fail(tx, job, "x", {}),
    "cancel": lambda tx, job: jobs.cancel(tx, job, "x"),
    "put_back": lambda tx, job: jobs.put_back(tx, job, delay_seconds=0),
    "require_ours": lambda tx, job: jobs.require_ours(tx, job),
}


@pytest.mark.parametrize("taken_by", ["another run", "revocation", "the sweep", "an end", "pruning"])
@pytest.mark.parametrize("end", ENDS)
def test_late_writes_of_a_run_that_lost_its_row_are_refused(tx, base_id, end, taken_by):
    """Whoever lost the row can neither end it nor put it back, whatever became of it."""
    old = claimed(tx, base_id)
    if taken_by == "another run":
        jobs.put_back(tx, old, delay_seconds=0)
        jobs.claim(tx, old.id, OTHER, 60, 5)
    elif taken_by == "revocation":
        jobs.revoke(tx, old)
    elif taken_by == "the sweep":
        assert jobs.close_lost(tx, old)
    elif taken_by == "an end":
        jobs.finish(tx, old)
    else:
        tx.execute(JOB.delete())
    before = jobs.find(tx, old.id)

    with pytest.raises(LeaseLost):
        ENDS[end](tx, old)
    assert before == jobs.find(tx, old.id)


def test_a_run_that_lost_its_row_cannot_renew_it(tx, base_id):
    """Renewal answers that the row is not ours and changes nothing."""
    old = claimed(tx, base_id)
    jobs.put_back(tx, old, delay_seconds=0)
    new = jobs.claim(tx, old.id, OTHER, 60, 5)

    assert not jobs.renew(tx, old, 3600, {}).is_ours
    assert new.lease_until == jobs.get(tx, old.id).lease_until


def test_the_sweep_does_not_take_a_row_that_was_renewed_meanwhile(tx, base_id):
    """Between reading and closing the owner may have come back."""
    seen = claimed(tx, base_id)
    jobs.renew(tx, seen, 120, {"stage": "reading"})

    assert not jobs.close_lost(tx, seen)
    assert RUNNING is jobs.get(tx, seen.id).status
    assert {"stage": "reading"} == jobs.get(tx, seen.id).progress


# asked to stop


def test_a_run_that_was_asked_to_stop_is_told_at_its_next_proof(tx, base_id):
    """The flag is seen by renewal and by every commit."""
    job = claimed(tx, base_id)
    ask_to_stop(tx, job)

    assert jobs.renew(tx, job, 60, {}).cancel_requested
    with pytest.raises(CancelRequested):
        jobs.require_ours(tx, job)


@pytest.mark.parametrize("kind", [JobType.INDEX_DOCUMENTS, JobType.DELETE_SUBTREE])
def test_a_run_that_was_asked_to_stop_cannot_be_put_back(tx, base_id, kind):
    """A waiting row with a cancel request must not exist; the run is told to close it."""
    job = claimed(tx, base_id, kind=kind)
    ask_to_stop(tx, job)

    with pytest.raises(CancelRequested):
        jobs.put_back(tx, job, delay_seconds=1)
    jobs.cancel(tx, job, jobs.CANCELLED)
    assert CANCELLED is jobs.get(tx, job.id).status


def test_a_lost_retry_job_that_was_asked_to_stop_meanwhile_is_closed(tx, base_id):
    """The flag counts as it is now, not as it was when the sweep read the row."""
    seen = claimed(tx, base_id, kind=JobType.DELETE_SUBTREE)
    ask_to_stop(tx, seen)

    assert jobs.close_lost(tx, seen)
    assert (CANCELLED, jobs.CANCELLED) == (jobs.get(tx, seen.id).status, jobs.get(tx, seen.id).error)


@pytest.fixture
def tree(tx, base_id):
    folder = new_folder(tx, base_id)
    return {"folder": folder, "leaf": new_item(tx, base_id, folder), "beside": new_item(tx, base_id)}


def test_a_subtree_stops_waiting_jobs_at_once_and_asks_running_ones(tx, base_id, tree):
    """Jobs on the root and below are touched; deletes and neighbours are not."""
    waiting = enqueued(tx, base_id, tree["leaf"])
    running = claimed(tx, base_id, tree["folder"], JobType.PREPARE_ROOT)
    delete = enqueued(tx, base_id, tree["folder"], JobType.DELETE_SUBTREE)
    beside = enqueued(tx, base_id, tree["beside"])
    jobs.cancel_touching(tx, base_id, [tree["folder"]])

    assert [CANCELLED, RUNNING, PENDING, PENDING] == [jobs.get(tx, one).status for one in (waiting, running.id, delete, beside)]
    assert jobs.standing(tx, running).cancel_requested
    assert [running.id] == [job.id for job in jobs.running_touching(tx, base_id, [tree["folder"]])]


def test_asking_again_does_not_move_the_first_request(tx, base_id, tree):
    """How long a job has been asked decides when its lease is revoked."""
    running = claimed(tx, base_id, tree["leaf"])
    jobs.cancel_touching(tx, base_id, [tree["leaf"]])
    first = jobs.get(tx, running.id).cancel_requested_at
    tx.execute(update(JOB).values(cancel_requested_at=first - timedelta(seconds=9)))
    jobs.cancel_touching(tx, base_id, [tree["leaf"]])

    assert first - timedelta(seconds=9) == jobs.get(tx, running.id).cancel_requested_at


def test_a_match_is_found_among_thousands_of_other_jobs(tx, base_id, tree):
    """There is no page limit to what a cancel sees."""
    jobs.enqueue_all(tx, [spec(base_id, f"other{number}") for number in range(5001)], shard="main")
    match = enqueued(tx, base_id, tree["leaf"])
    jobs.cancel_touching(tx, base_id, [tree["leaf"]])

    assert CANCELLED is jobs.get(tx, match).status
    assert 5001 == tx.scalar(select(func.count()).select_from(JOB).where(JOB.c.status == PENDING))


def test_a_base_stops_all_its_jobs_deletes_included(tx, base_id):
    """Nothing of a base that is being deleted may start any more."""
    waiting, delete = enqueued(tx, base_id), enqueued(tx, base_id, kind=JobType.DELETE_SUBTREE)
    running, other = claimed(tx, base_id, "b"), enqueued(tx, new_base(tx))
    jobs.cancel_base(tx, base_id)

    assert [CANCELLED, CANCELLED, RUNNING, PENDING] == [
        jobs.get(tx, one).status for one in (waiting, delete, running.id, other)
    ]
    assert [running.id] == [job.id for job in jobs.running_in(tx, base_id)]


# chains


@pytest.fixture
def chain(tx, base_id):
    check = claimed(tx, base_id, "a", JobType.CHECK_FILE_PROCESSING_RESULT)
    second, third = enqueued(tx, base_id, "a"), enqueued(tx, base_id, "b")
    follows(tx, second, check.id)
    follows(tx, third, second)
    return check, second, third


def test_a_link_that_succeeds_frees_the_next_one_only(tx, base_id, chain):
    """The rest of the chain still waits."""
    check, second, _ = chain
    jobs.finish(tx, check)

    assert [second] == taken(tx, base_id)


@pytest.mark.parametrize("end", ["fail", "cancel", "revoke", "lost"])
def test_a_link_that_does_not_succeed_ends_the_whole_chain(tx, chain, end):
    """No row waits for something that will never be."""
    check, second, third = chain
    {
        "fail": lambda: jobs.fail(tx, check, "x", {}),
        "cancel": lambda: jobs.cancel(tx, check, "x"),
        "revoke": lambda: jobs.revoke(tx, check),
        "lost": lambda: jobs.close_lost(tx, check),
    }[end]()

    assert [CANCELLED, CANCELLED] == [jobs.get(tx, one).status for one in (second, third)]


def test_cancelling_a_waiting_link_cancels_what_follows(tx, base_id):
    """Also when the link itself never ran."""
    item = new_item(tx, base_id)
    first, second = enqueued(tx, base_id, item), enqueued(tx, base_id, "elsewhere")
    follows(tx, second, first)
    jobs.cancel_touching(tx, base_id, [item])

    assert CANCELLED is jobs.get(tx, second).status


# losses


def test_a_lost_abandon_job_is_closed_and_a_lost_retry_job_waits_again(tx, base_id):
    """Recovery is the job's own kind."""
    abandon, retry = claimed(tx, base_id), claimed(tx, base_id, kind=JobType.DELETE_SUBTREE)
    assert jobs.close_lost(tx, abandon)
    assert jobs.close_lost(tx, retry)
    ended, waiting = jobs.get(tx, abandon.id), jobs.get(tx, retry.id)

    assert (CANCELLED, jobs.JOB_ABANDONED) == (ended.status, ended.error)
    assert (PENDING, 1, 0, None) == (waiting.status, waiting.losses, waiting.attempt, waiting.published_at)


def test_losses_wait_longer_and_longer_but_never_for_ever(tx, base_id):
    """At once, then doubling up to the kind's bound; from the eighth on a quarter of an hour, shown as stuck."""
    job_id = enqueued(tx, base_id, kind=JobType.DELETE_SUBTREE)
    delays = []
    for _ in range(STUCK_AFTER + 2):
        tx.execute(update(JOB).values(scheduled_at=utc_now()))
        job = jobs.claim(tx, job_id, ME, 60, 5)
        delays.append(jobs.loss_delay_seconds(job))
        assert jobs.close_lost(tx, job)
    bound = KINDS[JobType.DELETE_SUBTREE].max_backoff_seconds

    assert [0.0, 2.0, 4.0, 8.0, 16.0, 32.0, bound] == delays[:7]
    assert {STUCK_BACKOFF_SECONDS} == set(delays[7:])
    assert jobs.get(tx, job_id).is_stuck


def test_expired_rows_are_those_whose_lease_is_over(tx, base_id):
    """To the millisecond, and never a row that is waiting."""
    job = claimed(tx, base_id)
    enqueued(tx, base_id, "b")

    assert [] == jobs.expired(tx, job.lease_until - timedelta(milliseconds=1))
    assert [job.id] == [found.id for found in jobs.expired(tx, job.lease_until)]
    assert [job.id] == [found.id for found in jobs.running_on(tx, ME.host)]
    assert [] == jobs.running_on(tx, OTHER.host)


# history


def ended_at(tx, base_id, item, when):
    job = claimed(tx, base_id, item)
    jobs.finish(tx, job)
    tx.execute(update(JOB).where(JOB.c.id == job.id).values(finished_at=when))
    return job.id


def test_history_keeps_a_week_and_a_hundred_completed_of_each_type(tx, base_id):
    """Old rows go, the newest hundred stay, active rows are never touched."""
    now = utc_now()
    old = ended_at(tx, base_id, "old", now - timedelta(days=8))
    kept = [ended_at(tx, base_id, f"k{number}", now) for number in range(103)]
    waiting, running = enqueued(tx, base_id, "w"), claimed(tx, base_id, "r")
    tx.execute(update(JOB).where(JOB.c.id.in_([waiting, running.id])).values(created_at=now - timedelta(days=30)))

    assert 4 == jobs.prune(tx)
    left = set(tx.scalars(select(JOB.c.id)))
    assert {*kept[3:], waiting, running.id} == left
    assert old not in left


def test_many_that_ended_in_one_millisecond_keep_a_hundred(tx, base_id):
    """One commit may end hundreds of rows at the same instant."""
    jobs.enqueue_all(tx, [spec(base_id, f"i{number}") for number in range(300)], shard="main")
    tx.execute(update(JOB).values(status=JobStatus.COMPLETED, finished_at=utc_now()))
    jobs.prune(tx)

    assert 100 == jobs.page(tx, base_id=base_id, statuses=None, limit=500).total


@pytest.mark.parametrize("status", [JobStatus.FAILED, JobStatus.CANCELLED])
def test_what_failed_or_was_cancelled_is_kept_its_week(tx, base_id, status):
    """However much was completed after it, and however many they are."""
    now = utc_now()
    jobs.enqueue_all(tx, [spec(base_id, f"i{number}") for number in range(130)], shard="main")
    tx.execute(update(JOB).values(status=status, error="corrupt", finished_at=now - timedelta(days=6)))
    old = ended_at(tx, base_id, "old", now - timedelta(days=8))
    tx.execute(update(JOB).where(JOB.c.id == old).values(status=status, error="corrupt"))
    for number in range(101):
        ended_at(tx, base_id, f"k{number}", now)
    jobs.prune(tx)

    assert 130 == jobs.page(tx, base_id=base_id, statuses=[status], limit=500).total
    assert 100 == jobs.page(tx, base_id=base_id, statuses=[JobStatus.COMPLETED], limit=500).total


def test_history_of_a_base_that_is_gone_goes_with_it(tx, base_id):
    """An hour after it ended, so that recovery still finds whom it took a job from; that of other bases is kept."""
    now = utc_now()
    gone = new_base(tx)
    enqueued_there = jobs.enqueue_all(tx, [spec(gone, f"i{number}") for number in range(3)], shard="main")
    here = enqueued(tx, base_id)
    ended = {"status": JobStatus.CANCELLED, "error": "cancelled"}
    tx.execute(update(JOB).values(**ended, finished_at=now - timedelta(hours=2)))
    tx.execute(update(JOB).where(JOB.c.id == enqueued_there[0]).values(finished_at=now - timedelta(minutes=50)))

    assert 0 == jobs.prune(tx)
    bases.remove(tx, gone)
    assert 2 == jobs.prune(tx)
    assert {enqueued_there[0], here} == set(tx.scalars(select(JOB.c.id)))


def test_history_of_a_large_base_goes_in_parts(tx, base_id, monkeypatch):
    """Nobody who wants to write waits until fifty thousand rows are gone."""
    monkeypatch.setattr(history, "PRUNED_AT_ONCE", 10)
    gone = new_base(tx)
    jobs.enqueue_all(tx, [spec(gone, f"i{number}") for number in range(25)], shard="main")
    tx.execute(update(JOB).values(status=JobStatus.FAILED, error="x", finished_at=utc_now() - timedelta(days=1)))
    bases.remove(tx, gone)

    assert [10, 10, 5, 0] == [jobs.prune(tx) for _ in range(4)]


def test_pages_are_newest_first_and_bounded(tx, base_id):
    """Filters by base and status; a limit that makes no sense is refused."""
    first, second = enqueued(tx, base_id, "a"), enqueued(tx, base_id, "b")
    enqueued(tx, new_base(tx))
    jobs.finish(tx, jobs.claim(tx, first, ME, 60, 5))

    assert [second, first] == [job.id for job in jobs.page(tx, base_id=base_id, statuses=None, limit=10).jobs]
    assert [first] == [job.id for job in jobs.page(tx, base_id=None, statuses=[COMPLETED], limit=10).jobs]
    assert 3 == jobs.page(tx, base_id=None, statuses=None, limit=1).total
    for limit in (0, -1, 1001, 2**70):
        with pytest.raises(InvalidInput):
            jobs.page(tx, base_id=None, statuses=None, limit=limit)
    with pytest.raises(JobNotFound):
        jobs.get(tx, "nobody")


def test_the_ledger_itself_refuses_two_active_rows_of_one_key(tx, base_id):
    """Even if two processes got past every check."""
    job = enqueued(tx, base_id)
    other = enqueued(tx, base_id, "b")

    with pytest.raises(IntegrityError):
        tx.execute(update(JOB).where(JOB.c.id == other).values(idempotency_key=spec(base_id).idempotency_key))
    assert PENDING is jobs.get(tx, job).status


# jobs that nobody runs


@pytest.mark.parametrize("kind", JobType)
@pytest.mark.parametrize("state", [PENDING, COMPLETED, FAILED, CANCELLED])
def test_whoever_read_a_job_that_nobody_runs_cannot_change_it(tx, base_id, kind, state):
    """It ended, or was put back, between a refused claim and the look at its owner: it was closed once more, as lost."""
    job_id = claimed(tx, base_id, kind=kind).id
    ended = {} if state is PENDING else {"finished_at": utc_now()}
    tx.execute(update(JOB).where(JOB.c.id == job_id).values(status=state, run_token=None, lease_until=None, **ended))
    before = tx.execute(select(JOB).where(JOB.c.id == job_id)).one()
    job = jobs.find(tx, job_id)

    assert not jobs.close_lost(tx, job)
    for change in (jobs.finish, lambda tx, job: jobs.fail(tx, job, "x", {}), lambda tx, job: jobs.note(tx, job, {"done": 1})):
        with pytest.raises(LeaseLost):
            change(tx, job)
    with pytest.raises(LeaseLost):
        jobs.put_back(tx, job, delay_seconds=0)
    with pytest.raises(LeaseLost):
        jobs.require_ours(tx, job)
    assert before == tx.execute(select(JOB).where(JOB.c.id == job_id)).one()
