"""Texts and questions become the same tokens, in every script."""

import re
import unicodedata

import apsw
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from knowledge.pipeline.indexing.analyser import Term, index_text, terms, tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Quick, brown-fox", ["the", "quick", "brown", "fox"]),
        ("snake_case v2.04 mp3", ["snake", "case", "v2", "04", "mp3"]),
        ("Müller’s Straße", ["muller", "s", "strasse"]),
        ("Łódź, Ærø, Đà Nẵng", ["lodz", "aero", "da", "nang"]),
        ("İstanbul ΣΊΣΥΦΟΣ Ёлка", ["istanbul", "σισυφοσ", "елка"]),
        ("ﬁne ½ ² Ⅳ", ["fine", "1", "2", "2", "iv"]),
        ("台北市", ["台北", "北市", "市"]),
        ("水", ["水"]),
        ("第3章 ２０２４年", ["第", "3", "章", "2024", "年"]),
        ("用Python写", ["用", "python", "写"]),
        ("ｶﾞｲﾄﾞ・タワー", ["ガイ", "イド", "ド", "タワ", "ワー", "ー"]),
        ("서울에서 3월", ["서울", "울에", "에서", "서", "3", "월"]),
        ("ไทย ๒๐", ["ไท", "ทย", "ย", "20"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("كِتَابٌ أحمد ٢٠٢٤", ["كتاب", "احمد", "2024"]),
        ("שָׁלוֹם־עולם", ["שלום", "עולם"]),
        ("می‌خواهم", ["میخواهم"]),
        ("2024г 5кг", ["2024", "г", "5", "кг"]),
        ("soft\u00adhyphen zero\u200bwidth", ["softhyphen", "zerowidth"]),
        ("🙂 — \ud800 \x00 …", []),
        ("", []),
    ],
)
def test_text_becomes_tokens(text, expected):
    """Folded, split at what is no letter, mark or digit; unspaced scripts in pairs."""
    assert expected == tokens(text)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Wörter wörter WORTER", [Term("worter")]),
        ("水", [Term("水", prefix=True)]),
        ("台北市", [Term("台北"), Term("北市")]),
        ("第3章", [Term("第", prefix=True), Term("3"), Term("章", prefix=True)]),
        ("?!", []),
    ],
)
def test_question_becomes_terms(query, expected):
    """Pairs without the last character alone; a single character as a beginning; each term once."""
    assert expected == terms(query)


@given(st.text())
def test_forms_of_a_text_are_one(text):
    """Composed, decomposed and compatibility forms give the same tokens."""
    plain = tokens(text)

    assert plain == tokens(unicodedata.normalize("NFD", text)) == tokens(unicodedata.normalize("NFC", text))
    assert plain == tokens(unicodedata.normalize("NFKC", text))


@given(st.text(alphabet="台北市中山區タワーー서울ไทยab é1２-", min_size=1), st.data())
def test_every_word_of_a_text_is_asked_for_as_it_is_stored(text, data):
    """Any piece of an unspaced run, and any whole word, asks for tokens that the text has."""
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    piece = re.sub("^[0-9a-zé２]+|[0-9a-zé２]+$", "", text[start:end])  # spaced words count whole
    stored = tokens(text)

    for term in terms(piece):
        assert any(token.startswith(term.text) if term.prefix else token == term.text for token in stored)


@given(st.text())
@example("ᎠᏂᏴᏫᏯ ꭰꮒᏼꮻꮿ")
def test_sqlite_sees_the_same_tokens(text):
    """FTS5's `ascii` tokenizer splits prepared text exactly as `tokens` does."""
    connection = apsw.Connection(":memory:")
    found = connection.fts5_tokenizer("ascii", [])(index_text(text).encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None)

    assert tokens(text) == [token for _, _, *same_place in found for token in same_place]


@given(st.text())
@example("ᎠᏂᏴᏫᏯ ꭰꮒᏼꮻꮿ")
def test_a_word_is_asked_for_as_it_is_stored_whatever_its_case(text):
    """What a question asks for is what SQLite keeps of the same text."""
    connection = apsw.Connection(":memory:")
    found = connection.fts5_tokenizer("ascii", [])(index_text(text).encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None)
    stored = {token for _, _, *same_place in found for token in same_place}

    assert [] == [term for term in terms(text) if not term.prefix and term.text not in stored]
