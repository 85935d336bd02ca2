"""Charsets: never guess where one can know."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.model.status import Notice
from knowledge.pipeline.readers.decoding import clean, decode, looks_like_text

GUESSED = frozenset({Notice.ENCODING_GUESSED})


@given(st.text())
def test_utf8_round_trips(text):
    """Valid UTF-8 is UTF-8, whatever it holds and wherever it stops being ASCII."""
    if text.startswith("\ufeff") or "\x00" in text or "\x1b$" in text:
        return

    assert text == decode(text.encode()).text


@pytest.mark.parametrize(
    "text",
    ["x" * 4096 + ",café\n", "Кіт не знає, що він кіт. " * 8, "x" * 200_000 + "é", "長" * 70_000],
    ids=["csv", "uk", "late", "cjk"],
)
def test_valid_utf8_is_never_guessed(text):
    """No sample decides: all bytes are tried first."""
    decoded = decode(text.encode())

    assert (text, "utf-8", frozenset()) == (decoded.text, decoded.encoding, decoded.notices)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_mark_decides_and_goes(encoding):
    """The byte order mark is no part of the first word."""
    assert ("name\tvalue\n", frozenset()) == (decode("name\tvalue\n".encode(encoding)).text, frozenset())


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_wide_text_without_mark_is_recognised(encoding):
    """Zero bytes at every other place leave no doubt."""
    text = "Some words in a wide charset, é included.\n"

    assert (text, True) == (decode(text.encode(encoding)).text, looks_like_text(text.encode(encoding)))


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("café lighthouse", "latin-1"),
        ("Übergröße", "latin-1"),
        ("naïve façade — “déjà vu”", "cp1252"),
        ("Příliš žluťoučký kůň úpěl ďábelské ódy", "cp1250"),
        ("Zażółć gęślą jaźń", "iso8859-2"),
        ("Привет, как дела? Это проверка", "cp1251"),
        ("Привет, как дела? Это проверка", "koi8-r"),
        ("日本語のテキストです。", "cp932"),
        ("日本語のテキストです。", "euc-jp"),
        ("日本語のテキストです。", "iso-2022-jp"),
        ("简体中文测试文字，这是一个比较长的句子。", "gb18030"),
        ("한국어 텍스트 시험입니다", "euc-kr"),
        ("Ελληνικά κείμενα", "cp1253"),
    ],
)
def test_other_charsets_are_detected(text, encoding):
    """Old files keep their letters."""
    assert text == decode(text.encode(encoding)).text


def test_detection_looks_at_the_foreign_lines():
    """A long ASCII beginning does not hide the charset of the rest."""
    text = "plain\n" * 20_000 + "Привет, как дела? Это проверка\n" * 3

    decoded = decode(text.encode("cp1251"))

    assert (text, GUESSED) == (decoded.text, decoded.notices)


def test_declared_charset_is_used_where_it_fits():
    """A page knows its charset, unless its bytes say otherwise."""
    text = "簡単な文章"

    assert text == decode(text.encode("euc-jp"), declared="EUC-JP").text
    assert text == decode(text.encode(), declared="EUC-JP").text


@pytest.mark.parametrize("declared", ["utf-16", "zip", "no-such-charset", "unicode_escape", "x\\n", "rot13", "idna"])
def test_nonsense_declaration_does_no_harm(declared):
    """A declaration is a claim by whoever wrote the file."""
    assert "café au lait" == decode("café au lait".encode("latin-1"), declared=declared).text


@pytest.mark.parametrize("text", ["Straße, grün", "Кіт", "長い"])
def test_utf8_that_was_cut_is_utf8(text):
    """A download that broke off: the last character is lost, no other is guessed anew."""
    decoded = decode((text + "é").encode()[:-1])

    assert (text + "\ufffd", "utf-8", {Notice.ENCODING_REPLACED}) == (decoded.text, decoded.encoding, decoded.notices)


@given(st.binary(max_size=300))
def test_any_bytes_decode_to_something_storable(data):
    """Nothing raises, and what comes out can be written as UTF-8."""
    assert isinstance(clean(decode(data).text).encode(), bytes)


def test_clean_text_is_what_the_pipeline_expects():
    """One boundary for mark, line ends, NUL, surrogates and composition."""
    assert "a\nb\nc\ufffd\ufffd\u00fc" == clean("\ufeffa\r\nb\rc\x00\ud800u\u0308")


@pytest.mark.parametrize(
    ("sample", "is_text"),
    [
        (b"a\0# Heading\n\nbody text here", True),
        (b"\xef\xbb\xbf\0# Heading\n\nbody text here", True),
        ("長".encode() * 3000 + b"\xe9", True),
        (b"\x1b[1mbold\x1b[0m terminal log", True),
        ("café".encode("latin-1"), True),
        (bytes(range(256)), False),
        (b"\0" * 100, False),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1\0\0\0\1\0", False),
        (b"\x7fELF\2\1\1\0\0\0\0\0\0\0\0\0\3\0>\0\1\0\0\0", False),
    ],
)
def test_text_is_told_from_binary(sample, is_text):
    """Valid UTF-8 may hold a stray NUL; anything else with NULs is no text."""
    assert is_text == looks_like_text(sample)


def test_foreign_bytes_deep_in_a_long_line_are_found():
    """They decide, however much ASCII stands around them; and each byte is looked at once, or this would take hours."""
    text = "x" * 3_000_000 + " à la façon des élèves " + "y" * 1_000_000 + "\n" + "plain\n" * 1_000

    assert text == decode(text.encode("cp1252")).text
