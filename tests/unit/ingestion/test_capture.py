"""Pages: fetched when they are indexed, kept as snapshots, fetched again onto the same path."""

import pytest

from knowledge.errors import InvalidUrl
from knowledge.model.inputs import Strategy, UrlInput
from knowledge.model.jobs import JobStatus
from knowledge.model.status import ItemStatus, ItemType
from knowledge.pipeline.http.address import AllowList
from knowledge.pipeline.http.client import Limits, WebClient
from knowledge.pipeline.sources.robots import Robots
from knowledge.pipeline.sources.snapshot import strip
from knowledge.pipeline.sources.url import Web
from tests.fakes.web_server import WebServer
from tests.house import House

ARTICLE = """<!doctype html><html lang="en"><head><title>The lamp | Lighthouse Trust</title></head><body>
<nav><a href="/">Home</a></nav><article><h1>The lamp</h1>
<p>The lamp of the northern rock was lit in 1897, and it has burnt every night since then, without a break.</p>
<p>Its keeper writes the log at midnight, in ink, and signs it with his full name and the hour.</p></article></body></html>"""


@pytest.fixture
def web():
    with WebServer() as web:
        web.page("/lamp", ARTICLE)
        yield web


@pytest.fixture
def fetching():
    """As in production, except that the local server may be asked, and that nothing takes long."""
    client = WebClient(
        allow=AllowList.of(["127.0.0.1"]), limits=Limits(connect_seconds=2, read_seconds=2, total_seconds=5, max_bytes=2_000_000)
    )
    return Web(client, Robots(client), page_bytes=1_000_000)


@pytest.fixture
def house(tmp_path, fetching):
    house = House(tmp_path / "house", web=fetching)
    yield house
    house.rt.close()


@pytest.fixture
def base(house):
    return house.base()


def stored(house, item):
    item = house.item(item)
    return house.rt.files.path(item.base_id, item.relative_path).read_bytes()


def test_page_is_fetched_when_it_is_indexed_and_found_by_its_text(house, base, web):
    """Adding asks nothing; the first index job fetches, names and indexes the page."""
    [item] = house.add(base, UrlInput(url=web.url("/lamp")))
    assert ([], None, ItemType.URL) == (web.asked, item.relative_path, item.type)

    house.work()

    item = house.item(item)
    assert (ItemStatus.COMPLETED, "The lamp.md", "The lamp") == (item.status, item.relative_path, item.title)
    [hit] = house.service.search(base.id, "keeper midnight ink").hits
    assert ("The lamp", web.url("/lamp")) == (hit.title, hit.source)


def test_snapshot_keeps_the_address_and_the_time_in_front_of_the_text(house, base, web):
    """Keys in their order, each a JSON string; what follows is the page."""
    [item] = house.add(base, UrlInput(url=web.url("/lamp")))
    house.work()

    lines = stored(house, item).decode().splitlines()

    assert ["---", 'type: "URL"', 'title: "The lamp"', f'resource: "{web.url("/lamp")}"'] == lines[:4]
    assert lines[4].startswith('timestamp: "2') and lines[5] == "---"
    assert strip("\n".join(lines)).startswith("# The lamp\n\nThe lamp of the northern rock")
