"""What hangs holds one process at a time, and all that hangs together leave one to the others."""

from dataclasses import replace
from datetime import timedelta

import pytest

from knowledge.catalog import rate
from knowledge.ingestion import capture, hanging
from knowledge.model.inputs import NoteInput, UrlInput
from knowledge.model.jobs import JobStatus
from knowledge.model.status import ItemStatus
from knowledge.pipeline.http.address import AllowList
from knowledge.pipeline.http.client import Limits, WebClient
from knowledge.pipeline.sources.robots import Robots
from knowledge.pipeline.sources.url import Web
from knowledge.service import KnowledgeService
from tests.fakes.web_server import WebServer
from tests.house import House
from tests.pages import ARTICLE

SCOPE = hanging.embedder_scope("paid")


@pytest.fixture
def slow(make_house, paid_spec):
    """A house whose paid embedder has half a second."""
    return make_house(replace(paid_spec, timeout_seconds=0.5))


@pytest.fixture
def notes(slow, paid_server):
    """Three, the first of which met an embedder that hangs."""
    notes = slow.add(slow.base("paid"), *(NoteInput(content=f"lamp {number}") for number in range(3)))
    paid_server.behave({"behaviour": "delay", "seconds": 1.5, "times": 1})
    slow.deliver(slow.job_of(notes[0]).id)
    return notes


def state(house, item):
    job = house.job_of(item)
    return job.status, job.attempt, job.error


def hangs(house, scope):
    with house.db.read() as tx:
        return rate.hangs(tx, scope)


def test_one_asks_and_the_others_wait(slow, notes, paid_server):
    """They are put back before anything changes, told why, and lose no attempt; whoever is in front asks again."""
    first, second, third = notes
    assert hangs(slow, SCOPE)
    hanging.take_turn(slow.rt, slow.claim(slow.job_of(second)), SCOPE)
    slow.deliver(slow.job_of(third).id)

    assert (JobStatus.PENDING, 1, "embedder_unavailable") == state(slow, first)
    assert (JobStatus.PENDING, 0, "rate_limited") == state(slow, third)
    assert ItemStatus.PROCESSING is slow.item(third).status
    assert "embedder:paid has not answered in time" in slow.service.why(third.id).explanation
    assert 1 == paid_server.requests()


def test_an_answer_ends_it(slow, notes):
    """From then on as many ask as there are processes."""
    slow.deliver(slow.job_of(notes[1]).id)

    assert ItemStatus.COMPLETED is slow.item(notes[1]).status
    assert not hangs(slow, SCOPE)


def test_in_the_end_all_are_done(slow, notes):
    """Whoever was put back comes back by itself."""
    slow.work(hurry=True)

    assert {ItemStatus.COMPLETED} == {slow.item(note).status for note in notes}


def test_all_that_hangs_together_leaves_a_process(slow, notes):
    """Who asks one thing that hangs keeps another one back, and nobody who asks neither."""
    with slow.db.write() as tx:
        rate.hang(tx, "host:example.com", timedelta(minutes=1))
    hanging.take_turn(slow.rt, slow.claim(slow.job_of(notes[1])), "host:example.com")
    slow.deliver(slow.job_of(notes[2]).id)
    (other,) = slow.add(slow.base(None), NoteInput(content="rock"))
    slow.deliver(slow.job_of(other).id)

    assert "rate_limited" == slow.job_of(notes[2]).error
    assert "embedder:paid has not answered in time" in slow.service.why(notes[2].id).explanation
    assert ItemStatus.COMPLETED is slow.item(other).status


@pytest.mark.parametrize("fault", [{"behaviour": "close"}, {"behaviour": "status", "status": 500}, {"behaviour": "html"}])
def test_what_fails_at_once_does_not_hang(slow, paid_server, fault):
    """It holds no process, and people want to see it fail."""
    (note,) = slow.add(slow.base("paid"), NoteInput(content="lamp"))
    paid_server.behave(fault)
    slow.deliver(slow.job_of(note).id)

    assert 1 == slow.job_of(note).attempt
    assert not hangs(slow, SCOPE)


def test_a_person_who_knows_better_is_believed(slow, notes):
    """`jobs requeue` of whoever waits ends the mark."""
    hanging.take_turn(slow.rt, slow.claim(slow.job_of(notes[1])), SCOPE)
    slow.deliver(slow.job_of(notes[2]).id)
    slow.service.requeue_job(slow.job_of(notes[2]).id)

    assert not hangs(slow, SCOPE)


def test_what_costs_no_request_says_nothing(slow, notes, paid_server):
    """All vectors come from the cache: nobody has answered."""
    other = slow.base("paid")
    with slow.db.write() as tx:
        rate.answered(tx, SCOPE)
    slow.deliver(slow.job_of(notes[1]).id)
    with slow.db.write() as tx:
        rate.hang(tx, SCOPE, timedelta(minutes=1))
    (again,) = slow.add(other, NoteInput(content="lamp 1"))
    asked = paid_server.requests()
    slow.deliver(slow.job_of(again).id)

    assert ItemStatus.COMPLETED is slow.item(again).status
    assert asked == paid_server.requests()
    assert hangs(slow, SCOPE)


@pytest.fixture
def web():
    with WebServer() as web:
        web.silent("/silent")
        web.page("/fine", ARTICLE)
        web.page("/gone", "gone", status=404)
        web.page("/later", "later", status=429, headers={"Retry-After": "7"})
        web.page("/blank", "<p></p>")
        yield web


@pytest.fixture
def house(tmp_path):
    """A house whose pages have half a second."""
    client = WebClient(limits=Limits(total_seconds=0.5), allow=AllowList.of(["127.0.0.1"]))
    return House(tmp_path, window=20, web=Web(client, Robots(client)))


@pytest.mark.parametrize("path", ["/fine", "/gone", "/later", "/blank"])
def test_a_web_server_hangs_until_it_answers_whatever_that_is(house, web, path):
    """A refusal is an answer."""
    base = house.base(None)
    scopes = f"host:{web.host}", f"pages:{base.id}"
    first, second = house.add(base, UrlInput(url=web.url("/silent")), UrlInput(url=web.url(path)))
    house.deliver(house.job_of(first).id)
    before = [hangs(house, scope) for scope in scopes]
    house.deliver(house.job_of(second).id)

    assert [True, True] == before
    assert [False, False] == [hangs(house, scope) for scope in scopes]


def test_a_list_of_dead_hosts_has_one_asked_at_a_time(house, web):
    """Each of them is a new one, but they are pages of one base; other bases are not kept back."""
    base = house.base(None)
    with WebServer() as dead:
        dead.silent("/silent")
        first, second, third = house.add(
            base, *(UrlInput(url=url) for url in (web.url("/silent"), dead.url("/silent"), web.url("/fine")))
        )
        house.deliver(house.job_of(first).id)
        claimed = house.claim(house.job_of(second))
        with capture.place(house.rt, claimed) as may:
            house.deliver(house.job_of(third).id)
        (page,) = house.add(house.base(None), UrlInput(url=web.url("/fine")))

    assert may
    assert "rate_limited" == house.job_of(third).error
    assert "a page of its base has not answered in time" in house.service.why(third.id).explanation
    assert JobStatus.PENDING is house.job_of(page).status


def test_both_may_hang_at_once(make_house, paid_spec, paid_server, web):
    """The embedder of a page's base and its host: the job gets its turn at both."""
    house = make_house(paid_spec)
    client = WebClient(allow=AllowList.of(["127.0.0.1"]))
    house.rt = replace(house.rt, web=Web(client, Robots(client)))
    house.service = KnowledgeService(house.rt)
    (page,) = house.add(house.base("paid"), UrlInput(url=web.url("/fine")))
    with house.db.write() as tx:
        for scope in (SCOPE, f"host:{web.host}"):
            rate.hang(tx, scope, timedelta(minutes=10))
    house.deliver(house.job_of(page).id)

    assert ItemStatus.COMPLETED is house.item(page).status
    assert not hangs(house, SCOPE)
