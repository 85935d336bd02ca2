"""Pages as people and programs add them: the real command line, the thin client, real workers, a web server on this machine."""

from collections.abc import Iterator

import pytest

from config import broker
from config.settings import load
from deploy.run import stack
from knowledge import KnowledgeClient, UrlInput
from knowledge.errors import InvalidUrl
from knowledge.interfaces.cli import ExitCode
from knowledge.model.status import ItemStatus, ItemType
from tests.fakes.web_server import WebServer
from tests.fleet import START_SECONDS
from tests.integration.test_cli import Cli, new_cli

LAMP = "<title>The lamp</title><p>The lamp of the northern rock was lit in {}, and it has burnt every night since.</p>"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """Everything running; pages of this machine may be fetched."""
    cli = new_cli(tmp_path_factory.mktemp("house") / "data")
    cli.environ["KNOWLEDGE_HTTP_ALLOW"] = '["127.0.0.1"]'
    stack.up(cli.environ, wait_seconds=START_SECONDS)
    yield cli
    stack.down(cli.environ)


@pytest.fixture
def web() -> Iterator[WebServer]:
    with WebServer() as web:
        web.page("/lamp", LAMP.format(1897))
        yield web


def test_page_from_add_to_delete(house, web):
    """Added by its address, shown with where it led, found, fetched again, explained, deleted."""
    house.base(name="pages")
    web.redirect("/old", "/lamp")

    [added] = house.json("item", "add", "pages", web.url("/old"), "--wait")["items"]
    shown = house.json("item", "show", added["id"])
    assert ("url", "The lamp", "completed", web.url("/lamp")) == (
        shown["type"], shown["title"], shown["status"], shown["capture"]["url"],
    )  # fmt: skip
    assert "leads to" in house.run("item", "show", added["id"]).stdout
    assert [added["id"]] == [hit["item_id"] for hit in house.json("search", "pages", "northern rock")["hits"]]
    assert "The lamp\n" in house.run("item", "list", "pages", "--type", "url").stdout

    web.page("/lamp", LAMP.format(1903))
    assert ExitCode.OK == house.run("item", "reindex", "pages", added["id"], "--wait").returncode
    assert "1903" in house.run("item", "preview", added["id"]).stdout

    assert ExitCode.OK == house.run("item", "delete", "pages", added["id"], "--wait").returncode
    assert [] == house.json("item", "list", "pages")["items"]


def test_sitemap_by_the_command_line(house, web):
    """Its pages are items inside it."""
    house.base(name="maps")
    web.page("/sitemap.xml", f"<urlset><url><loc>{web.url('/lamp')}</loc></url></urlset>", content_type="application/xml")

    [added] = house.json("item", "add", "maps", "--sitemap", web.url("/sitemap.xml"), "--wait")["items"]

    [page] = house.json("item", "list", "maps", "--in", added["id"])["items"]
    assert ("sitemap", "completed", "url", "The lamp") == (added["type"], added["status"], page["type"], page["title"])


def test_page_that_cannot_be_fetched_is_told_to_people(house, web):
    """The code, the status and a next step are in the output; the exit code says that it failed."""
    house.base(name="walls")
    web.page("/wall", "<title>Just a moment...</title><p>Enable JavaScript and cookies to continue", status=403)

    done = house.run("item", "add", "walls", web.url("/wall"), web.url("/missing"), "--wait")

    assert ExitCode.FAILED == done.returncode
    assert "fetch_blocked" in done.stderr
    assert "fetch_refused" in done.stderr


@pytest.mark.parametrize("address", ["ftp://example.com/x", "https://me:secret@example.com/", "file:///etc/passwd"])
def test_what_is_no_address_of_a_page_is_refused_by_the_command_line(tmp_path, address):
    """With its own code, and without repeating a password; no worker is needed for that."""
    cli = new_cli(tmp_path / "data")
    cli.base()

    done = cli.run("item", "add", "b", address)

    assert (ExitCode.FAILED, True, False) == (done.returncode, "invalid_url" in done.stderr, "secret" in done.stderr)


def test_page_by_the_client(house, web):
    """Through the broker, with the same errors; no import root is needed, because nothing of the fleet's disk is read."""
    settings = load(house.environ)
    base_id = house.base(name="remote")
    with KnowledgeClient(broker.endpoint(settings)) as client:
        receipt = client.add_items(base_id, [UrlInput(url=web.url("/lamp"))])
        done = client.wait(receipt, timeout_seconds=200)
        with pytest.raises(InvalidUrl):
            client.add_items(base_id, [UrlInput(url="ftp://example.com")])

        assert [] == list(done.failures)
        assert [(ItemType.URL, ItemStatus.COMPLETED)] == [(item.type, item.status) for item in client.list_items(base_id).items]
