"""XML of any kind."""

from typing import ClassVar

import pytest

from knowledge.model.status import Notice
from knowledge.pipeline.readers.registry import ReaderRegistry
from knowledge.pipeline.readers.xml import XmlReader
from tests.contracts.reader_contract import ReaderContract

ARTICLE = b"""<article><front><title-group><article-title>Pears in <i>spring</i></article-title></title-group>
<contrib><name><surname>Holt</surname><given-names>Mira</given-names></name><xref rid="a1"/></contrib></front>
<body><sec><title>Methods</title><p>We counted.</p><sec><title>Counting</title>
<table><tr><th>k</th><th>v</th></tr><tr><td>a</td><td>1</td></tr></table>
<list><list-item><p>first</p></list-item></list></sec></sec></body>
<back><ref><element-citation><label>A</label><year>2020</year><source>Pears</source></element-citation></ref></back></article>"""


class TestXmlReader(ReaderContract):
    reader = XmlReader
    samples: ClassVar = {
        "a.xml": (
            '<?xml version="1.0"?><r><h>Title</h><p>Some <i>mixed</i> text</p><c k="Rome" n="1"/><!-- no --></r>'.encode(
                "ascii"
            ),
            ("Title\nSome mixed text\nk: Rome, n: 1",),
        ),
        "wide.xml": ('<?xml version="1.0" encoding="utf-16"?><r>Größe &amp; Maß</r>'.encode("utf-16"), ("Größe & Maß",)),
        "plain.txt": (b'<?xml version="1.0"?><r>bytes decide</r>', ("bytes decide",)),
        "broken.xml": (b"<r>not closed", ("not closed",)),
        "names.xml": (b"<r><p>a &nbsp; b</p><q>c &copy; d</q></r>", ("a", "b", "c", "d")),
        "article.xml": (
            ARTICLE,
            ("# Pears in spring", "Mira Holt", "# Methods", "## Counting", "| k | v |", "- first", "A 2020 Pears"),
        ),
    }


@pytest.mark.parametrize(
    "entity", ['<!ENTITY x SYSTEM "file:///etc/passwd">', '<!ENTITY a "aaaaaaaaaa"><!ENTITY x "&a;&a;&a;&a;&a;&a;&a;&a;">']
)
def test_entities_are_not_resolved(tmp_path, entity):
    """A file cannot show another one, nor grow."""
    (tmp_path / "a.xml").write_text(f"<?xml version='1.0'?><!DOCTYPE r [{entity}]><r>before &x; after</r>")

    text = ReaderRegistry([XmlReader()]).read(tmp_path / "a.xml", "a.xml", lambda: None).documents[0].text

    assert "before" in text
    assert "root:" not in text
    assert "aaaaaaaaaa" not in text


def test_tags_of_a_damaged_file_are_no_text(tmp_path):
    """What cannot be mended is read between its tags."""
    (tmp_path / "a.xml").write_text("<?xml version='1.0'?><given-names>one</surname> two & three <p>four")

    text = ReaderRegistry([XmlReader()]).read(tmp_path / "a.xml", "a.xml", lambda: None).documents[0].text

    assert ["one", "two", "four"] == [word for word in text.split() if word in ("one", "two", "four")]
    assert "given-names" not in text


def test_entity_bomb_stays_small(tmp_path):
    """It is read without what it would grow to."""
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    (tmp_path / "a.xml").write_text(
        f'<?xml version="1.0"?><!DOCTYPE r [<!ENTITY e0 "lol">{entities}]><r>before &e11; after</r>'
    )

    text = ReaderRegistry([XmlReader()]).read(tmp_path / "a.xml", "a.xml", lambda: None).documents[0].text

    assert "before" in text
    assert len(text) < 2_000


@pytest.fixture
def read(tmp_path):
    def read(data):
        (tmp_path / "a.xml").write_bytes(data)
        return ReaderRegistry([XmlReader()]).read(tmp_path / "a.xml", "a.xml", lambda: None)

    return read


WHOLE = b"<?xml version='1.0'?><r><a k='v'>one</a><!-- two --><b><![CDATA[three]]></b><c>four five</c></r>"


@pytest.mark.parametrize("end", range(WHOLE.index(b"one") + 3, len(WHOLE) - 1))
def test_file_that_breaks_off_is_told_wherever_it_does(read, end):
    """What is there is read; that it is not all is said."""
    result = read(WHOLE[:end])

    assert "one" in result.documents[0].text
    assert Notice.PARTIAL_TEXT in result.notices


def test_file_with_slips_is_whole(read):
    """Markup that is wrong, but there to its end, takes no text away."""
    result = read(b"<r><a>fish & chips &copy; R&D; x&#38;y & z&&</a><b>two</b></r>")

    assert frozenset() == result.notices
    assert ["fish & chips \u00a9 R&D; x&y & z&&", "two"] == result.documents[0].text.split("\n")


@pytest.mark.parametrize("junk", [b"<!-- - -->", b"<?p ?>", b"<!--", b"</r", b"</r>"])
def test_much_of_anything_behind_the_root_keeps_nothing_from_being_read(read, junk):
    """And is told."""
    result = read(b"<r><a>fish & chips</a></r>" + junk * 20_000 + b"<!-")

    assert "fish & chips" in result.documents[0].text
    assert Notice.PARTIAL_TEXT in result.notices


@pytest.mark.parametrize(
    "data",
    [
        '<?xml version="1.0" encoding="utf-8"?><r>Café & Größe, naïve</r>'.encode("cp1252"),
        '<?xml version="1.0" encoding="utf-16"?><r>Café & Größe, naïve</r>'.encode("utf-16"),
        '<?xml version="1.0" encoding="utf-16"?><r>Café & Größe, naïve</r>'.encode(),
        '<?xml version="1.0" encoding="nowhere"?><r>Café & Größe, naïve</r>'.encode(),
    ],
)
def test_charset_that_is_declared_wrongly_costs_no_letter(read, data):
    """The bytes decide."""
    assert "Café & Größe, naïve" == read(data).documents[0].text
