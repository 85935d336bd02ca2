"""Pages: fetched when they are indexed, kept as snapshots, fetched again onto the same path."""

from dataclasses import replace
from datetime import timedelta
from io import BytesIO

import pytest

from knowledge.errors import InvalidUrl
from knowledge.ingestion.capture import file_name, with_capture
from knowledge.interfaces.cli.wait import next_delayed
from knowledge.model.documents import Document, ReadResult
from knowledge.model.inputs import Strategy, UrlInput
from knowledge.model.jobs import JobStatus
from knowledge.model.status import ItemStatus, ItemType
from knowledge.pipeline.conversion.ocr import OcrProcessor
from knowledge.pipeline.snapshot import strip
from tests.house import House
from tests.pages import ARTICLE, article_served, local_web
from tests.scans import picture
from tests.unit.pipeline.readers.made import pdf
from tests.waiting import eventually


@pytest.fixture
def web():
    with article_served() as web:
        yield web


@pytest.fixture
def fetching():
    return local_web()


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
    assert ('timestamp: "2', "---") == (lines[4][:13], lines[5])
    assert strip("\n".join(lines)).startswith("# The lamp\n\nThe lamp of the northern rock")


# what is fetched again -------------------------------------------------------------------------------------------------------


def indexed(house, base, web, path="/lamp"):
    [item] = house.add(base, UrlInput(url=web.url(path)))
    house.work()
    assert ItemStatus.COMPLETED is house.item(item).status
    return house.item(item)


def reindexed(house, base, item, **more):
    house.service.reindex_items(base.id, [item.id])
    house.work(**more)
    return house.item(item)


def found(house, base, words):
    return [hit.title for hit in house.service.search(base.id, words).hits]


def test_reindex_fetches_the_page_again_onto_the_same_path(house, base, web):
    """Another title gives no other name: agents keep the address they know."""
    item = indexed(house, base, web)
    web.page("/lamp", ARTICLE.replace("The lamp", "The lantern").replace("1897", "1903"))

    again = reindexed(house, base, item)

    assert (item.relative_path, "The lantern") == (again.relative_path, again.title)
    assert b"1903" in stored(house, again)
    assert ["The lamp.md"] == house.raw(base)
    assert found(house, base, "lit in 1903")


def test_page_that_failed_is_fetched_by_a_reindex(house, base, web):
    """What never had a copy gets one when the page is there at last."""
    [item] = house.add(base, UrlInput(url=web.url("/later")))
    house.work(hurry=True)
    assert "fetch_refused" == house.item(item).error
    web.page("/later", ARTICLE)

    again = reindexed(house, base, item)

    assert (ItemStatus.COMPLETED, "The lamp.md") == (again.status, again.relative_path)


def test_page_that_is_unchanged_pays_for_nothing(house, base, web):
    """The time of the capture is no part of the text: nothing is embedded again."""
    item = indexed(house, base, web)
    index = house.rt.index(base)
    before = [stored.unit.text_hash for stored in index.units(item.id)]

    reindexed(house, base, item)

    assert before == [stored.unit.text_hash for stored in index.units(item.id)]


# what is behind an address ---------------------------------------------------------------------------------------------------


def failed(house, base, web, path, **more):
    [item] = house.add(base, UrlInput(url=web.url(path)))
    house.work(hurry=True, **more)
    return house.item(item)


def test_pdf_behind_a_page_address_goes_to_its_reader(house, base, web):
    """The bytes decide, not the address and not the header."""
    web.page("/report.html", pdf("Forty terns were ringed."), content_type="text/html")

    item = indexed(house, base, web, "/report.html")

    assert ("report.pdf", "application/pdf") == (item.relative_path, item.quality.media_type)
    assert ["report"] == [title.partition(".")[0] for title in found(house, base, "terns ringed")]


def test_page_that_is_declared_a_pdf_is_a_page(house, base, web):
    """A server that mislabels its pages does not make them unreadable."""
    web.page("/lamp.pdf", ARTICLE, content_type="application/pdf")

    assert "The lamp.md" == indexed(house, base, web, "/lamp.pdf").relative_path


def test_table_without_a_charset_is_read_as_utf8(house, base, web):
    """The standard's Latin-1 for text without a charset is no file's charset any more."""
    web.page("/prices.csv", "Ort,Preis\nKöln,12\nŁódź,9\n".encode(), content_type="text/csv")

    item = indexed(house, base, web, "/prices.csv")

    assert "prices.csv" == item.relative_path
    assert found(house, base, "Łódź")


def test_text_in_the_charset_of_its_header_is_kept_as_utf8(house, base, web):
    """The header is the only place that knows the charset, and is not stored."""
    web.page("/wort", "Привет, маяк на северной скале.".encode("cp1251"), content_type="text/plain; charset=windows-1251")

    item = indexed(house, base, web, "/wort")

    assert "wort.txt" == item.relative_path
    assert "Привет, маяк" in stored(house, item).decode()


def test_name_of_a_download_is_the_one_it_is_given(house, base, web):
    """RFC 6266, with the encoded form that names other than ASCII need."""
    header = {"Content-Disposition": "attachment; filename*=UTF-8''%E7%81%AF%E5%A1%94.txt; filename=x.txt"}
    web.page("/download?id=7", "The tower of the lamp.", content_type="application/octet-stream", headers=header)

    assert "灯塔.txt" == indexed(house, base, web, "/download?id=7").relative_path


def test_page_of_the_limit_and_one_byte_more(house, base, web):
    """A page that is too large is refused with its size, and nothing is stored."""
    padding = "<!--" + "x" * 999_000 + "-->"
    web.page("/fits", ARTICLE + padding)
    web.page("/more", ARTICLE + padding + "y" * 1_000_000)

    indexed(house, base, web, "/fits")
    assert ("fetch_too_large", None) == ((item := failed(house, base, web, "/more")).error, item.relative_path)


def test_endless_page_ends(house, base, web):
    """Chunks for ever are cut off by size."""
    web.endless("/endless")

    assert "fetch_too_large" == failed(house, base, web, "/endless").error


def test_packed_page_is_unpacked(house, base, web):
    """gzip, as most servers send it."""
    web.gzipped("/packed", ARTICLE.encode())

    assert "The lamp.md" == indexed(house, base, web, "/packed").relative_path


@pytest.mark.parametrize("status", [200, 403, 503])
def test_wall_against_robots_is_not_content(house, base, web, status):
    """Its text would be found as if the page said it."""
    wall = "<html><title>Attention Required! | Cloudflare</title><h1>Sorry, you have been blocked</h1><p>Ray ID 1</html>"
    web.page("/wall", wall, status=status)

    item = failed(house, base, web, "/wall")

    assert ("fetch_blocked", None, []) == (item.error, item.relative_path, house.raw(base))
    assert [] == found(house, base, "sorry blocked")


def test_inside_of_the_network_is_not_fetched(tmp_path, web):
    """Without KNOWLEDGE_HTTP_ALLOW even this machine's own pages are refused."""
    house = House(tmp_path / "strict")
    base = house.base()
    [item] = house.add(base, UrlInput(url=web.url("/lamp")))

    house.work()

    assert ("address_refused", []) == (house.item(item).error, web.asked)


def test_redirect_is_followed_and_the_item_keeps_the_address_it_was_given(house, base, web):
    """Where it led to is told, not taken over: tomorrow it may lead elsewhere."""
    web.redirect("/old", "/lamp")

    item = indexed(house, base, web, "/old")

    assert (web.url("/old"), web.url("/lamp")) == (item.source, item.data["capture"]["url"])


def test_page_that_only_sends_on_is_followed(house, base, web):
    """As browsers do; the address that it leads to is vetted like any other."""
    web.page("/moved", '<html><head><meta http-equiv="Refresh" content="0; URL=\'lamp\'"></head><body>Moved.</body></html>')
    web.page("/ring", '<meta http-equiv="refresh" content="0;url=/round"><p>Round and round.')
    web.page("/round", '<meta http-equiv="refresh" content="0;url=/ring"><p>Round and round.')
    web.page("/live", f'<meta http-equiv="refresh" content="5;url={web.url("/live")}"><title>Live</title><p>All is well.')
    web.page("/inside", '<meta http-equiv="refresh" content="0;url=http://169.254.169.254/"><p>Inside.')

    assert "The lamp.md" == indexed(house, base, web, "/moved").relative_path
    assert "Live.md" == indexed(house, base, web, "/live").relative_path
    assert "fetch_refused" == failed(house, base, web, "/ring").error
    assert "address_refused" == failed(house, base, web, "/inside").error


def test_quality_tells_charset_and_language(house, base, web):
    """What was found out about the page is shown with its item."""
    web.page(
        "/pl", ARTICLE.replace('lang="en"', 'lang="pl-PL"').encode("iso-8859-2"), content_type="text/html; charset=iso-8859-2"
    )

    quality = indexed(house, base, web, "/pl").quality

    assert ("text/html", "pl", "readability") == (quality.media_type, quality.language, quality.converter)


# waiting ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("status", "header"), [(429, {"Retry-After": "7"}), (503, {"Retry-After": "7"}), (429, {})])
def test_server_that_asks_to_wait_uses_up_no_attempt(house, base, web, status, header):
    """The job is put back for as long as the server says, and everybody else who would ask it waits as well."""
    web.page("/lamp", "slow down", status=status, headers=header)
    [item] = house.add(base, UrlInput(url=web.url("/lamp")))
    house.deliver(house.sender.waiting.popleft())
    job = house.job_of(item)
    asked_for = timedelta(seconds=float(header.get("Retry-After", 30)))

    assert (JobStatus.PENDING, 0, "fetch_slow_down") == (job.status, job.attempt, job.error)
    assert job.started_at is not None
    assert job.scheduled_at - job.started_at >= asked_for


def test_pages_of_one_host_wait_for_their_turn_without_a_slot(tmp_path, fetching, web):
    """Of five pages two may be fetched in a minute; the others are put back, no attempt used up, and told why."""
    house = House(tmp_path / "paced", web=replace(fetching, host_per_minute=2))
    base = house.base(None)
    for number in range(5):
        web.page(f"/{number}", ARTICLE)
    items = house.add(base, *(UrlInput(url=web.url(f"/{number}")) for number in range(5)))
    house.work()

    waiting = [house.job_of(item) for item in items if house.item(item).status is not ItemStatus.COMPLETED]

    assert (2, 3) == (len(web.asked), len(waiting))
    assert {(JobStatus.PENDING, 0, "rate_limited")} == {(job.status, job.attempt, job.error) for job in waiting}
    assert "rate_limited" in house.service.why(waiting[0].only_item).explanation


@pytest.mark.parametrize("which", [0, 1], ids=["was told so itself", "waits behind another one"])
def test_whoever_knows_better_has_the_server_asked_again(house, base, web, which):
    """By `jobs requeue`, of any page that waits for that server; what it says then counts again."""
    for path in ("/lamp", "/rock"):
        web.page(path, "slow down", status=429, headers={"Retry-After": "900"})
    waiting = house.add(base, *(UrlInput(url=web.url(path)) for path in ("/lamp", "/rock")))
    house.work()
    asked = len(web.asked)
    for path in ("/lamp", "/rock"):
        web.page(path, ARTICLE)
    house.service.requeue_job(house.job_of(waiting[which]).id)
    house.work()

    assert 1 == asked
    assert ItemStatus.COMPLETED is house.item(waiting[which]).status
    assert JobStatus.PENDING is house.job_of(waiting[1 - which]).status


def test_who_waits_for_a_page_is_told_how_long_its_server_lets_wait(house, base, web):
    """By the name of the page and what it waits for, once all that waits in the base has been put off."""
    web.page("/lamp", "slow down", status=429, headers={"Retry-After": "900"})
    house.add(base, UrlInput(url=web.url("/lamp")))
    house.work()
    told = next_delayed(house.service, base)
    house.notes(base, "There is other work.")

    assert told is not None
    assert f"{web.url('/lamp')}: It waits until " in told
    assert "fetch_slow_down" in told
    assert next_delayed(house.service, base) is None


def test_moment_of_waiting_is_not_worth_a_word(house, base, web):
    """Pages of one host wait for their turn all the time."""
    web.page("/lamp", "slow down", status=429, headers={"Retry-After": "7"})
    house.add(base, UrlInput(url=web.url("/lamp")))
    house.work()

    assert next_delayed(house.service, base) is None


# what happens meanwhile ------------------------------------------------------------------------------------------------------


def test_item_that_is_deleted_while_it_is_fetched_leaves_nothing(house, base, web):
    """The fetched page is dropped; no file and no text is left."""
    [item] = house.add(base, UrlInput(url=web.url("/slow")))

    def answer(handler):
        house.service.delete_items(base.id, [item.id])
        body = ARTICLE.encode()
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    web.by("/slow", answer)
    house.work()

    assert (False, [], 0) == (house.exists(item), house.raw(base), house.staged(base))


def test_picture_behind_an_address_is_read_like_a_file(tmp_path, fetching, web):
    """It is stored under its own suffix, and converted where pictures are."""
    house = House(tmp_path / "ocr", web=fetching, processors=[OcrProcessor(slots=tmp_path / "slots")])
    base = house.base(None)
    scanned = BytesIO()
    picture("The fog signal sounds").save(scanned, "PNG")
    web.page("/scan?page=1", scanned.getvalue(), content_type="image/png")
    [item] = house.add(base, UrlInput(url=web.url("/scan?page=1")))

    def completed():
        house.work(hurry=True)
        return house.item(item).status is ItemStatus.COMPLETED

    eventually(completed, "the picture is read", seconds=120)

    assert ["scan.png", "The fog signal sounds"] == [
        house.item(item).relative_path,
        house.service.preview(item.id).text.strip(),
    ]
    house.rt.close()


def test_page_is_not_fetched_again_when_a_later_step_fails(tmp_path, fetching, web, paid_spec, paid_server):
    """A second execution of the same job goes on with what the first has stored."""
    house = House(tmp_path / "paid", paid_spec, web=fetching)
    base = house.base("paid")
    item = indexed(house, base, web)
    web.page("/lamp", ARTICLE.replace("1897", "1903"))
    paid_server.behave({"behaviour": "status", "status": 500, "times": 1})

    again = reindexed(house, base, item, hurry=True)

    assert (ItemStatus.COMPLETED, 2) == (again.status, web.count("/lamp"))


# conflicts, duplicates, restore ----------------------------------------------------------------------------------------------


def test_addresses_that_differ_in_their_fragment_are_one_page(house, base, web):
    """Also in a slash after the host, a default port, and the case of the host."""
    items = house.add(base, *(UrlInput(url=web.url(path)) for path in ("/lamp", "/lamp#top", "/lamp#end")))

    assert [web.url("/lamp")] == [item.source for item in items]


def test_same_address_added_again_is_another_item_with_another_name(house, base, web):
    """As with files: rename gives the next free name."""
    first = indexed(house, base, web)
    second = indexed(house, base, web)

    assert ("The lamp.md", "The lamp_1.md") == (first.relative_path, second.relative_path)


def test_replace_puts_the_page_in_the_place_of_the_old_one(house, base, web):
    """The old item is gone, and its name is free for the new one."""
    old = indexed(house, base, web)

    house.service.add_items(base.id, [UrlInput(url=web.url("/lamp"))], strategy=Strategy.REPLACE)
    house.work()

    [item] = house.items(base)
    assert (False, "The lamp.md") == (item.id == old.id, item.relative_path)


def test_first_embedder_is_given_to_pages_without_fetching_them(house, web):
    """A backfill needs vectors, not news."""
    base = house.base(None)
    indexed(house, base, web)

    house.service.enable_embedder(base.id, "hashing")
    house.work()

    assert 1 == web.count("/lamp")


@pytest.mark.parametrize("url", ["ftp://example.com/a", "file:///etc/passwd", "https://user:pw@example.com/", "example.com"])
def test_what_is_no_address_of_a_page_is_refused_at_once(house, base, url):
    """All or nothing: no row is made."""
    with pytest.raises(InvalidUrl):
        house.add(base, UrlInput(url=url))
    assert [] == house.items(base)


@pytest.mark.parametrize("odd", [None, "many", [3], {"of": 3}, -1, 1.5, 10**30])
def test_odd_capture_of_an_old_row_fails_no_job(house, base, odd):
    """What an import of an earlier version let in is not believed."""
    [note] = house.notes(base, "The lamp.")
    known = dict.fromkeys(("charset", "language", "converter", "replaced_characters", "name", "media_type", "job"), odd)
    page = replace(note, type=ItemType.URL, data={"capture": known})
    read = ReadResult([Document("The lamp.")], "text/markdown", "text")

    quality = with_capture(page, read).quality

    text = odd if isinstance(odd, str) else None
    assert (text, text, text) == (quality.charset, quality.language, quality.converter)
    assert (odd if odd == 10**30 else 0) == quality.replaced_characters
    assert isinstance(file_name(page), str)
