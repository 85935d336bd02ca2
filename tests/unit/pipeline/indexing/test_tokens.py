"""The token estimate, rule by rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.pipeline.indexing.tokens import BLOCK_CHARS, estimate_tokens


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (0, ""),
        (0, " \t\n\u3000"),
        (1, "a"),
        (1, "the"),
        (1, "letter"),
        (2, "letters"),
        (3, "don't"),
        (1, "!"),
        (1, "!!"),
        (2, "---"),
        (2, "café"),
        (4, "天气预报"),
        (6, "天气ABCD"),
        (6, "привет"),
        (1, "👍"),
        (4, "The cat sat."),
        (3, "1234567 x"),
    ],
)
def test_known_costs(tokens, text):
    """Each line of the rule has its example."""
    assert tokens == estimate_tokens(text)


def test_english_is_about_four_characters_a_token():
    """The ratio that default chunk sizes are explained with."""
    text = "The keeper of the lighthouse climbs the stairs every evening, trims the wick and lights the great lamp. " * 50

    assert 3.5 < len(text) / estimate_tokens(text) < 5


def test_blocks_do_not_change_the_sum():
    """A word across the border of two blocks counts once."""
    sentence = "lighthouse keepers, 天气 naïve! "
    text = sentence * (2 * BLOCK_CHARS // len(sentence))

    assert estimate_tokens(sentence) * (len(text) // len(sentence)) == estimate_tokens(text)


@given(st.text(), st.text())
def test_whitespace_parts_texts(one, two):
    """Two texts with a space between cost what each costs alone."""
    assert estimate_tokens(one) + estimate_tokens(two) == estimate_tokens(f"{one} {two}")


@given(st.text())
def test_no_text_costs_more_than_its_characters(text):
    """And none with something visible is free."""
    assert (0 if text.isspace() or not text else 1) <= estimate_tokens(text) + text.isspace() <= max(len(text), 1)
