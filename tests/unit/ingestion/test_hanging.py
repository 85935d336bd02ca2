"""What hangs holds one process at a time, and all that hangs together leave one to the others."""

from dataclasses import replace
from datetime import timedelta

import pytest

from knowledge.catalog import rate
from knowledge.ingestion import hanging
from knowledge.model.inputs import NoteInput, UrlInput
from knowledge.model.jobs import JobStatus
from knowledge.model.status import ItemStatus
from knowledge.pipeline.http.address import AllowList
from knowledge.pipeline.http.client import Limits, WebClient
from knowledge.pipeline.sources.robots import Robots
from knowledge.pipeline.sources.url import Web
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
    assert "what it needs has not answered in time" in slow.service.why(notes[2].id).explanation
    assert ItemStatus.COMPLETED is slow.item(other).status


@pytest.mark.parametrize("fault", [{"behaviour": "close"}, {"behaviour": "status", "status": 500}, {"behaviour": "html"}])
def test_what_fails_at_once_does_not_hang(slow, paid_server, fault):
    """It holds no process, and people want to see it fail."""
    (note,) = slow.add(slow.base("paid"), NoteInput(content="lamp"))
    paid_server.behave(fault)
    slow.deliver(slow.job_of(note).id)

    assert 1 == slow.job_of(note).attempt
    assert not hangs(slow, SCOPE)


def test_a_web_server_that_hangs_is_asked_by_one(tmp_path):
    """Until it answers."""
    client = WebClient(limits=Limits(total_seconds=0.5), allow=AllowList.of(["127.0.0.1"]))
    house = House(tmp_path, web=Web(client, Robots(client)))
    with WebServer() as web:
        for path in ("/a", "/b"):
            web.silent(path)
        base = house.base(None)
        first, second = house.add(base, UrlInput(url=web.url("/a")), UrlInput(url=web.url("/b")))
        scope = f"host:{web.host}"
        house.deliver(house.job_of(first).id)
        hung = hangs(house, scope)
        web.page("/b", ARTICLE)
        house.deliver(house.job_of(second).id)

    assert hung
    assert ItemStatus.COMPLETED is house.item(second).status
    assert not hangs(house, scope)
