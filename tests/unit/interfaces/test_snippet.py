"""The part of a passage that is shown."""

import pytest

from knowledge.interfaces.cli.snippet import snippet, terms

FILLER = "nothing of interest here " * 40


def test_short_words_are_not_looked_for_and_unspaced_scripts_by_pairs():
    """Terms are the longer words, and neighbouring characters where a script has no spaces."""
    assert ["who", "may", "climb", "the", "tower"] == terms("Who may climb the tower?")
    assert ["什么", "么时", "时候", "雾号"] == terms("什么时候 雾号")
    assert ["灯"] == terms("灯")


def test_a_short_passage_is_shown_whole():
    """Nothing is cut that fits."""
    assert "a short one" == snippet("a short one", ["short"], length=20)


@pytest.mark.parametrize("before", ["", FILLER])
def test_the_window_holds_the_words_asked_for(before):
    """Of several places the one with most of the terms is shown, marked where text is missing."""
    text = f"{before}the tower stands. {FILLER}who may climb the tower: nobody alone. {FILLER}"

    shown = snippet(text, terms("who may climb the tower"), length=120)

    assert "who may climb the tower: nobody alone." in shown
    assert shown.startswith("… ")
    assert shown.endswith(" …")
    assert 124 >= len(shown)


def test_without_a_match_the_beginning_is_shown():
    """A hit by meaning alone has no word to point at."""
    assert snippet(FILLER, ["lamp"], length=30).startswith("nothing of interest")


@pytest.mark.parametrize("text", ["ß" * 300 + " climb " + "ß" * 300, "İ" * 300 + " climb " + "İ" * 300])
def test_folding_that_changes_lengths_does_not_shift_the_window(text):
    """Letters whose folded form is longer do not move the window away from the match."""
    assert "climb" in snippet(text, ["climb"], length=100)


def test_chinese_is_found_without_spaces():
    """The window starts near the pair of characters that matched, in text without a single blank."""
    text = "海" * 500 + "雾号自动开启" + "海" * 500

    assert "雾号自动开启" in snippet(text, terms("什么时候开启雾号"), length=60)
