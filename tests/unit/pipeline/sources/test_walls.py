"""Walls against robots and error pages are told from pages, and from articles about them."""

import pytest

from knowledge.pipeline.sources.walls import is_error_page, is_wall

LONG = "A long article about the web. " * 100


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("Attention Required! | Cloudflare", "Sorry, you have been blocked. You are unable to access example.com"),
        ("Just a moment...", "Enable JavaScript and cookies to continue"),
        ("Access Denied", "You don't have permission to access this on this server. Reference #18.2f1e1202.1700000000"),
        ("Robot Check", "Enter the characters you see below"),
        ("example.com", "Verifying you are human. This may take a few seconds."),
        (None, "Our systems have detected unusual traffic from your computer network."),
        ("Pardon Our Interruption", "As you were browsing something about your browser made us think you were a bot."),
        ("Security check", "Please complete the security check to access"),
        ("请稍候…", "正在进行安全验证"),
    ],
)
def test_wall_is_told(title, text):
    """Whatever status it comes with."""
    assert all(is_wall(status, {}, title, text) for status in (200, 403, 503))


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("The lamp", "The lamp was lit in 1897."),
        ("Why you see “Sorry, you have been blocked”", LONG + "Sorry, you have been blocked"),
        ("Just a moment in time", LONG),
        ("Access control", "Who may enter the tower."),
        ("", ""),
    ],
)
def test_page_is_no_wall(title, text):
    """Nor is a long text about walls."""
    assert not is_wall(200, {}, title, text)


def test_header_of_a_challenge_is_enough():
    """Some walls say so to programs."""
    assert is_wall(403, {"cf-mitigated": "challenge"}, None, LONG)


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("404 Not Found", "nginx"),
        ("Page not found – Trust", "We are sorry."),
        ("Error 500", "x"),
        (None, "# Internal Server Error\n\nx"),
        ("Seite nicht gefunden", "x"),
        ("503 Service Unavailable", "x"),
        ("404", "x"),
    ],
)
def test_error_page_with_status_200_is_told(title, text):
    """A server that means 404 and says 200."""
    assert is_error_page(title, text)


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("404 lighthouses of the north", "A list."),
        ("500 days of summer", "A film."),
        ("What to do about 404 Not Found", "Look at the address."),
        ("Not found in translation", "A book."),
        ("The lamp", "404 lamps were lit."),
        ("404 Not Found", LONG),
    ],
)
def test_page_is_no_error_page(title, text):
    """Numbers are not errors, and long texts are articles."""
    assert not is_error_page(title, text)
