"""A sitemap or feed as a container: its pages are items, and a reindex brings them in step."""

import pytest

from knowledge.ingestion.open_folders import OpenFolders
from knowledge.model.inputs import SitemapInput, UrlInput
from knowledge.model.status import ItemStatus, ItemType
from knowledge.pipeline.http.address import AllowList
from knowledge.pipeline.http.client import WebClient
from knowledge.pipeline.sources.children import Skipped, SkipReason
from knowledge.pipeline.sources.robots import Robots
from knowledge.pipeline.sources.url import Web
from tests.fakes.web_server import WebServer
from tests.house import House
from tests.pages import LIMITS


@pytest.fixture
def web():
    with WebServer() as web:
        for number in range(5):
            web.page(f"/{number}", page(number))
        yield web


@pytest.fixture
def house(tmp_path):
    client = WebClient(allow=AllowList.of(["127.0.0.1"]), limits=LIMITS)
    house = House(tmp_path / "house", web=Web(client, Robots(client), host_per_minute=1000, sitemap_pages=10))
    yield house
    house.rt.close()


@pytest.fixture
def base(house):
    return house.base(None)


def page(number, year=1897):
    told = f"<p>Lamp number {number} was lit in {year}, on the northern rock.</p>"
    return f"<title>Lamp {number}</title><h1>Lamp {number}</h1>{told}"


def names(web, *paths, path="/sitemap.xml"):
    inner = "".join(f"<url><loc>{web.url(one)}</loc></url>" for one in paths)
    web.page(path, f"<urlset>{inner}</urlset>", content_type="application/xml")


def feed(web, *paths):
    inner = "".join(f"<item><link>{web.url(one)}</link></item>" for one in paths)
    web.page("/sitemap.xml", f'<rss version="2.0"><channel>{inner}</channel></rss>', content_type="application/rss+xml")


def added(house, base, web):
    [item] = house.add(base, SitemapInput(url=web.url("/sitemap.xml")))
    house.work(hurry=True)
    return house.item(item)


def reindexed(house, base, item, **more):
    house.service.reindex_items(base.id, [item.id], **more)
    house.work(hurry=True)
    return house.item(item)


def children(house, base):
    return {item.title: item for item in house.items(base) if item.type is ItemType.URL}


def test_each_page_of_a_sitemap_becomes_an_item(house, base, web):
    """Fetched like any other, stored in the sitemap's folder, found by its text."""
    names(web, "/0", "/1")

    item = added(house, base, web)

    assert (ItemType.SITEMAP, ItemStatus.COMPLETED) == (item.type, item.status)
    assert ["127.0.0.1/Lamp 0.md", "127.0.0.1/Lamp 1.md"] == house.raw(base)
    assert {item.id} == {child.group_id for child in children(house, base).values()}
    assert "Lamp 1" == house.service.search(base.id, "number 1 lit").hits[0].title


def test_pages_with_one_title_get_different_names(house, base, web):
    """In one folder as elsewhere."""
    for path in ("/a", "/b"):
        web.page(path, page(0))
    names(web, "/0", "/a", "/b")

    added(house, base, web)

    assert ["127.0.0.1/Lamp 0.md", "127.0.0.1/Lamp 0_1.md", "127.0.0.1/Lamp 0_2.md"] == house.raw(base)


def test_reindex_is_a_synchronisation(house, base, web):
    """What is still named keeps its row and is fetched again; what is not named any more goes, what is new comes."""
    names(web, "/0", "/1")
    item = added(house, base, web)
    before = children(house, base)
    names(web, "/1", "/2")
    web.page("/1", page(1, 1903))

    item = reindexed(house, base, item)

    after = children(house, base)
    assert (ItemStatus.COMPLETED, {"Lamp 1", "Lamp 2"}) == (item.status, after.keys())
    assert before["Lamp 1"].id == after["Lamp 1"].id
    assert ["127.0.0.1/Lamp 1.md", "127.0.0.1/Lamp 2.md"] == house.raw(base)
    assert house.service.search(base.id, "1903").hits


def test_page_that_is_not_named_where_not_all_could_be_read_stays(house, base, web):
    """One of two sitemaps fails: what it named may be there all the same."""
    inner = "".join(f"<sitemap><loc>{web.url(path)}</loc></sitemap>" for path in ("/one.xml", "/two.xml"))
    web.page("/sitemap.xml", f"<sitemapindex>{inner}</sitemapindex>", content_type="application/xml")
    names(web, "/0", path="/one.xml")
    names(web, "/1", path="/two.xml")
    item = added(house, base, web)
    web.page("/two.xml", "oh", status=500)

    item = reindexed(house, base, item)

    assert {"Lamp 0", "Lamp 1"} == children(house, base).keys()
    assert {"unreadable": 1} == item.data["skipped"]["reasons"]


def test_page_that_falls_out_of_a_feed_stays(house, base, web):
    """A feed names its latest entries; the older ones are still pages."""
    feed(web, "/0", "/1")
    item = added(house, base, web)
    feed(web, "/1", "/2")

    item = reindexed(house, base, item)

    assert (ItemStatus.COMPLETED, {"Lamp 0", "Lamp 1", "Lamp 2"}) == (item.status, children(house, base).keys())
    assert "skipped" not in item.data


@pytest.mark.parametrize(("status", "body", "code"), [(404, "no", "fetch_refused"), (200, "<p>a page</p>", "corrupt")])
def test_sitemap_that_cannot_be_read_again_keeps_its_pages(house, base, web, status, body, code):
    """Gone, or another thing now: the container says so, its pages stay and are found."""
    names(web, "/0", "/1")
    item = added(house, base, web)
    web.page("/sitemap.xml", body, status=status)

    item = reindexed(house, base, item)

    assert (ItemStatus.FAILED, code) == (item.status, item.error)
    assert {ItemStatus.COMPLETED} == {child.status for child in children(house, base).values()}
    assert house.service.search(base.id, "northern rock").hits


def test_sitemap_that_has_become_empty_removes_nothing_unless_told_so(house, base, web):
    """As with folders."""
    names(web, "/0", "/1")
    item = added(house, base, web)
    names(web)

    item = reindexed(house, base, item)
    assert ("sources_unverifiable", 2) == (item.error, len(children(house, base)))
    reindexed(house, base, item, allow_empty=True)

    assert {} == children(house, base)


def test_page_that_fails_is_told_by_its_sitemap(house, base, web):
    """The others are completed."""
    names(web, "/0", "/missing")

    item = added(house, base, web)

    assert (ItemStatus.FAILED, "child_failed") == (item.status, item.error)
    assert ["fetch_refused"] == [failure.error for failure in house.service.failures(base.id)]


def test_pages_beyond_the_limit_are_told(house, base, web):
    """With the notice that a folder has when it leaves files out."""
    names(web, *(f"/{n}" for n in range(5)), *(f"/x{n}" for n in range(7)))

    item = added(house, base, web)

    assert {"over_limit": 2} == item.data["skipped"]["reasons"]
    assert 10 == len([one for one in house.items(base) if one.type is ItemType.URL])


def test_thousands_beyond_the_limit_are_counted_and_some_named(house, base, web):
    """Neither the row nor the time grows without a bound; a reindex says the same and removes nothing."""
    names(web, *(f"/{n}" for n in range(5)), *(f"/x{n}" for n in range(4000)))
    item = added(house, base, web)
    before = {one.id for one in house.items(base)}

    item = reindexed(house, base, item)

    skipped = item.data["skipped"]
    assert ({"over_limit": 3995}, 3995, 1000) == (skipped["reasons"], skipped["count"], len(skipped["sample"]))
    assert before == {one.id for one in house.items(base)}


def test_each_entry_left_out_is_looked_up_and_not_searched_for(house, base, web):
    """A thousand known pages and a million that are too many are no thousand million comparisons."""
    names(web, "/0", "/1")
    item = added(house, base, web)
    folders = OpenFolders(house.db, item)

    class Unwalkable(dict):
        def __iter__(self):
            raise AssertionError("walked")

        keys = values = items = __iter__

    folder = folders.enter("")
    folder.known, folder.by_source = Unwalkable(folder.known), Unwalkable(folder.by_source)
    for path in ("/0", "/9"):
        folders.left_out(Skipped(path, SkipReason.OVER_LIMIT, source=web.url(path)))

    assert {children(house, base)["Lamp 0"].id} == folder.seen


def test_robots_are_obeyed_for_pages_that_nobody_named(house, base, web):
    """A sitemap's pages follow robots.txt; a page that a person adds is that person's own visit."""
    web.page("/robots.txt", "User-agent: *\nDisallow: /1\n", content_type="text/plain")
    names(web, "/0", "/1")

    added(house, base, web)
    [single] = house.add(base, UrlInput(url=web.url("/1")))
    house.work(hurry=True)

    assert ["fetch_disallowed"] == [failure.error for failure in house.service.failures(base.id)]
    assert ItemStatus.COMPLETED is house.item(single).status
    assert 1 == web.count("/robots.txt")


def test_robots_that_cannot_be_read_allow_nothing(house, base, web):
    """RFC 9309: a server error is no permission; a missing file is."""
    web.page("/robots.txt", "oh", status=500)
    names(web, "/0")

    item = added(house, base, web)

    assert ("child_failed", 0) == (item.error, web.count("/0"))


def test_pages_come_at_the_pace_of_their_host(tmp_path, web):
    """The container waits for its pages, and they wait in the ledger."""
    client = WebClient(allow=AllowList.of(["127.0.0.1"]))
    house = House(tmp_path / "slow", web=Web(client, Robots(client), host_per_minute=3))
    base = house.base(None)
    names(web, "/0", "/1", "/2", "/3")
    [item] = house.add(base, SitemapInput(url=web.url("/sitemap.xml")))

    house.work()

    assert ItemStatus.PROCESSING is house.item(item).status
    assert 2 == sum(child.status is ItemStatus.COMPLETED for child in children(house, base).values())


def test_deleted_sitemap_leaves_nothing(house, base, web):
    """Pages, files and text."""
    names(web, "/0", "/1")
    item = added(house, base, web)

    house.service.delete_items(base.id, [item.id])
    house.work()

    assert ([], []) == (house.items(base), house.raw(base))


def test_restored_base_reads_the_sitemap_again(house, base, web):
    """As a directory is scanned again."""
    names(web, "/0")
    added(house, base, web)

    receipt = house.service.restore_base(base.id, "again", None)
    house.work(hurry=True)

    assert {"Lamp 0"} == {item.title for item in house.items(receipt.base) if item.type is ItemType.URL}
