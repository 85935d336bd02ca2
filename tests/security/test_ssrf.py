"""Nothing that a person, a page or a name server says makes us ask an address inside, or serve a slow or endless one."""

import time
import zlib
from dataclasses import replace
from ipaddress import ip_address

import pytest

from knowledge.errors import (
    AddressRefused,
    CancelRequested,
    ConfigurationError,
    FetchFault,
    FetchRefused,
    FetchTooLarge,
    InvalidUrl,
)
from knowledge.pipeline.http.address import AllowList
from knowledge.pipeline.http.client import Limits, WebClient
from tests.fakes.web_server import WebServer

INSIDE = {
    "loopback": "http://127.0.0.1/",
    "loopback elsewhere": "http://127.8.7.6/",
    "loopback by name": "http://localhost/",
    "loopback by its full name": "http://localhost./",
    "unspecified": "http://0.0.0.0/",
    "zero": "http://0/",
    "private 10": "http://10.0.0.1/",
    "private 172": "http://172.16.5.4/",
    "private 192": "http://192.168.1.1/",
    "carrier": "http://100.64.0.1/",
    "link-local": "http://169.254.1.1/",
    "metadata": "http://169.254.169.254/latest/meta-data/",
    "metadata on a public address": "http://168.63.129.16/metadata",
    "metadata of a third cloud": "http://100.100.100.200/",
    "decimal": "http://2130706433/",
    "octal": "http://0177.0.0.1/",
    "long octal": "http://017700000001/",
    "hexadecimal": "http://0x7f.0.0.1/",
    "long hexadecimal": "http://0x7f000001/",
    "short": "http://127.1/",
    "decimal metadata": "http://2852039166/",
    "percent-encoded": "http://%31%32%37.0.0.1/",
    "loopback 6": "http://[::1]/",
    "unspecified 6": "http://[::]/",
    "mapped": "http://[::ffff:127.0.0.1]/",
    "mapped in hexadecimal": "http://[::ffff:7f00:1]/",
    "mapped metadata": "http://[::ffff:169.254.169.254]/",
    "compatible": "http://[::127.0.0.1]/",
    "metadata 6": "http://[fd00:ec2::254]/latest/",
    "unique local": "http://[fc00::1]/",
    "link-local 6": "http://[fe80::1]/",
    "link-local 6 with a zone": "http://[fe80::1%25lo]/",
    "site-local": "http://[fec0::1]/",
    "6to4 of loopback": "http://[2002:7f00:1::]/",
    "NAT64 of loopback": "http://[64:ff9b::7f00:1]/",
    "NAT64 of metadata": "http://[64:ff9b::a9fe:a9fe]/",
    "local NAT64": "http://[64:ff9b:1::7f00:1]/",
    "Teredo": "http://[2001:0:7f00:1::]/",
    "ISATAP of a private address": "http://[2a00:1450::5efe:a00:1]/",
    "documentation": "http://192.0.2.1/",
    "multicast": "http://224.0.0.1/",
    "multicast 6": "http://[ff02::1]/",
    "broadcast": "http://255.255.255.255/",
    "full-width digits": "http://１２７.0.0.1/",
    "circled digits": "http://①②⑦.⓪.⓪.①/",
    "ideographic full stops": "http://127。0。0。1/",
}
NO_PAGES = {
    "file": "file:///etc/passwd",
    "ftp": "ftp://example.com/a",
    "gopher": "gopher://127.0.0.1:6379/_FLUSHALL",
    "data": "data:text/html,hello",
    "javascript": "javascript:alert(1)",
    "no scheme": "example.com/a",
    "no host": "http:///a",
    "a user": "http://admin@example.com/",
    "a password": "http://admin:secret@example.com/",
    "an empty user": "http://@example.com/",
    "a backslash": "http://example.com\\@127.0.0.1/",
    "a tab": "http://exa\tmple.com/",
    "a line": "http://example.com/\r\nHost: inside",
    "port 0": "http://example.com:0/",
    "port 99999": "http://example.com:99999/",
    "broken brackets": "http://[::1/",
}
LIMITS = Limits(connect_seconds=60, read_seconds=60, total_seconds=120, max_bytes=1_000_000)
HASTY = replace(LIMITS, connect_seconds=2, read_seconds=2, total_seconds=3)  #: where time must end it


def local_names(host, _port):
    """A name server that knows what every machine knows, and the site that tests serve."""
    known = {"localhost": ["127.0.0.1", "::1"], "localhost.": ["127.0.0.1"], "site.test": ["127.0.0.1"]}
    if host not in known:
        raise OSError(f"{host} is not known")
    return known[host]


@pytest.fixture
def web():
    with WebServer() as web:
        yield web


@pytest.fixture
def client():
    """May ask `site.test`, which is the local server, and nothing else inside."""
    return WebClient(limits=LIMITS, allow=AllowList.of(["site.test"]), resolver=local_names)


@pytest.fixture
def hasty():
    """The same in a hurry."""
    return WebClient(limits=HASTY, allow=AllowList.of(["site.test"]), resolver=local_names)


def site(web, path="/"):
    return f"http://site.test:{web.port}{path}"


# where it may go ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", INSIDE.values(), ids=INSIDE)
def test_address_inside_is_refused_however_it_is_written(url):
    """Private, loopback, link-local, metadata, embedded in IPv6, octal: nothing is connected to."""
    with pytest.raises((AddressRefused, InvalidUrl)):
        WebClient(limits=LIMITS, resolver=local_names).get(url)


@pytest.mark.parametrize(
    "url", [url for url in INSIDE.values() if url.isascii()], ids=[k for k, url in INSIDE.items() if url.isascii()]
)
def test_redirect_to_an_address_inside_is_refused(web, client, url):
    """The second hop is vetted like the first; the one allowed name does not open its address."""
    web.redirect("/", url)

    with pytest.raises((AddressRefused, InvalidUrl)):
        client.get(site(web))
    assert 1 == len(web.asked)


@pytest.mark.parametrize("url", NO_PAGES.values(), ids=NO_PAGES)
def test_address_that_is_no_page_is_refused(url):
    """Other schemes, logins, and what parsers disagree on."""
    with pytest.raises(InvalidUrl):
        WebClient(limits=LIMITS, resolver=local_names).get(url)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://site.test/", "gopher://site.test/_", "http://a:b@site.test/"])
def test_redirect_to_what_is_no_page_is_refused(web, client, url):
    """A server cannot make us read a file, speak another protocol, or log in."""
    web.redirect("/", url)

    with pytest.raises(AddressRefused):
        client.get(site(web))


def test_refusal_does_not_tell_the_address_of_a_name():
    """A stranger who may add addresses must not learn which names mean what inside."""
    with pytest.raises(AddressRefused) as refused:
        WebClient(limits=LIMITS, resolver=lambda *_: ["10.11.12.13"]).get("http://intranet.example/")

    assert "10.11.12.13" not in repr(refused.value.to_wire())


def test_password_in_an_address_is_not_repeated():
    """What is refused for holding a password must not show it in a log."""
    with pytest.raises(InvalidUrl) as refused:
        WebClient().get("http://admin:secret@example.com/")

    assert "secret" not in repr(refused.value.to_wire())


def test_name_is_resolved_once_and_what_it_gave_is_connected_to(web):
    """A name that is public when asked first and loopback when asked again cannot be used: it is asked once a connection."""
    answers = [["192.0.2.1"], ["127.0.0.1"]]
    asked = []

    def rebinding(host, _port):
        asked.append(host)
        return answers[min(len(asked), 2) - 1]

    client = WebClient(
        limits=Limits(connect_seconds=0.3, total_seconds=2), allow=AllowList.of(["192.0.2.1"]), resolver=rebinding
    )
    with pytest.raises(FetchFault) as failed:
        client.get(f"http://rebind.test:{web.port}/")

    assert ("fetch_failed", ["rebind.test"], []) == (failed.value.code, asked, web.asked)


def test_name_that_becomes_loopback_between_two_hops_is_refused(web):
    """Each connection is vetted, also to a name that was fine a moment ago."""
    answers = iter([["127.0.0.1"], ["127.0.0.2"]])
    web.redirect("/", "/next")
    client = WebClient(limits=LIMITS, allow=AllowList.of(["127.0.0.1"]), resolver=lambda *_: next(answers))

    with pytest.raises(AddressRefused):
        client.get(f"http://rebind.test:{web.port}/")
    assert 1 == len(web.asked)


def test_name_with_a_public_and_a_private_address_is_refused():
    """Otherwise a failed connection to the first would lead to the second."""
    with pytest.raises(AddressRefused):
        WebClient(limits=LIMITS, resolver=lambda *_: ["93.184.216.34", "10.0.0.1"]).get("http://both.test/")


def test_host_stays_in_the_request_although_its_address_is_pinned(web, client):
    """Virtual hosts work: the name is asked for, the vetted address is connected to."""
    web.page("/", "hello")

    client.get(site(web))

    assert f"site.test:{web.port}" == web.asked[0].headers["host"]


def test_environment_names_no_proxy(web, client, monkeypatch):
    """A variable that another program needs does not send our requests elsewhere."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    web.page("/", "hello")

    assert b"hello" == client.get(site(web)).content


def test_proxy_of_the_setting_is_used(web):
    """What the operator names connects in our place, and resolves the name."""
    web.page("http://anywhere.test/a", "through the proxy")
    client = WebClient(limits=LIMITS, proxy=web.url(), resolver=local_names)

    assert b"through the proxy" == client.get("http://anywhere.test/a").content


def test_secret_header_does_not_follow_to_another_host(web, client):
    """A key is for the host that it was given for."""
    web.redirect("/", f"http://other.test:{web.port}/next")
    web.page("/next", "hello")
    both = WebClient(limits=LIMITS, allow=AllowList.of(["site.test", "other.test"]), resolver=lambda *_: ["127.0.0.1"])

    both.get(site(web), headers={"Authorization": "Bearer key"})

    assert ["Bearer key", None] == [asked.headers.get("authorization") for asked in web.asked]


@pytest.mark.parametrize(
    "entry",
    [
        "http://wiki.example",
        "http://wiki.example:80",
        "*.example",
        "10.0.0.0/40",
        "",
        ".",
        ":80",
        "wiki.example:",
        "wiki.example:0",
        "wiki.example:65536",
        "wiki.example:http",
        "wiki.example:-1",
        "wiki.example:+80",
        "wiki.example:8_0",
        "wiki.example:８０",
        "wiki.example:80:80",
        "wiki.example:80/path",
        "wiki example",
        "10.0.0.0/8:80",
        "[::1",
        "::1]:80",
        "[]:80",
        "[wiki.example]:80",
        "[10.0.0.1]:80",
        "[::1]80",
        "[::1]:",
        "[fd00::/8]:80",
        "fd00::zz",
        "user@wiki.example:80",
    ],
)
def test_allow_list_refuses_what_it_cannot_mean(entry):
    """An entry that would silently allow nothing is told at start, as it was written."""
    with pytest.raises(ConfigurationError) as refused:
        AllowList.of(["10.0.0.0/8", entry])

    assert repr(entry) in str(refused.value)


@pytest.mark.parametrize(
    ("entry", "host", "address"),
    [
        ("wiki.test:{}", "wiki.test", "10.0.0.1"),
        ("WIKI.test.:{}", "wiki.test", "10.0.0.1"),
        ("wiki.test:{}", "Wiki.Test.", "fd00::1"),
        ("10.0.0.1:{}", "wiki.test", "10.0.0.1"),
        ("10.0.0.1:{}", "wiki.test", "::ffff:10.0.0.1"),
        ("[fd00::1]:{}", "wiki.test", "fd00::1"),
        ("[FD00:0::1]:{}", "wiki.test", "fd00::1"),
        ("[::ffff:10.0.0.1]:{}", "wiki.test", "::ffff:10.0.0.1"),
    ],
)
def test_entry_with_a_port_opens_this_port_only(entry, host, address):
    """The same entry without one opens all of them."""
    one, every = AllowList.of([entry.format(8080)]), AllowList.of([entry.removesuffix(":{}")])
    where = ip_address(address)

    assert (True, False, False) == tuple(one.allows(host, where, port) for port in (8080, 80, 443))
    assert (True, True, True) == tuple(every.allows(host, where, port) for port in (8080, 80, 443))
    assert not one.allows("other.test", ip_address("10.0.0.2"), 8080)


@pytest.mark.parametrize("entry", ["127.0.0.1:{port}", "site.test:{port}"])
def test_redirect_to_another_port_of_an_opened_host_is_refused(web, entry):
    """Each hop is vetted with its own port."""
    with WebServer() as other:
        web.redirect("/", f"http://site.test:{other.port}/secret")
        web.redirect("/here", "/page")
        web.page("/page", "hello")
        other.page("/secret", "secret")
        client = WebClient(limits=LIMITS, allow=AllowList.of([entry.format(port=web.port)]), resolver=local_names)

        assert b"hello" == client.get(site(web, "/here")).content
        with pytest.raises(AddressRefused):
            client.get(site(web))
        with pytest.raises(AddressRefused):
            client.get(f"http://site.test:{other.port}/secret")
        assert [] == other.asked


@pytest.mark.parametrize("addresses", [["127.0.0.1", "127.0.0.2"], ["127.0.0.2", "127.0.0.1"], ["127.0.0.1", "::1"]])
def test_each_address_of_a_name_must_be_open_on_this_port(web, addresses):
    """One that is open does not open its neighbour."""
    web.page("/", "hello")
    allow = AllowList.of([f"127.0.0.1:{web.port}", "127.0.0.2:1", f"[::1]:{web.port + 1}"])
    client = WebClient(limits=LIMITS, allow=allow, resolver=lambda *_: addresses)

    with pytest.raises(AddressRefused):
        client.get(site(web))
    assert [] == web.asked


def test_entry_without_a_port_that_stands_beside_one_with_it_opens_all(web):
    """The wider of two entries counts."""
    web.page("/", "hello")
    client = WebClient(limits=LIMITS, allow=AllowList.of(["site.test:1", "site.test"]), resolver=local_names)

    assert b"hello" == client.get(site(web)).content


def test_allowed_network_covers_addresses_in_it(web):
    """An operator can open a network of his own."""
    web.page("/", "hello")

    assert b"hello" == WebClient(limits=LIMITS, allow=AllowList.of(["127.0.0.0/8"])).get(web.url()).content


# what it takes --------------------------------------------------------------------------------------------------------------


def test_body_of_the_limit_is_taken_and_one_byte_more_is_not(web, client):
    """The limit is exact."""
    web.page("/fits", b"x" * LIMITS.max_bytes)
    web.page("/more", b"x" * (LIMITS.max_bytes + 1))

    assert LIMITS.max_bytes == len(client.get(site(web, "/fits")).content)
    with pytest.raises(FetchTooLarge):
        client.get(site(web, "/more"))


def test_endless_body_is_cut_off_by_its_size(web, client):
    """Chunks without an end, as fast as they come."""
    web.endless("/")

    with pytest.raises(FetchTooLarge):
        client.get(site(web))


def test_slow_drip_is_cut_off_by_the_total_time(web, hasty):
    """A byte now and then keeps a connection alive, but not past the deadline of the fetch."""
    web.endless("/", b"x", pause=0.2)
    began = time.monotonic()

    with pytest.raises(FetchFault) as slow:
        hasty.get(site(web))

    assert "timeout" == slow.value.details["reason"]
    assert time.monotonic() - began < 3 * HASTY.total_seconds


def test_dripping_headers_are_cut_off_as_well(web, hasty):
    """The deadline counts from the first byte of the request, not of the body."""
    web.dripping_headers("/", pause=0.2)

    with pytest.raises(FetchFault) as slow:
        hasty.get(site(web))

    assert "timeout" == slow.value.details["reason"]


def test_silence_is_cut_off(web, hasty):
    """A server that takes the request and says nothing."""
    web.silent("/")

    with pytest.raises(FetchFault) as slow:
        hasty.get(site(web))

    assert "timeout" == slow.value.details["reason"]


def test_job_that_is_to_stop_does_not_wait_for_a_server(web, client):
    """A cancelled capture ends within a second or two, whatever the server does."""
    web.silent("/")
    calls = []

    def checkpoint():
        calls.append(1)
        if len(calls) > 3:
            raise CancelRequested

    with pytest.raises(CancelRequested):
        client.get(site(web), checkpoint=checkpoint)


@pytest.mark.parametrize("layers", [1, 2])
def test_bomb_is_cut_off_by_what_it_unpacks_to(web, client, layers):
    """64 MiB in 64 KiB; what is packed twice is refused for that."""
    bomb = b"\0" * (64 << 20)
    packed = zlib.compress(bomb, wbits=31)
    if layers == 2:
        web.page("/", zlib.compress(packed, wbits=31), headers={"Content-Encoding": "gzip, gzip"})
    else:
        web.page("/", packed, headers={"Content-Encoding": "gzip"})

    with pytest.raises((FetchTooLarge, FetchRefused)):
        client.get(site(web))


@pytest.mark.parametrize("encoding", ["br", "zstd", "compress", "x-unknown"])
def test_packing_that_was_not_asked_for_is_refused(web, client, encoding):
    """We say what we unpack; a brotli bomb is not even looked at."""
    web.page("/", b"\x00" * 100, headers={"Content-Encoding": encoding})

    with pytest.raises(FetchRefused):
        client.get(site(web))


@pytest.mark.parametrize("wbits", [31, 15, -15], ids=["gzip", "deflate", "bare deflate"])
def test_packed_page_is_unpacked(web, client, wbits):
    """Also the deflate that some servers send without its header."""
    packer = zlib.compressobj(wbits=wbits)
    body = "Grüße".encode() * 1000
    web.page("/", packer.compress(body) + packer.flush(), headers={"Content-Encoding": "gzip" if wbits == 31 else "deflate"})

    assert body == client.get(site(web)).content


def test_padding_behind_a_packed_page_is_ignored(web, client):
    """As browsers do; two packed parts are one page."""
    part = zlib.compress(b"half ", wbits=31)
    web.page("/", part + part + b"\0\0\0", headers={"Content-Encoding": "gzip"})

    assert b"half half " == client.get(site(web)).content


def test_page_that_breaks_off_is_an_error_and_no_page(web, client):
    """Half a page is not stored as if it were whole."""
    web.broken_off("/", b"<p>half")
    web.page("/packed", zlib.compress(b"x" * 100_000, wbits=31)[:60], headers={"Content-Encoding": "gzip"})

    for path in ("/", "/packed"):
        with pytest.raises(FetchFault) as broken:
            client.get(site(web, path))
        assert "fetch_failed" == broken.value.code


def test_ring_of_redirects_ends(web, client):
    """Ten hops are enough for honest sites."""
    web.redirect("/", "/")

    with pytest.raises(FetchRefused):
        client.get(site(web))
    assert 11 == len(web.asked)


def test_page_of_an_error_is_cut_and_not_refused(web, client):
    """Only its beginning is looked at, to tell a wall from a missing page."""
    web.page("/", b"x" * (LIMITS.max_bytes + 1), status=403)

    answer = client.get(site(web))

    assert (403, 64 * 1024) == (answer.status, len(answer.content))
