"""A page, and what fetches it: as in production, except that servers of ours may be asked."""

from collections.abc import Iterator
from contextlib import contextmanager

from knowledge.pipeline.http.address import AllowList
from knowledge.pipeline.http.client import Limits, WebClient
from knowledge.pipeline.sources.robots import Robots
from knowledge.pipeline.sources.url import Web
from tests.fakes.web_server import WebServer
from tests.waiting import PATIENCE_SECONDS

#: nothing here takes long, but the machine may have other work
LIMITS = Limits(
    connect_seconds=PATIENCE_SECONDS, read_seconds=PATIENCE_SECONDS, total_seconds=2 * PATIENCE_SECONDS, max_bytes=2_000_000
)
ARTICLE = """<!doctype html><html lang="en"><head><title>The lamp | Lighthouse Trust</title></head><body>
<nav><a href="/">Home</a></nav><article><h1>The lamp</h1>
<p>The lamp of the northern rock was lit in 1897, and it has burnt every night since then, without a break.</p>
<p>Its keeper writes the log at midnight, in ink, and signs it with his full name and the hour.</p></article></body></html>"""


@contextmanager
def article_served() -> Iterator[WebServer]:
    """A server of ours that has the article at /lamp."""
    with WebServer() as web:
        web.page("/lamp", ARTICLE)
        yield web


def local_web() -> Web:
    client = WebClient(allow=AllowList.of(["127.0.0.1"]), limits=LIMITS)
    return Web(client, Robots(client), page_bytes=1_000_000)
