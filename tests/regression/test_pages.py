"""Pages, from a web server of ours: the parts of 40, 48, 76, 85, 97, 106 and 107 that are about addresses."""

import pytest

from knowledge.catalog import items, paths
from knowledge.errors import InvalidOperation
from knowledge.model.inputs import Strategy, UrlInput
from knowledge.model.jobs import JobStatus
from knowledge.model.results import Conflict
from knowledge.model.status import ItemStatus, ItemType
from tests.pages import ARTICLE, article_served, local_web

EMPTY = "<html><body><div id=app></div></body></html>"


@pytest.fixture
def web():
    with article_served() as web:
        yield web


@pytest.fixture
def house(make_house):
    return make_house(web=local_web())


@pytest.fixture
def page(house, base, web):
    """The article, indexed."""
    (page,) = house.add(base, UrlInput(url=web.url("/lamp")))
    house.work()
    return house.item(page)


def test_040_a_captured_page_holds_its_name(house, base, page, write):
    """A file does not take the name of its snapshot."""
    (file,) = house.add(base, write("The lamp.md", "text"))

    assert ("The lamp.md", "The lamp_1.md") == (page.relative_path, file.relative_path)


def test_048_a_page_conflicts_by_its_address(house, base, web, page):
    """Told by the title of the snapshot; another address with the same title is no conflict."""
    web.page("/other", ARTICLE)

    same = house.service.add_items(base.id, [UrlInput(url=web.url("/lamp#x"))], strategy=Strategy.DETECT)
    other = house.service.add_items(base.id, [UrlInput(url=web.url("/other"))], strategy=Strategy.DETECT)

    assert ([Conflict(ItemType.URL, "The lamp")], []) == (same.conflicts, same.items)
    assert (0, 1) == (len(other.conflicts), len(other.items))


def test_076_a_captured_page_is_restored_without_a_fetch(house, base, web, page):
    """Its copy is the source; what was never captured is fetched."""
    house.add(base, UrlInput(url=web.url("/never")))
    house.work(hurry=True)

    receipt = house.service.restore_base(base.id, "again", "hashing")
    web.page("/never", ARTICLE.replace("The lamp", "The foghorn"))
    house.work(hurry=True)

    assert 1 == web.count("/lamp")
    assert {("The lamp", ItemStatus.COMPLETED), ("The foghorn", ItemStatus.COMPLETED)} == {
        (item.title, item.status) for item in house.items(receipt.base)
    }


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (404, "<h1>gone</h1>", "fetch_refused"),
        (500, "oh", "fetch_failed"),
        (200, "<title>Just a moment...</title><p>Checking your browser", "fetch_blocked"),
        (200, EMPTY, "no_text_extracted"),
    ],
)
def test_085_a_page_that_cannot_be_fetched_again_stays_searchable(house, base, web, page, status, body, code):
    """Item and job fail and say why; its last good text is found as before, and its copy is as it was."""
    stored = house.service.file_path(page.id).read_bytes()
    web.page("/lamp", body, status=status)

    house.service.reindex_items(base.id, [page.id])
    house.work(hurry=True)

    assert (ItemStatus.FAILED, code) == (house.item(page).status, house.item(page).error)
    assert (JobStatus.FAILED, code) == (house.job_of(page).status, house.job_of(page).error)
    assert stored == house.service.file_path(page.id).read_bytes()
    assert {page.id} == {hit.item_id for hit in house.service.search(base.id, "keeper midnight ink").hits}


def test_097_a_page_has_a_stored_copy_once_it_is_fetched(house, base, web):
    """Before that there is nothing to show."""
    (page,) = house.add(base, UrlInput(url=web.url("/lamp")))
    with pytest.raises(InvalidOperation) as refusal:
        house.service.file_path(page.id)
    house.work()

    assert (page.id, 400) == (refusal.value.details["item_id"], refusal.value.http_status)
    assert "burnt every night" in house.service.file_path(page.id).read_text()


def test_106_of_two_first_captures_the_slower_writes_nothing(house, base, web):
    """One stored copy, the one that the row names."""
    (page,) = house.add(base, UrlInput(url=web.url("/slow")))

    def answer(handler):
        faster = house.rt.files.stage_text(base.id, "The faster one.")
        house.rt.files.publish(faster, "faster.md")
        with house.db.write() as tx:
            items.set_path(tx, page.id, paths.reserve(tx, base.id, page.id, "faster.md"))
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.send_header("Content-Length", str(len(ARTICLE)))
        handler.end_headers()
        handler.wfile.write(ARTICLE.encode())

    web.by("/slow", answer)
    house.work()

    assert ("faster.md", ["faster.md"], 0) == (house.item(page).relative_path, house.raw(base), house.staged(base))
    assert "The faster one." == house.service.preview(page.id).text


def test_107_an_empty_page_fails_at_once_and_leaves_no_snapshot(house, base, web):
    """In any base: it is what a script, a login or a wall leaves."""
    web.page("/empty", EMPTY)
    (page,) = house.add(base, UrlInput(url=web.url("/empty")))
    house.work(hurry=True)

    assert (ItemStatus.FAILED, "no_text_extracted") == (house.item(page).status, house.item(page).error)
    assert (1, []) == (web.count("/empty"), house.raw(base))
