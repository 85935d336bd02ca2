"""A page as Markdown: its main part, its own words, its links; nothing of it becomes formatting that was not."""

import pytest

from knowledge.pipeline.sources.page import MAX_ELEMENTS, page_text, read_page

WORDS = "The lamp of the northern rock was lit in 1897, and it has burnt every night since then, without a break. " * 3


def page(body: str, head: str = "", html: str = "") -> str:
    return f"<!doctype html><html {html}><head>{head}</head><body><article><p>{WORDS}</p>{body}</article></body></html>"


def text_of(markup: str, url: str = "https://example.com/a/b.html") -> str:
    return read_page(markup.encode(), url).text


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("3*4=12", "3*4=12"),
        ("3*4*5=60", r"3\*4\*5=60"),
        ("2 * 3 * 4", "2 * 3 * 4"),
        ("a *real* star", r"a \*real\* star"),
        ("snake_case_name", "snake_case_name"),
        ("__init__ and __new__", r"\_\_init\_\_ and \_\_new\_\_"),
        ("1) first", r"1\) first"),
        ("1. first", r"1\. first"),
        ("# number", r"\# number"),
        ("#hashtag", "#hashtag"),
        ("- a dash", r"\- a dash"),
        ("+ a plus", r"\+ a plus"),
        ("&gt; more", r"\> more"),
        ("===", r"\==="),
        ("one `tick` here", r"one \`tick\` here"),
        ("~~struck~~ out", r"\~\~struck\~\~ out"),
        ("an [x](y) in words", r"an \[x](y) in words"),
        ("a&lt;b&gt;c", r"a\<b>c"),
        ("1 &lt; 2", "1 < 2"),
        ("the entity &amp;amp;", r"the entity \&amp;"),
        ("R&amp;D", "R&D"),
    ],
)
def test_words_do_not_become_formatting(said, kept):
    """What Markdown would take for formatting is escaped, and nothing else: the text stays readable and searchable."""
    assert kept in text_of(page(f"<p>{said}</p>")).splitlines()


@pytest.mark.parametrize("around", ["<li>{}</li>", "<p>x<br>{}</p>", "<div><span>{}</span></div>", "<dd>{}</dd>"])
def test_beginning_of_a_line_is_escaped_wherever_a_line_begins(around):
    """Not only in paragraphs."""
    assert r"\# number" in text_of(page(around.format("# number")))


def test_code_stays_as_it_is():
    """Inside code every character is only itself."""
    text = text_of(
        page(
            '<pre><code class="language-py">def f(*a, **k):  # _x_\n    return a * 2</code></pre><p>and <code>a*b*c</code></p>'
        )
    )

    assert "```py\ndef f(*a, **k):  # _x_\n    return a * 2\n```" in text
    assert "`a*b*c`" in text


def test_formatting_of_the_page_stays():
    """Headings, emphasis, lists, quotes."""
    text = text_of(page("<h2>The keeper</h2><p>writes <em>every</em> <strong>night</strong></p><ul><li>ink<li>paper</ul>"))

    assert "## The keeper" in text
    assert "writes *every* **night**" in text
    assert "- ink\n- paper" in text


def test_table_of_data_stays_a_table():
    """Also a small one, which looks like decoration to a heuristic."""
    text = text_of(page("<table><tr><th>lamp<th>hours</tr><tr><td>red<td>12</tr><tr><td>a|b<td>9</tr></table>"))

    assert "| lamp | hours |\n| --- | --- |\n| red | 12 |\n| a\\|b | 9 |" in text


def test_menus_are_left_out():
    """What its own markup calls navigation is no content, on a short page as well."""
    markup = f"<body><nav><a href=/>Home</a></nav><header>Logo</header><p>{WORDS}</p><footer>Imprint</footer></body>"

    text = text_of(markup)

    assert "northern rock" in text
    assert not {"Home", "Logo", "Imprint"} & set(text.replace("[", " ").replace("]", " ").split())


def test_page_in_one_form_is_kept():
    """Some frameworks put the whole page into a form."""
    assert "northern rock" in text_of(f"<body><form>{page('')}</form></body>")


def test_page_whose_main_part_is_not_found_is_kept_whole():
    """A list of many short things is content as well."""
    items = "".join(f"<div><a href=/{n}>Entry number {n}</a> from year {1900 + n}</div>" for n in range(60))

    text = text_of(f"<body><h1>Index</h1>{items}</body>")

    assert all(f"Entry number {n}" in text for n in range(60))


@pytest.mark.parametrize(
    ("href", "target"),
    [
        ("c.html", "https://example.com/a/c.html"),
        ("/c", "https://example.com/c"),
        ("//other.org/c", "https://other.org/c"),
        ("https://other.org/d(e)", "https://other.org/d%28e%29"),
        ("?q=1", "https://example.com/a/b.html?q=1"),
        ("mailto:keeper@example.com", "mailto:keeper@example.com"),
    ],
)
def test_links_lead_where_they_led(href, target):
    """As addresses of their own: the snapshot lies elsewhere than the page."""
    assert f"[next]({target})" in text_of(page(f'<p>see the <a href="{href}" title=x>next</a> one</p>'))


@pytest.mark.parametrize("href", ["#top", "javascript:go()", "", "data:text/html,x", "http://[broken"])
def test_links_that_lead_nowhere_are_their_text(href):
    """A link into the page itself, a script, nothing."""
    assert "see the next one" in text_of(page(f'<p>see the <a href="{href}">next</a> one</p>'))


@pytest.mark.parametrize(
    ("base", "target"),
    [
        ("https://other.org/x/", "https://other.org/x/c"),
        ("/deep/er/", "https://example.com/deep/er/c"),
        ("", "https://example.com/a/c"),
    ],
)
def test_base_of_the_page_counts(base, target):
    """`<base href>` decides where relative links lead; it may be relative itself."""
    assert f"[c]({target})" in text_of(page('<p>to <a href="c">c</a></p>', f'<base href="{base}"><base href="http://late/">'))


def test_title_is_without_the_name_of_the_site():
    """The only first heading, if the title begins with it; the text says it once."""
    found = read_page(page("<h1>The lamp</h1>", "<title>The lamp | Trust</title>").encode(), "https://example.com/")

    assert ("The lamp", 1) == (found.title, found.text.count("# The lamp"))


def test_title_that_the_text_does_not_say_comes_first():
    """A snapshot is found by its title."""
    assert text_of(page("", "<title>On *lamps* of   the north</title>")).startswith(r"# On \*lamps\* of the north")


@pytest.mark.parametrize(
    ("html", "header", "language"),
    [
        ("lang=de-AT", None, "de"),
        ("", "fr, en", "fr"),
        ("lang=en", "fr", "en"),
        ("lang=x-klingon", None, None),
        ("", None, None),
    ],
)
def test_language_is_that_of_the_page_else_of_the_header(html, header, language):
    """ISO 639-1, a region cut off."""
    assert language == read_page(page("", html=html).encode(), "https://example.com/", header_language=header).language


def test_canonical_address_is_told():
    """Relative to the base; one that is no address is none."""
    good = read_page(page("", '<link rel="canonical" href="/lamp?x=1#y">').encode(), "https://example.com/a/b")
    bad = read_page(page("", '<link rel="canonical" href="javascript:x">').encode(), "https://example.com/a/b")

    assert ("https://example.com/lamp?x=1", None) == (good.canonical, bad.canonical)


RUSSIAN = "<meta charset={}><p>Маяк на северной скале горит с 1897 года.</p>"


@pytest.mark.parametrize(
    ("encoding", "header", "meta"),
    [
        ("utf-8", None, "utf-8"),
        ("utf-8", "iso-8859-1", "utf-8"),
        ("utf-8", "windows-1251", "windows-1251"),
        ("cp1251", "windows-1251", "utf-8"),
        ("cp1251", "utf-8", "windows-1251"),
        ("cp1251", None, "windows-1251"),
        ("cp1251", "iso-8859-1", "windows-1251"),
        ("koi8-r", "koi8-r", "windows-1251"),
        ("utf-16", "utf-8", "utf-8"),
    ],
)
def test_charset_is_found_when_header_and_page_disagree(encoding, header, meta):
    """The bytes first, then the header, unless it is the Latin-1 that servers send with everything."""
    assert "Маяк на северной скале" in page_text(RUSSIAN.format(meta).encode(encoding), header)[0]


def test_hidden_text_and_scripts_are_left_out():
    """Nobody sees them."""
    unseen = ("<script>{}</script>", "<style>{}</style>", "<p hidden>{}</p>", '<p style="display: none">{}</p>')

    text = text_of(page("".join(markup.format("SECRET") for markup in (*unseen, "<template>{}</template>"))))

    assert "SECRET" not in text


@pytest.mark.parametrize(
    "markup",
    [
        "",
        " ",
        "<",
        "<html>",
        "<html><body></body></html>",
        "\0",
        "<a href=",
        "<?xml version='1.0' encoding='utf-16'?><html><body>x</body></html>",
    ],
)
def test_broken_and_empty_pages_are_no_error(markup):
    """Whatever comes, there is a page."""
    assert isinstance(text_of(markup), str)


def test_deep_page_keeps_its_words():
    """A parser's limit on depth costs no text."""
    for depth in (300, 5_000):
        assert "deep words" in text_of(f"<body>{'<div>' * depth}deep words{'</div>' * depth}</body>")


def test_page_of_countless_elements_is_kept_without_a_search_for_its_main_part():
    """Its words are there; what would take minutes is not tried."""
    found = read_page(f"<body>{'<p>x</p>' * (MAX_ELEMENTS + 1)}<p>the end</p></body>".encode(), "https://example.com/")

    assert (False, True) == (found.is_main_part, found.text.endswith("the end"))
