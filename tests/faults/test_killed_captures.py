"""Pages through real workers: fetched, killed while a server is silent, cancelled; a lost run holds no place."""

import pytest

from knowledge.model.inputs import SitemapInput, UrlInput
from knowledge.model.jobs import JobStatus
from knowledge.model.status import ItemStatus
from tests.fakes.web_server import WebServer
from tests.faults.promises import assert_promises
from tests.fleet import Blow
from tests.waiting import eventually

SETTINGS = {"KNOWLEDGE_HTTP_ALLOW": '["127.0.0.1"]', "KNOWLEDGE_URL_HOST_CONCURRENCY": "1"}


@pytest.fixture
def web():
    with WebServer() as web:
        for number in range(3):
            web.page(f"/{number}", f"<title>Lamp {number}</title><p>Lamp number {number} was lit on the northern rock.</p>")
        yield web


@pytest.fixture
def base(fleet):
    return fleet.new_base(paid=False)


def running(fleet, item_id):
    """The job of this item, once it runs."""

    def found():
        return next((job for job in fleet.jobs(JobStatus.RUNNING) if item_id in job.item_ids), None)

    return eventually(found, "the page is being fetched")


def test_page_and_sitemap_go_through_real_workers(fleet, base, web):
    """Fetched by the processes of the product, found by their text; with one place at the host, one after the other."""
    names = "".join(f"<url><loc>{web.url(f'/{number}')}</loc></url>" for number in (1, 2))
    web.page("/sitemap.xml", f"<urlset>{names}</urlset>", content_type="application/xml")

    page, sitemap = fleet.add(base, UrlInput(url=web.url("/0")), SitemapInput(url=web.url("/sitemap.xml")))

    assert [ItemStatus.COMPLETED] * 2 == [fleet.settled(item).status for item in (page, sitemap)]
    assert 3 == len(fleet.search(base, "northern rock"))
    assert 1 == web.most_at_once


@pytest.mark.parametrize("blow", [Blow.KILL_CHILD, Blow.KILL_WORKER])
def test_killed_fetch_is_parked_and_its_place_is_free(fleet, base, web, blow):
    """The page is a visible failure, another page of the same host is fetched, and a reindex fetches the first."""
    web.silent("/slow")
    [slow] = fleet.add(base, UrlInput(url=web.url("/slow")))
    job = running(fleet, slow)
    eventually(lambda: web.count("/slow"), "the server is asked")

    fleet.strike(blow, job.owner.pid)
    [other] = fleet.add(base, UrlInput(url=web.url("/0")))

    assert "indexing_interrupted" == fleet.settled(slow).error
    assert ItemStatus.COMPLETED == fleet.settled(other).status
    assert_promises(fleet)
    web.page("/slow", "<title>Late</title><p>The late page has come at last.</p>")
    fleet.service.reindex_items(base.id, [slow])
    eventually(lambda: fleet.service.item(slow).status is ItemStatus.COMPLETED, "the page is fetched again")
    fleet.delete(base, slow)  # its abandoned job is history now, which the promises of the next test do not know
    fleet.gone(slow)


def test_cancelled_fetch_stops_although_the_server_is_silent(fleet, base, web):
    """Within seconds, not when the server gives up."""
    web.silent("/slow")
    [slow] = fleet.add(base, UrlInput(url=web.url("/slow")))
    job = running(fleet, slow)
    eventually(lambda: web.count("/slow"), "the server is asked")

    fleet.service.cancel_job(job.id)

    eventually(lambda: fleet.service.job(job.id).status is JobStatus.CANCELLED, "the job is cancelled", seconds=8)
    assert_promises(fleet)
