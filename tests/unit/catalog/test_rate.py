"""So many at once, so many a minute, over all processes; a place belongs to a run and ends with it."""

from datetime import timedelta
from itertools import pairwise

import pytest
from sqlalchemy import select, update

from knowledge.catalog import jobs, rate
from knowledge.catalog.rate import Place, Wait
from knowledge.catalog.rows import RATE
from knowledge.db.columns import utc_now
from knowledge.model.jobs import JobSpec
from knowledge.model.rates import Limit
from knowledge.process import this_process
from tests.rows import new_base, new_item

LIMIT = Limit("host:example.com", at_once=2, per_minute=4)


@pytest.fixture
def base_id(db):
    with db.write() as tx:
        return new_base(tx)


@pytest.fixture
def running(db, base_id):
    """Makes jobs that run under a lease."""

    def make(lease_seconds=60.0):
        with db.write() as tx:
            item_id = new_item(tx, base_id)
            job_id = jobs.enqueue(tx, JobSpec.index_documents(base_id, item_id), shard="main")
            return jobs.claim(tx, job_id, this_process(), lease_seconds, 1000)

    return make


@pytest.fixture
def take(db):
    def take(job, limit=LIMIT):
        with db.write() as tx:
            return rate.take(tx, limit, job)

    return take


@pytest.fixture
def release(db):
    def release(place):
        with db.write() as tx:
            rate.release(tx, [place])

    return release


@pytest.fixture
def pass_time(db):
    """Let seconds go by for the starts and bookings that are there."""

    def pass_time(seconds):
        with db.write() as tx:
            for row in tx.execute(select(RATE)).all():
                moved = {
                    name: value - timedelta(seconds=seconds)
                    for name in ("starts_at", "lease_until", "released_at")
                    if (value := getattr(row, name)) is not None
                }
                tx.execute(update(RATE).where(RATE.c.id == row.id).values(**moved))

    return pass_time


def test_so_many_run_at_once(running, take, release):
    """The third gets no place until one of two has given his back."""
    first, second, third = running(), running(), running()
    place = take(first)
    take(second)

    assert isinstance(take(third), Wait)
    release(place)
    assert isinstance(take(running(), Limit("host:other", 2, 4)), Place)


def test_who_waited_comes_before_who_comes_later(running, take, release, pass_time):
    """A booking keeps its turn: a newcomer does not take the place that has become free."""
    first, second, waiting = running(), running(), running()
    place = take(first)
    take(second)
    wait = take(waiting)
    release(place)

    newcomer = take(running())
    pass_time(wait.seconds)

    assert isinstance(newcomer, Wait)
    assert isinstance(take(waiting), Place)


def test_so_many_start_in_a_minute(running, take, release, pass_time):
    """Given back at once, four starts are four starts; the fifth waits for the first to be a minute old."""
    for _ in range(4):
        release(take(running()))
    late = running()

    wait = take(late)

    assert 55 < wait.seconds <= 60
    pass_time(wait.seconds)
    assert isinstance(take(late), Place)


def test_waiting_jobs_are_told_different_times(db, running, take, release):
    """A hundred of them do not come back all at once: they are told the pace of the limit."""
    for _ in range(4):
        release(take(running()))

    waits = [take(running()).seconds for _ in range(6)]

    with db.read() as tx:
        booked = sorted(tx.scalars(select(RATE.c.starts_at).where(RATE.c.starts_at > utc_now())))
    assert (6, sorted(waits)) == (len(booked), waits)
    assert all(timedelta(seconds=15) <= later - earlier for earlier, later in pairwise(booked))


def test_asking_again_too_early_changes_nothing(running, take, release):
    """A job that comes before its time keeps its turn and is told the rest of its wait."""
    for _ in range(4):
        release(take(running()))
    job = running()

    first, second = take(job), take(job)

    assert 0 <= first.seconds - second.seconds < 30
    assert second.seconds > 30


def test_place_of_a_run_that_is_gone_is_free(db, running, take):
    """Killed, cancelled or finished: a run that has no lease holds nothing, whether or not it gave its place back."""
    lost, ended = running(), running()
    take(lost)
    take(ended)
    with db.write() as tx:
        jobs.finish(tx, ended)
        jobs.revoke(tx, lost)

    assert [Place, Place] == [type(take(running())) for _ in range(2)]


def test_place_ends_with_the_lease(running, take):
    """A machine that vanished holds its places no longer than its jobs."""
    take(running(lease_seconds=-1.0))
    take(running(lease_seconds=-1.0))

    assert isinstance(take(running()), Place)


def test_booking_of_a_job_that_was_cancelled_is_forgotten(db, running, take, release):
    """Those behind it do not wait for it."""
    for _ in range(4):
        release(take(running()))
    cancelled = [running() for _ in range(20)]
    for job in cancelled:
        take(job)
    with db.write() as tx:
        for job in cancelled:
            jobs.cancel(tx, job, jobs.CANCELLED)

    assert take(running()).seconds <= 60


def test_pause_holds_everybody_until_it_is_over(db, running, take, pass_time):
    """A server that asked to wait is asked by nobody."""
    with db.write() as tx:
        rate.pause(tx, LIMIT.scope, 30)
    job = running()

    wait = take(job)

    assert 25 < wait.seconds <= 30
    assert isinstance(take(running(), Limit("host:other", 1, 1)), Place)
    pass_time(31)
    assert isinstance(take(job), Place)


def test_old_starts_are_forgotten(db, running, take, release, pass_time):
    """The table does not grow with the years."""
    for _ in range(4):
        release(take(running()))
    pass_time(61)

    take(running())

    with db.read() as tx:
        assert 1 == len(tx.execute(select(RATE)).all())


def test_start_of_a_run_that_was_lost_is_forgotten(db, running, take, pass_time):
    """It never gave its place back, and nobody else will."""
    lost = running()
    take(lost)
    with db.write() as tx:
        jobs.revoke(tx, lost)
    pass_time(61)

    with db.write() as tx:
        rate.prune(tx)

    with db.read() as tx:
        assert [] == tx.execute(select(RATE)).all()


def test_scopes_do_not_know_each_other(running, take):
    """One slow host does not hold up another."""
    narrow = [Limit(f"host:{number}", 1, 1) for number in range(3)]

    assert {Place} == {type(take(running(), limit)) for limit in narrow}


def test_hosts_that_nobody_asks_any_more_are_forgotten(db, running, take, release, pass_time):
    """Old starts and bookings of ended jobs go, of every scope; who holds or waits stays."""
    limits = [Limit(f"host:{number}", 1, 1) for number in range(3)]
    release(take(running(), limits[0]))
    take(running(), limits[1])
    take(running(), limits[1])
    pass_time(61)

    with db.write() as tx:
        rate.prune(tx)

    with db.read() as tx:
        assert ["host:1", "host:1"] == [row.scope for row in tx.execute(select(RATE)).all()]


def test_without_a_place_under_every_limit_there_is_none(db, running, take):
    """What the first limit gave is given back as if it had never been: it counts neither as held nor as a start."""
    narrow, wide = Limit("host:narrow", at_once=1, per_minute=60), Limit("pages:base", at_once=1, per_minute=1)
    take(running(), narrow)
    job = running()
    with db.write() as tx:
        answer = rate.take_all(tx, [wide, narrow], job)

    assert "host:narrow" == answer.scope
    assert isinstance(take(running(), wide), Place)


def test_a_place_under_each_limit_is_held_until_all_are_given_back(db, running, take):
    """Both are full meanwhile."""
    limits = Limit("pages:base", at_once=1, per_minute=60), Limit("host:one", at_once=1, per_minute=60)
    job = running()
    with db.write() as tx:
        places = rate.take_all(tx, limits, job)
    full = [take(running(), limit) for limit in limits]
    with db.write() as tx:
        tx.execute(RATE.delete().where(RATE.c.run_token.is_(None)))  # nobody waits
        rate.release(tx, places)

    assert [Wait, Wait] == [type(answer) for answer in full]
    assert [Place, Place] == [type(take(running(), limit)) for limit in limits]


def test_a_run_does_not_wait_for_itself(db, running, take):
    """It may need the same place for two things that it asks."""
    limit = Limit("hanging ", at_once=1, per_minute=60)
    job, other = running(), running()

    assert [Place, Place] == [type(take(job, limit)) for _ in range(2)]
    assert isinstance(take(other, limit), Wait)


def test_a_mark_ends_with_an_answer_or_with_its_time(db, pass_time):
    """It is no place and no start of what it marks."""

    def hangs():
        with db.read() as tx:
            return rate.hangs(tx, "host:a")

    with db.write() as tx:
        rate.hang(tx, "host:a", timedelta(minutes=10))
        rate.prune(tx)
    marked = hangs()
    with db.write() as tx:
        rate.answered(tx, "host:b")
        rate.answered(tx, "host:a")
    answered = hangs()
    with db.write() as tx:
        rate.hang(tx, "host:a", timedelta(minutes=10))
    pass_time(601)

    assert (True, False, False) == (marked, answered, hangs())
