"""Jina Reader and services like it: what is sent, what answers mean, whose limits count."""

import json

import pytest

from knowledge.errors import (
    AddressRefused,
    FetchBlocked,
    FetchDisallowed,
    FetchFault,
    FetchRefused,
    FetchSlowDown,
    NoTextExtracted,
)
from knowledge.model.rates import Limit
from knowledge.pipeline.http.address import AllowList
from knowledge.pipeline.http.client import WebClient
from knowledge.pipeline.sources.reader_service import ReaderService
from knowledge.pipeline.sources.robots import Robots
from knowledge.pipeline.sources.url import Web
from tests.fakes.web_server import WebServer
from tests.pages import LIMITS

PAGE = "https://example.com/a/b?x=1&y=zwei drei"


@pytest.fixture
def service():
    """The reader service, on this machine."""
    with WebServer() as service:
        yield service


@pytest.fixture
def client():
    """Knows `example.com` as a public address, and may not ask this machine."""
    names = {"example.com": ["93.184.216.34"], "inside.test": ["10.0.0.1"]}

    def resolve(host, _port):
        if host not in names:
            raise OSError(host)
        return names[host]

    return WebClient(limits=LIMITS, allow=AllowList(), resolver=resolve)


@pytest.fixture
def web(service, client):
    return Web(client, Robots(client), ReaderService(service.url(), client.allowing("127.0.0.1"), "secret"))


def gives(service, payload, *, status=200, **more):
    body = payload if isinstance(payload, str) else json.dumps(payload)
    service.page("*", body, status=status, content_type="application/json", **more)


def capture(web, url="https://example.com/a"):
    return web.capture(url, lambda: None)


def test_address_of_the_page_follows_that_of_the_service_as_it_is(service, web):
    """Not encoded; with the headers of the service and the key."""
    gives(service, {"content": "text", "title": "T"})

    capture(web, "https://example.com/a/b?x=1&y=2")

    [asked] = service.asked
    assert "/https://example.com/a/b?x=1&y=2" == asked.path
    assert ("application/json", "none", "Bearer secret") == tuple(
        asked.headers[name] for name in ("accept", "x-retain-images", "authorization")
    )


def test_service_may_be_asked_without_a_key(service, client):
    """Anonymous use is allowed."""
    gives(service, {"content": "text"})

    ReaderService(service.url(), client.allowing("127.0.0.1")).read("https://example.com/", lambda: None)

    assert "authorization" not in service.asked[0].headers


@pytest.mark.parametrize(
    "payload",
    [
        {"data": {"title": " The  lamp ", "content": "  It was lit.\n"}},
        {"title": "The lamp", "content": "It was lit."},
        {"data": {"title": "The lamp", "text": "It was lit."}},
        {"title": "The lamp", "content": "", "text": "It was lit."},
    ],
)
def test_page_is_found_in_each_form_of_an_answer(service, web, payload):
    """`content`, else `text`; directly or under `data`; trimmed."""
    gives(service, payload)

    captured = capture(web)

    assert ("The lamp", "It was lit.", "The lamp.md") == (captured.title, captured.text, captured.name)


def test_page_without_a_title_is_named_by_its_heading(service, web):
    """The address is no title: the first heading says more."""
    gives(service, {"content": "intro\n\n## The foghorn\n\nIt sounds."})

    captured = capture(web)

    assert (None, "The foghorn.md") == (captured.title, captured.name)


@pytest.mark.parametrize("payload", [{"content": " \n", "title": "T"}, {"data": {}}, {"content": None}, {"content": 7}])
def test_page_without_text_is_an_error(service, web, payload):
    """An empty snapshot would replace a good one."""
    gives(service, payload)

    with pytest.raises(NoTextExtracted):
        capture(web)


@pytest.mark.parametrize("payload", ["<html>", "[]", '"text"', "", "[" * 100_000])
def test_answer_that_is_no_page_is_an_error_that_may_pass(service, web, payload):
    """The service is out of order, the page may be fine."""
    gives(service, payload)

    with pytest.raises(FetchFault) as fault:
        capture(web)
    assert "fetch_failed" == fault.value.code


@pytest.mark.parametrize(
    ("status", "headers", "kind"),
    [
        (429, {"Retry-After": "7"}, FetchSlowDown),
        (429, {}, FetchSlowDown),
        (503, {"Retry-After": "7"}, FetchSlowDown),
        (503, {}, FetchFault),
        (500, {}, FetchFault),
        (401, {}, FetchRefused),
        (402, {}, FetchRefused),
        (422, {}, FetchRefused),
    ],
)
def test_status_of_the_service_is_told(service, web, status, headers, kind):
    """With its number, and without its prose, which may repeat the key."""
    gives(service, {"message": "no: secret"}, status=status, headers=headers)

    with pytest.raises(kind) as fault:
        capture(web)

    assert (kind, status) == (type(fault.value), fault.value.details["status"])
    assert "secret" not in repr(fault.value.to_wire())


def test_wall_that_the_service_met_is_told(service, web):
    """The service fetched it, but it is no content."""
    gives(service, {"title": "Just a moment...", "content": "Enable JavaScript and cookies to continue"})

    with pytest.raises(FetchBlocked):
        capture(web)


@pytest.mark.parametrize(
    "url", ["http://inside.test/", "http://10.0.0.1/", "http://localhost.localdomain:1/", "http://169.254.169.254/"]
)
def test_addresses_inside_are_not_told_to_the_service(service, web, url):
    """Nor may a service of our own be used to reach them; a name that is not known here is the service's business."""
    gives(service, {"content": "text"})

    if "localdomain" in url:
        capture(web, url)
    else:
        with pytest.raises(AddressRefused):
            capture(web, url)
        assert [] == service.asked


def test_limit_is_that_of_the_service(service, web):
    """All pages of all sites share it."""
    limits = [web.limit(url) for url in ("https://a.example/", "https://b.example/")]

    assert [Limit("reader:127.0.0.1", at_once=3, per_minute=10)] * 2 == limits


def test_robots_are_asked_by_us_for_pages_that_nobody_named(service, client):
    """A service does not look at them."""
    with WebServer() as site:
        site.page("/robots.txt", "User-agent: Knowledge\nDisallow: /", content_type="text/plain")
        gives(service, {"content": "text"})
        ours = client.allowing("127.0.0.1")
        web = Web(ours, Robots(ours), ReaderService(service.url(), ours))

        with pytest.raises(FetchDisallowed):
            web.capture(site.url("/a"), lambda: None, is_child=True)

    assert [] == service.asked
