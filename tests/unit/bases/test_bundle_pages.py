"""Pages in bundles: with their copies they are not fetched, without one they are; addresses are checked like anybody's."""

import json
import zipfile

import pytest

from knowledge.errors import BundleUnreadable
from knowledge.model.status import ItemStatus
from knowledge.pipeline.http.address import AllowList
from knowledge.pipeline.http.client import WebClient
from knowledge.pipeline.sources.robots import Robots
from knowledge.pipeline.sources.url import Web
from tests.fakes.web_server import WebServer
from tests.house import House

SNAPSHOT = '---\ntype: "URL"\ntitle: "The lamp"\nresource: "https://example.com/lamp"\n---\nThe lamp was lit in 1897.'


@pytest.fixture
def web():
    with WebServer() as web:
        web.page("/foghorn", "<title>The foghorn</title><p>It sounds every ninety seconds.</p>")
        yield web


@pytest.fixture
def house(tmp_path):
    client = WebClient(allow=AllowList.of(["127.0.0.1"]))
    house = House(tmp_path / "house", web=Web(client, Robots(client)))
    yield house
    house.rt.close()


@pytest.fixture
def pack(tmp_path):
    def pack(*rows, **raw):
        path = tmp_path / "bundle.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("base.json", json.dumps({"format": 1, "base": {"name": "moved"}, "items": rows}))
            for name, content in raw.items():
                archive.writestr(f"raw/{name.replace('__', '/').replace('_md', '.md')}", content)
        return path

    return pack


def url(item_id, source, path=None, **more):
    row = {"id": item_id, "type": "url", "source": source, **more}
    return row if path is None else row | {"relative_path": path}


def test_page_with_its_copy_is_not_fetched(house, pack, web):
    """Everything is indexed from the bundle; nobody is asked."""
    base = house.service.import_base(pack(url("p", web.url("/lamp"), "lamp.md"), lamp_md=SNAPSHOT))
    house.work()

    [item] = house.items(base)
    assert (ItemStatus.COMPLETED, "lamp.md", []) == (item.status, item.relative_path, web.asked)
    assert "The lamp was lit in 1897." == house.service.preview(item.id).text


def test_page_without_a_copy_is_fetched(house, pack, web):
    """As if it had been added here."""
    base = house.service.import_base(pack(url("p", web.url("/foghorn#x"))))
    house.work()

    [item] = house.items(base)
    assert (ItemStatus.COMPLETED, "The foghorn.md", web.url("/foghorn")) == (item.status, item.relative_path, item.source)


def test_sitemap_keeps_its_pages(house, pack, web):
    """The container comes with what it held; it is read again by a reindex only."""
    sitemap = {"id": "s", "type": "sitemap", "source": web.url("/sitemap.xml"), "relative_path": "site"}
    inside = url("p", web.url("/lamp"), "site/lamp.md", group_id="s")
    base = house.service.import_base(pack(sitemap, inside, site__lamp_md=SNAPSHOT))
    house.work()

    assert ({ItemStatus.COMPLETED}, []) == ({item.status for item in house.items(base)}, web.asked)


@pytest.mark.parametrize(
    "row",
    [
        url("p", "file:///etc/passwd"),
        url("p", "https://user:pw@example.com/"),
        {"id": "s", "type": "sitemap", "source": "https://example.com/sitemap.xml"},
        {"id": "n", "type": "note", "source": "n", "data": {"content": "x"}},
        url("p", "https://example.com/", "../p.md"),
    ],
)
def test_bundle_with_a_bad_page_is_refused(house, pack, row):
    """No scheme but http, no login; only a page may be without a path."""
    with pytest.raises(BundleUnreadable):
        house.service.import_base(pack(row))
    assert [] == house.service.list_bases(include_deleting=True)
