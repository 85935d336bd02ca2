"""How settings become the way in which pages are fetched."""

import pytest

from config import wiring
from config.settings import effective, load
from knowledge.errors import AddressRefused, ConfigurationError
from tests.fakes.web_server import WebServer


@pytest.fixture
def settings(tmp_path):
    """Reads the settings from the given variables."""

    def settings(**variables):
        named = {f"KNOWLEDGE_{name.upper()}": value for name, value in variables.items()}
        return load({"KNOWLEDGE_DATA_DIR": str(tmp_path / "data")} | named)

    return settings


def test_pages_are_fetched_directly_unless_a_service_is_named(settings):
    """No outside service learns what is read here."""
    web = wiring.web(settings())

    assert (None, "children", "host:example.com") == (web.service, web.obey_robots, web.limit("https://example.com/a").scope)


def test_jina_is_a_word_and_another_service_is_an_address(settings, tmp_path):
    """The key may come from a file."""
    (tmp_path / "key").write_text("secret\n")
    jina = wiring.web(settings(url_reader="jina", url_reader_key_file=str(tmp_path / "key")))
    other = wiring.web(settings(url_reader="http://reader.example:3000/", url_reader_per_minute="600"))

    assert ("r.jina.ai", "reader.example", 600) == (
        jina.service.host,
        other.service.host,
        other.limit("https://a.b").per_minute,
    )


def test_service_on_this_machine_may_be_asked_and_nothing_else_on_it(settings):
    """Its address is the operator's; what pages name is not."""
    with WebServer() as service:
        service.page("*", '{"content": "The lamp was lit."}', content_type="application/json")
        web = wiring.web(settings(url_reader=service.url()))

        assert "The lamp was lit." == web.service.read("https://example.com/", lambda: None).text
        with pytest.raises(AddressRefused):
            web.client.get(service.url("/admin"))


def test_sizes_are_in_mib_as_their_names_say(settings):
    """Of a page and of a file alike."""
    web = wiring.web(settings(url_page_max_mib="7", http_max_mib="9"))

    assert (7 << 20, 9 << 20) == (web.page_bytes, web.client.limits.max_bytes)


def test_allow_list_opens_what_it_names(settings):
    """As a JSON list, like other lists."""
    with WebServer() as page:
        page.page("/", "hello")

        assert b"hello" == wiring.web(settings(http_allow='["127.0.0.1"]')).client.get(page.url()).content
        with pytest.raises(AddressRefused):
            wiring.web(settings(http_allow='["10.0.0.0/8"]')).client.get(page.url())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("http_allow", '["http://wiki"]'),
        ("http_allow", '["wiki.lan:http"]'),
        ("http_allow", "wiki"),
        ("http_proxy", "socks5://x:1"),
        ("url_reader", "reader.example"),
        ("url_reader", "ftp://reader.example"),
        ("docling_url", "docling.example"),
        ("docling_url", "http://docling.example:port"),
        ("url_robots", "sometimes"),
        ("url_host_per_minute", "0"),
        ("http_user_agent", "two\nlines"),
    ],
)
def test_setting_that_cannot_work_is_refused_at_start(settings, name, value):
    """With the name of the setting."""
    with pytest.raises(ConfigurationError) as refused:
        settings(**{name: value})

    assert f"KNOWLEDGE_{name.upper()}" in str(refused.value)


def test_key_and_proxy_are_not_shown(settings):
    """`knowledge config` is read over people's shoulders."""
    shown = {one.name: one.value for one in effective(settings(url_reader_key="secret", http_proxy="http://me:secret@proxy:1"))}

    assert not [name for name, value in shown.items() if "secret" in value]


@pytest.mark.parametrize("name", ["docling_url", "url_reader"])
def test_password_inside_an_address_is_not_shown(settings, name):
    """Services are put behind a login as well."""
    shown = {one.name: one.value for one in effective(settings(**{name: "http://me:hunter22@service.example"}))}

    assert "http://me:****@service.example" == shown[name]
