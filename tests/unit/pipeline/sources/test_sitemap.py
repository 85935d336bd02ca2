"""What sitemaps and feeds name, in all their forms, and what becomes of broken and hostile ones."""

import gzip
from collections import Counter
from dataclasses import replace

import pytest

from knowledge.errors import CorruptSource, FetchBlocked, FetchFault, FetchSlowDown, FetchTooLarge
from knowledge.model.skip_reason import SkipReason
from knowledge.pipeline.http.address import AllowList
from knowledge.pipeline.http.client import WebClient
from knowledge.pipeline.sources import sitemap
from knowledge.pipeline.sources.children import Child, Partial, Skipped
from knowledge.pipeline.sources.robots import Robots
from knowledge.pipeline.sources.sitemap import SitemapChildren
from knowledge.pipeline.sources.url import Web
from tests.fakes.web_server import WebServer
from tests.pages import LIMITS

XML = '<?xml version="1.0" encoding="UTF-8"?>'
NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def urlset(*addresses: str) -> str:
    return f"{XML}<urlset {NAMESPACE}>{''.join(f'<url><loc>{address}</loc></url>' for address in addresses)}</urlset>"


def index(*addresses: str) -> str:
    inner = "".join(f"<sitemap><loc>{address}</loc></sitemap>" for address in addresses)
    return f"{XML}<sitemapindex {NAMESPACE}>{inner}</sitemapindex>"


@pytest.fixture
def web():
    with WebServer() as web:
        yield web


@pytest.fixture
def scan(web):
    client = WebClient(allow=AllowList.of(["127.0.0.1"]), limits=replace(LIMITS, max_bytes=1_000_000))

    def scan(path="/sitemap.xml", *, limit=1000):
        return list(SitemapChildren(web.url(path), Web(client, Robots(client), sitemap_pages=limit)).scan(lambda: None))

    return scan


def pages(entries):
    return [entry.source for entry in entries if isinstance(entry, Child)]


FORMS = {
    "sitemap": urlset("https://a.test/1", " \n https://a.test/2?x=1&amp;y=2 "),
    "without a namespace": "<urlset><url><loc>https://a.test/1</loc></url><url><loc>https://a.test/2?x=1&amp;y=2</loc></url></urlset>",
    "with pictures": urlset("https://a.test/1", "https://a.test/2?x=1&amp;y=2").replace(
        "</loc></url>", '</loc><image:image xmlns:image="i"><image:loc>https://a.test/p.png</image:loc></image:image></url>'
    ),
    "RSS 2.0": f"""{XML}<rss version="2.0"><channel><link>https://a.test/</link><image><url>https://a.test/i</url></image>
        <item><link>https://a.test/1</link><guid isPermaLink="false">7</guid></item>
        <item><guid>https://a.test/2?x=1&amp;y=2</guid></item></channel></rss>""",
    "RSS 1.0": f"""{XML}<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/">
        <channel rdf:about="https://a.test/"><link>https://a.test/</link></channel>
        <item rdf:about="https://a.test/1"></item><item rdf:about="x"><link>https://a.test/2?x=1&amp;y=2</link></item></rdf:RDF>""",
    "Atom": f"""{XML}<feed xmlns="http://www.w3.org/2005/Atom"><link href="https://a.test/"/>
        <entry><link rel="self" href="https://a.test/self"/><link href="https://a.test/1"/></entry>
        <entry><id>https://a.test/2?x=1&amp;y=2</id></entry></feed>""",
    "a list": "https://a.test/1\r\n\r\nhttps://a.test/2?x=1&y=2\n",
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_pages_are_found_in_each_form(web, scan, form):
    """Addresses of pages only, not of pictures, of the site, or of the feed itself."""
    web.page("/sitemap.xml", form, content_type="application/xml")

    assert ["https://a.test/1", "https://a.test/2?x=1&y=2"] == pages(scan())


@pytest.mark.parametrize("content_type", ["application/xml", "text/html", "application/octet-stream", None])
def test_packed_sitemap_is_unpacked(web, scan, content_type):
    """By its bytes, whatever it is called."""
    web.page("/sitemap.xml.gz", gzip.compress(urlset("https://a.test/1").encode()), content_type=content_type)

    assert ["https://a.test/1"] == pages(scan("/sitemap.xml.gz"))


def test_sitemap_packed_in_parts_is_read_to_its_end(web, scan):
    """As `cat *.gz` makes it; what only a later part names has not vanished."""
    web.page("/sitemap.txt.gz", gzip.compress(b"https://a.test/1\n") + gzip.compress(b"https://a.test/2\n"))

    assert ["https://a.test/1", "https://a.test/2"] == pages(scan("/sitemap.txt.gz"))


def test_packed_list_that_breaks_off_is_an_error(web, scan):
    """Else every page behind the break would be taken for gone."""
    lines = "".join(f"https://a.test/{number:x}\n" for number in range(5_000))
    web.page("/sitemap.txt.gz", gzip.compress(lines.encode())[:-4_000])

    with pytest.raises(CorruptSource):
        scan("/sitemap.txt.gz")


def test_index_leads_to_its_sitemaps(web, scan):
    """In their order; a page named twice is one page, and fragments are no difference."""
    web.page("/sitemap.xml", index("/one.xml", web.url("/two.xml")), content_type="application/xml")
    web.page("/one.xml", urlset("https://a.test/1", "https://a.test/2#part"), content_type="application/xml")
    web.page("/two.xml", urlset("https://a.test/2", "https://a.test/3"), content_type="application/xml")

    assert ["https://a.test/1", "https://a.test/2", "https://a.test/3"] == pages(scan())


def test_ring_of_indexes_ends(web, scan):
    """Each file is read once."""
    web.page("/sitemap.xml", index("/sitemap.xml", "/other.xml"), content_type="application/xml")
    web.page("/other.xml", index("/sitemap.xml", "/other.xml"), content_type="application/xml")

    assert [] == pages(scan())
    assert (2, 1) == (web.count("/sitemap.xml"), web.count("/other.xml"))


def test_sitemap_of_an_index_that_fails_hides_what_it_names(web, scan):
    """The others are taken; nothing can be said to have vanished."""
    web.page("/sitemap.xml", index("/gone.xml", "/two.xml"), content_type="application/xml")
    web.page("/two.xml", urlset("https://a.test/2"), content_type="application/xml")

    entries = scan()

    assert ["https://a.test/2"] == pages(entries)
    assert Partial("") in entries
    assert [SkipReason.UNREADABLE] == [entry.reason for entry in entries if isinstance(entry, Skipped)]


def test_host_that_asks_to_wait_in_the_middle_is_waited_for(web, scan):
    """What it names is not taken for unreadable."""
    web.page("/sitemap.xml", index("/busy.xml"), content_type="application/xml")
    web.page("/busy.xml", "later", status=429, headers={"Retry-After": "9"})

    with pytest.raises(FetchSlowDown):
        scan()


def test_feed_tells_of_its_latest_entries_only(web, scan):
    """What is not in it any more has not vanished."""
    web.page("/sitemap.xml", FORMS["Atom"], content_type="application/xml")

    assert Partial("") in scan()


def test_whole_sitemap_is_all_there_is(web, scan):
    """What it does not name any more has vanished."""
    web.page("/sitemap.xml", FORMS["sitemap"], content_type="application/xml")

    assert Partial("") not in scan()


@pytest.mark.parametrize("cut", [60, 150, 400])
def test_sitemap_that_breaks_off_is_an_error(web, scan, cut):
    """Otherwise every page behind the break would be taken for removed."""
    web.page("/sitemap.xml", urlset(*(f"https://a.test/{n}" for n in range(100)))[: cut * 4], content_type="application/xml")

    with pytest.raises(CorruptSource):
        scan()


@pytest.mark.parametrize(
    "body", ["<html><body>Hello</body></html>", "<?xml version='1.0'?><note>x</note>", "hello", "<", '{"a": 1}', "\x00\x01"]
)
def test_what_is_no_sitemap_is_an_error(web, scan, body):
    """A page, other XML, words."""
    web.page("/sitemap.xml", body)

    with pytest.raises((CorruptSource, FetchFault)):
        scan()


def test_wall_in_place_of_a_sitemap_is_told(web, scan):
    """Not as a damaged sitemap."""
    web.page("/sitemap.xml", "<html><title>Just a moment...</title><body>Checking your browser</body></html>")

    with pytest.raises(FetchBlocked):
        scan()


def test_more_pages_than_the_limit_are_left_out_and_named(web, scan):
    """The first ones are taken."""
    web.page("/sitemap.xml", urlset(*(f"https://a.test/{n}" for n in range(5))), content_type="application/xml")

    entries = scan(limit=2)

    assert ["https://a.test/0", "https://a.test/1"] == pages(entries)
    left = [entry for entry in entries if isinstance(entry, Skipped)]
    assert ([SkipReason.OVER_LIMIT] * 3, "https://a.test/2") == ([entry.reason for entry in left], left[0].source)


@pytest.mark.parametrize("address", ["ftp://a.test/", "javascript:x", "https://me:pw@a.test/", "http://[broken"])
def test_address_that_is_none_is_left_out(web, scan, address):
    """The others are taken."""
    web.page("/sitemap.xml", urlset(address, "https://a.test/1"), content_type="application/xml")

    entries = scan()

    assert ["https://a.test/1"] == pages(entries)
    assert [SkipReason.INVALID] == [entry.reason for entry in entries if isinstance(entry, Skipped)]


def test_entities_are_not_resolved(web, scan):
    """Neither bombs nor files of this machine."""
    bomb = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 9))
    markup = f'<?xml version="1.0"?><!DOCTYPE u [<!ENTITY e0 "x">{bomb}<!ENTITY f SYSTEM "file:///etc/passwd">]>'
    web.page(
        "/sitemap.xml",
        markup + "<urlset><url><loc>https://a.test/&e8;</loc></url><url><loc>https://a.test/&f;</loc></url></urlset>",
        content_type="application/xml",
    )

    try:
        found = pages(scan())
    except CorruptSource:
        found = []

    assert not any("root:" in page or len(page) > 200 for page in found)


def test_packed_bomb_is_cut_off(web, scan):
    """A sitemap has the limits of any other fetch, unpacked as well."""
    web.page("/sitemap.xml", gzip.compress(b"<urlset>" + b" " * 20_000_000), content_type="application/gzip")

    with pytest.raises(FetchTooLarge):
        scan()


def left_out(entries):
    return [(entry.source, entry.reason) for entry in entries if isinstance(entry, Skipped)]


def test_no_more_addresses_are_looked_at_than_can_be_remembered(web, scan, monkeypatch):
    """A million of them: the rest is told as left out, further files are not even asked for, and nothing has vanished."""
    monkeypatch.setattr(sitemap, "MAX_ADDRESSES", 50)
    web.page("/sitemap.xml", index("/one.xml", "/two.xml"), content_type="application/xml")
    web.page("/one.xml", urlset(*(f"https://a.test/{n}" for n in range(2000))), content_type="application/xml")
    web.page("/two.xml", urlset("https://a.test/last"), content_type="application/xml")

    entries = scan(limit=10)

    assert (10, 0) == (len(pages(entries)), web.count("/two.xml"))
    assert Partial("") in entries
    assert [(web.url(path), SkipReason.OVER_LIMIT) for path in ("/one.xml", "/two.xml")] == left_out(entries)[-2:]
    assert len(entries) < 100


def test_limit_of_addresses_follows_the_limit_of_pages(web, scan, monkeypatch):
    """Whoever wants many pages gets them."""
    monkeypatch.setattr(sitemap, "MAX_ADDRESSES", 50)
    web.page("/sitemap.xml", urlset(*(f"https://a.test/{n}" for n in range(300))), content_type="application/xml")

    assert 300 == len(pages(scan(limit=300)))


def test_files_that_come_too_late_are_not_asked_for(web, scan, monkeypatch):
    """Five hundred slow ones must not hold a worker for hours; the first file alone has the time of any fetch."""
    monkeypatch.setattr(sitemap, "MAX_SECONDS", 0.0)
    web.page("/sitemap.xml", index("/one.xml", "/two.xml"), content_type="application/xml")

    entries = scan()

    assert [(web.url(path), SkipReason.OVER_LIMIT) for path in ("/one.xml", "/two.xml")] == left_out(entries)
    assert (1, True) == (len(web.asked), Partial("") in entries)


def test_wide_and_deep_indexes_end(web, scan, monkeypatch):
    """Each level is bounded, and all files together are."""
    monkeypatch.setattr(sitemap, "MAX_FILES", 10)
    web.page("/sitemap.xml", index(*(f"/wide{n}.xml" for n in range(50)), "/0.xml"), content_type="application/xml")
    for number in range(50):
        web.page(f"/wide{number}.xml", index("/0.xml", f"/wide{number + 1}.xml"), content_type="application/xml")

    entries = scan()

    assert len(web.asked) <= 10
    assert [] == pages(entries)
    assert SkipReason.OVER_LIMIT in {reason for _, reason in left_out(entries)}


def test_chain_of_indexes_ends_at_its_depth(web, scan):
    """What lies deeper is told and not asked for."""
    for number in range(9):
        name = "/sitemap.xml" if number == 0 else f"/{number}.xml"
        web.page(name, index(f"/{number + 1}.xml"), content_type="application/xml")

    entries = scan()

    assert (4, [(web.url("/4.xml"), SkipReason.OVER_LIMIT)]) == (len(web.asked), left_out(entries))


def test_sitemap_of_an_inside_host_is_not_asked_for(web, scan):
    """An index leads nowhere that a page could not lead to; pages of other hosts are children like any."""
    inside = ("http://10.0.0.1/x.xml", "http://[::1]/x.xml", "http://127.0.0.2/x.xml", "file:///etc/passwd")
    web.page("/sitemap.xml", index(*inside, "/two.xml"), content_type="application/xml")
    web.page("/two.xml", urlset("https://b.test/1", "http://10.0.0.1/admin"), content_type="application/xml")

    entries = scan()

    assert ["https://b.test/1", "http://10.0.0.1/admin"] == pages(entries)
    assert {SkipReason.UNREADABLE: 3, SkipReason.INVALID: 1} == Counter(reason for _, reason in left_out(entries))


@pytest.mark.parametrize("root", ["urlset", "rss"])
def test_entry_that_never_ends_is_damage(web, scan, monkeypatch, root):
    """All of an entry is in memory until it ends."""
    monkeypatch.setattr(sitemap, "MAX_ELEMENTS", 1000)
    inner = {"urlset": "url", "rss": "item"}[root]
    web.page("/sitemap.xml", f"<{root}><{inner}>{'<a/>' * 5000}", content_type="application/xml")

    with pytest.raises(CorruptSource, match="never ends"):
        scan()


@pytest.mark.parametrize("junk", ["<junk><a/></junk>", "<url><a/></url>", "<sitemap/>", "<!-- no --><x y='z'/>"])
def test_what_names_nothing_is_forgotten_as_well(junk):
    """Memory does not grow with a file of elements that nobody knows."""
    named = sitemap._read_xml(f"<urlset>{junk * 5000}<url><loc>https://a.test/</loc></url></urlset>".encode(), "x")

    assert "https://a.test/" == next(named).address
    assert len(named.gi_frame.f_locals["element"].getparent()) <= 2


def test_unknown_root_is_not_read_to_its_end():
    """Whatever comes after it would only fill the memory."""
    with pytest.raises(CorruptSource, match="neither"):
        list(sitemap._read_xml(f"<html>{'<p>x</p>' * 10}".encode(), "x"))
