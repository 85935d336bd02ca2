"""Which addresses are taken, and when two are one."""

import pytest

from knowledge.errors import InvalidUrl
from knowledge.model.urls import host_of, is_same_place, normal_url


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (" https://Example.COM/A?b=C ", "https://example.com/A?b=C"),
        ("HTTP://example.com:80/", "http://example.com"),
        ("https://example.com:443", "https://example.com"),
        ("https://example.com:8443/", "https://example.com:8443"),
        ("https://example.com/?q=1", "https://example.com/?q=1"),
        ("https://example.com/a/", "https://example.com/a/"),
        ("https://example.com/a#part", "https://example.com/a"),
        ("https://example.com/a?#part", "https://example.com/a"),
        ("http://[2001:DB8::1]:8080/a", "http://[2001:db8::1]:8080/a"),
        ("https://例え.テスト/頁", "https://例え.テスト/頁"),
        ("https://example.com/a%20b", "https://example.com/a%20b"),
    ],
)
def test_address_is_kept_in_one_spelling(given, kept):
    """What makes no difference to the page makes none to the item; keeping it again changes nothing."""
    assert kept == normal_url(given)
    assert kept == normal_url(kept)


@pytest.mark.parametrize(
    "given", ["", " ", "x", "//example.com", "https://", "mailto:a@b.c", "https://a b.c/", "https://a/" + "x" * 5000]
)
def test_what_is_no_address_is_refused(given):
    """With a typed error that shows no more than its beginning."""
    with pytest.raises(InvalidUrl) as refused:
        normal_url(given)
    assert len(str(refused.value.details)) < 600


def test_host_is_without_port_and_case():
    """As limits are counted."""
    assert ["example.com", "::1", ""] == [host_of(url) for url in ("https://Example.com:8443/x", "http://[::1]:80/", "x")]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("https://a.test/x", "https://a.test/y", True),
        ("http://a.test/x", "https://a.test/x", True),
        ("http://a.test:8080/x", "http://a.test:8080/y", True),
        ("https://a.test/x", "http://a.test/x", False),
        ("https://a.test/x", "https://b.test/x", False),
        ("https://a.test/x", "https://a.test:8443/x", False),
        ("http://a.test:8080/x", "https://a.test:8080/x", False),
    ],
)
def test_where_a_secret_may_follow(before, after, expected):
    """To the same scheme, host and port, or from plain to TLS; never back, and never to another port."""
    assert expected is is_same_place(before, after)
