"""Answers that cost money, while the store of paid vectors is locked, full, or not to be written: none is bought twice."""

from dataclasses import replace

import pytest

from knowledge import clock
from knowledge.catalog import spend
from knowledge.catalog.embeddings import EmbeddingCache
from knowledge.db.engine import Database
from knowledge.errors import DatabaseBusy, StorageFailed, StorageFull
from knowledge.model.jobs import JobStatus
from knowledge.model.status import ItemStatus
from knowledge.pipeline.indexing.embedding import HOLD_SECONDS
from tests.regression.faults import hooked

TEXT = "The lighthouse stands on the northern rock."
FAULTS = [DatabaseBusy(), StorageFull("no space", file="x"), StorageFailed("read-only", file="x")]


class Time:
    """The clock; it goes on only where somebody sleeps."""

    def __init__(self):
        self.now = 0.0

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def time(monkeypatch):
    time = Time()
    monkeypatch.setattr(clock, "sleep", time.sleep)
    monkeypatch.setattr(clock, "monotonic", lambda: time.now)
    return time


@pytest.fixture
def paid(make_house, paid_spec, time):
    """A house whose store of paid vectors is not waited for."""
    house = make_house(paid_spec, lease_seconds=3600)
    store = Database(house.rt.cache._db.url, busy_timeout_seconds=0.05)
    house.rt = replace(house.rt, cache=EmbeddingCache(store, max_bytes=1 << 30))
    house.rt.cache.get("any", ["any"])
    yield house
    store.dispose()


@pytest.fixture
def note(paid):
    return paid.notes(paid.base("paid"), TEXT)[0]


def first(times, error):
    """A hook that fails so often."""
    left = iter(range(times))

    def fail(*_, **__):
        if next(left, None) is not None:
            raise error

    return fail


def state(paid, note):
    job = paid.job_of(note)
    return paid.item(note).status, job.status, job.error, job.attempt


def test_nothing_is_asked_for_while_others_hold_the_store(paid, note, paid_server):
    """However often the job is put back meanwhile; it uses no attempt."""
    other = Database(paid.rt.cache._db.url)
    with other.write():
        for _ in range(5):
            paid.hasten()
            paid.work()

        assert (ItemStatus.EMBEDDING, JobStatus.PENDING, "database_busy", 0) == state(paid, note)
    assert 0 == paid_server.stats()["requests"]
    other.dispose()
    paid.work(hurry=True)
    assert (ItemStatus.COMPLETED, 1) == (paid.item(note).status, paid_server.stats()["requests"])


@pytest.mark.parametrize("fault", FAULTS[1:], ids=lambda fault: fault.code)
def test_nothing_is_asked_for_while_the_disk_refuses(paid, note, paid_server, fault):
    """The job fails as it does wherever a disk refuses, and each reindex until it is mended costs nothing."""
    with hooked(paid, cache={"ensure_room": first(100, fault)}):
        paid.work(hurry=True)
        paid.service.reindex_items(note.base_id, [note.id])
        paid.work(hurry=True)

        assert (ItemStatus.FAILED, JobStatus.FAILED, fault.code, 2) == state(paid, note)
    assert 0 == paid_server.stats()["requests"]


@pytest.mark.parametrize("times", [1, 7, 40])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.code)
def test_an_answer_in_hand_is_held_until_it_can_be_stored(paid, note, paid_server, time, fault, times):
    """In the run that paid for it."""
    with hooked(paid, cache={"put": first(times, fault)}):
        paid.work()

    assert (ItemStatus.COMPLETED, 1) == (paid.item(note).status, paid_server.stats()["requests"])
    assert times == time.now
    assert 1 == paid.service.spend_total(note.base_id).requests


def test_an_answer_in_hand_waits_for_others_without_end(paid, note, paid_server):
    """They do not hold the store for ever; a disk may refuse for ever."""
    with hooked(paid, cache={"put": first(1000, FAULTS[0])}):
        paid.work()

    assert (ItemStatus.COMPLETED, 1) == (paid.item(note).status, paid_server.stats()["requests"])


@pytest.mark.parametrize("fault", [StorageFull("no space", file="x"), StorageFailed("read-only", file="x")], ids=str)
def test_an_answer_that_cannot_be_stored_is_not_bought_again(paid, note, paid_server, time, fault):
    """A visible failure, with what the disk said, after one request, which the spend tells of."""
    with hooked(paid, cache={"put": first(10_000, fault)}):
        paid.work(hurry=True)

    item = paid.item(note)
    assert (ItemStatus.FAILED, JobStatus.FAILED, fault.code, 0) == state(paid, note)
    assert (fault.code, str(fault)) == (item.error, item.error_detail["message"])
    assert HOLD_SECONDS == time.now
    assert 1 == paid_server.stats()["requests"] == paid.service.spend_total(note.base_id).requests
    assert paid.service.spend_total(note.base_id).tokens > 0


def test_what_was_stored_before_is_not_lost_with_the_last_answer(paid, paid_server):
    """A person's reindex pays for the lost answer and the rest only."""
    parts = "\n\n".join(f"lighthouse {number} " + "keeper " * 40 for number in range(6))
    base = paid.base("paid", chunk_size=60, chunk_overlap=0, chunk_strategy="delimiter", chunk_separator="\\n\\n")
    (note,) = paid.notes(base, parts)
    puts = iter(range(10_000))

    def second_fails(*_):
        if next(puts) > 0:
            raise StorageFull

    with hooked(paid, cache={"put": second_fails}):
        paid.work(hurry=True)
    lost = paid_server.stats()["requests"]
    paid.service.reindex_items(base.id, [note.id])
    paid.work()

    assert (2, ItemStatus.COMPLETED) == (lost, paid.item(note).status)
    assert 2 == sum(times - 1 for times in paid_server.answered().values())


def test_a_cancel_ends_the_holding(paid, note, paid_server):
    """And what was answered is told all the same."""

    def cancel(*_):
        paid.service.cancel_job(paid.job_of(note).id)
        raise DatabaseBusy

    with hooked(paid, cache={"put": cancel}):
        paid.work(hurry=True)

    assert (ItemStatus.FAILED, JobStatus.CANCELLED) == state(paid, note)[:2]
    assert 1 == paid_server.stats()["requests"] == paid.service.spend_total(note.base_id).requests


def test_a_catalogue_in_trouble_does_not_cost_the_answer(paid, note, paid_server, monkeypatch):
    """Neither the looks at the job meanwhile, nor the record of what was spent, end a run that holds one."""
    record = spend.record
    busy = first(3, DatabaseBusy())
    monkeypatch.setattr(spend, "record", lambda *given, **named: busy() or record(*given, **named))
    look = first(3, StorageFailed())
    is_held = []

    def begun(*_, **__):
        if is_held:
            look()

    with hooked(paid, cache={"put": lambda *_: is_held.append(1) or first_put()}, db={"read": begun}):
        first_put = first(2, DatabaseBusy())
        paid.work()

    assert (ItemStatus.COMPLETED, 1) == (paid.item(note).status, paid_server.stats()["requests"])
    assert 1 == paid.service.spend_total(note.base_id).requests
