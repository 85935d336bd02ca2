"""Rich Text Format as Markdown."""

from typing import ClassVar

import pytest

from knowledge.model.status import Notice
from knowledge.pipeline.readers.registry import ReaderRegistry
from knowledge.pipeline.readers.rtf import RtfReader
from tests.contracts.reader_contract import ReaderContract

FONTS = (
    r"{\fonttbl{\f0\fcharset0 A;}{\f1\fcharset238 B;}{\f2\fcharset128 C{\*\falt D;}}{\f3\fcharset204 E;}{\f4\fcharset2 Symbol;}"
    r"{\f5\cpg949 F;}}"
)
STYLES = r"{\stylesheet{\s0 Normal;}{\s1\b heading 1;}{\s2\outlinelevel1 {\*\x y}\'dcberschrift 2;}}"
TABLE = r"{\trowd\cellx1\cellx2\pard\intbl k\cell v\cell\row\pard\trowd\cellx1\cellx2\pard\intbl a|b\cell one\par two\cell\row}"


def rtf(body: str, head: str = "") -> bytes:
    return (r"{\rtf1\ansi\ansicpg1252\deff0" + head + body + "}").encode("latin-1")


class TestRtfReader(ReaderContract):
    reader = RtfReader
    samples: ClassVar = {
        "plain.rtf": (
            rtf(r"\pard caf\'e9 \emdash  \ldblquote x\rdblquote\par second \{line\}\par"),
            ("café — “x”", "second {line}"),
        ),
        "fonts.rtf": (
            rtf(r"\f1\'c8l\'e1nek {\f2\'93\'fa\'96\'7b}\plain\'e9 \f3\'cf\'f0 \f5\'c7\'d1\par", FONTS),
            ("Článek", "日本", "é", "Пр", "한"),
        ),
        "unicode.rtf": (rtf(r"\u945a\uc2\u228\'E8a\uc1\u-10179?\u-8704?\par"), ("αä😀",)),
        "headings.rtf": (
            rtf(r"\pard\s1 One\par\pard\s2 Two\par\pard\outlinelevel2 Three\par\pard text\par", STYLES),
            ("# One", "## Two", "### Three", "text"),
        ),
        "table.rtf": (
            rtf(r"before\par" + TABLE + r"\pard after\par"),
            ("before", "| k | v |\n| --- | --- |\n| a\\|b | one two |", "after"),
        ),
        "notes.rtf": (
            rtf(
                r"{\header on top\par}see{\footnote{\up6\chftn} the note} here"
                r"{\*\annotation{\*\atnref 1}really?}\par{\footer below}"
            ),
            ("see[^1] here", "[^1]: the note", "[comment]: really?", "on top", "below"),
        ),
        "box.rtf": (
            rtf(
                r"beside{\shp{\*\shpinst\shpleft1{\sp{\sn name}{\sv value}}{\shptxt in the box\par}}{\shprslt in the box}}\par"
            ),
            ("beside", "in the box"),
        ),
        "list.rtf": (rtf(r"{\listtext\f4\'b7\tab}eins\par{\pntext 2.\tab}zwei\par", FONTS), ("- eins", "2. zwei")),
        "field.rtf": (rtf(r'{\field{\*\fldinst HYPERLINK "http://x/"}{\fldrslt the link}}\par'), ("the link",)),
    }


@pytest.fixture
def read(tmp_path):
    def read(data):
        (tmp_path / "a.rtf").write_bytes(data)
        result = ReaderRegistry([RtfReader()]).read(tmp_path / "a.rtf", "a.rtf", lambda: None)
        return "\n".join(document.text for document in result.documents), result

    return read


@pytest.mark.parametrize(
    "hidden",
    [
        r"{\v hidden}",
        r"{\deleted hidden}",
        r"{\info{\title hidden}}",
        r"{\*\unknown hidden}",
        r"{\pict\pngblip 89504e47}",
        r"{\object{\*\objdata 0105}}",
        r"{\*\htmltag <p>}",
        r"{\xe hidden}",
    ],
)
def test_what_is_not_shown_is_left_out(read, hidden):
    """Hidden and deleted text, pictures, data for other programs."""
    assert "a b" == read(rtf(rf"a{hidden} b\par"))[0]


def test_binary_data_are_skipped_by_their_length(read):
    """Raw bytes may look like anything."""
    assert "a b" == read(rtf(r"a{\pict\bin5 }}\x{}" + r" b\par"))[0]


def test_unicode_text_wins_over_its_old_form(read):
    """A destination may come in two forms, of which old programs read the first."""
    assert "a 長" == read(rtf(r"a {\upr{?}{\*\ud{\u38263?}}}\par"))[0]


def test_trail_byte_may_be_a_plain_letter(read):
    """In Shift JIS the second byte of a character can be ASCII, written as it is."""
    assert "ソ" == read(rtf(r"\f2\'83\\\par".replace(r"\\", r"\'5c"), FONTS))[0]
    assert "ア" == read(rtf(r"\f2\'83A\par", FONTS))[0]


def test_half_a_character_is_replaced_and_told(read):
    """A lead byte alone is no character."""
    text, result = read(rtf(r"\f2 a\'83\par", FONTS))

    assert "a\ufffd" == text
    assert {Notice.ENCODING_REPLACED} == result.notices


def test_tables_apart_stay_apart(read):
    """A paragraph between two tables divides them, the end of a row does not."""
    text, _ = read(rtf(TABLE + r"\pard between\par" + TABLE))

    assert 2 == text.count("| --- | --- |")


def test_document_left_open_is_read(read):
    """A file cut off shows what is there, and that it is not all."""
    text, result = read(rtf(r"one\par two")[:-1])

    assert "one\n\ntwo" == text
    assert {Notice.PARTIAL_TEXT} == result.notices


def test_what_follows_the_document_is_left_out(read):
    """Mail programs leave zeros and old versions behind the last brace."""
    assert "a" == read(rtf(r"a\par") + b"\0\0{\\rtf1 old}")[0]


def test_groups_may_be_nested_deeply(read):
    """No stack of the machine is used for them."""
    assert "a" == read(rtf("{" * 50_000 + "a" + "}" * 50_000))[0]
