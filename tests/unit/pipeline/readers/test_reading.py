"""What is gathered from a reader's findings: texts, notices and the counts of the quality record."""

import pytest

from knowledge.errors import ReaderBudgetExceeded
from knowledge.model.budget import Budget
from knowledge.model.documents import Document
from knowledge.model.quality import Facts
from knowledge.model.status import Notice
from knowledge.pipeline.readers.language import language
from knowledge.pipeline.readers.reading import Began, Reading


def gathered(*findings, budget=None):
    reading = Reading(budget or Budget())
    for finding in (Began("application/pdf", "pdf"), *findings):
        reading.take(finding)
    return reading.result()


def test_pages_are_counted_with_those_that_gave_nothing():
    """A blank document stands for a page without text; two documents of one page are one page."""
    result = gathered(Document("a", 1), Document(" \n", 2), Document("b", 3), Document("c", 3))

    assert (3, 2) == (result.quality.pages, result.quality.pages_with_text)
    assert ["a", "b", "c"] == [document.text for document in result.documents]


def test_facts_win_over_counts_and_later_ones_over_earlier_ones():
    """What is not told is not forgotten."""
    result = gathered(Facts(charset="cp1252", pages=4), Document("a", locator="slide 2"), Facts(pages=5, converter="x 1"))

    quality = result.quality
    assert ("cp1252", "x 1", 5, 1) == (quality.charset, quality.converter, quality.pages, quality.pages_with_text)


def test_characters_are_counted_and_those_that_are_lost():
    """In the clean text, in code points."""
    quality = gathered(Document("na\u0308\ufffd\x00 \U0001f600")).quality

    assert (6, 2) == (quality.characters, quality.replaced_characters)


def test_formats_without_pages_have_none():
    """None is not zero: nobody looks for what is missing."""
    quality = gathered(Document("a"), Document("b")).quality

    assert (None, None) == (quality.pages, quality.pages_with_text)


def test_a_second_beginning_forgets_the_first():
    """A reader process was lost in the middle and another one reads the file."""
    result = gathered(Document("half"), Notice.PARTIAL_TEXT, Facts(pages=9), Began("text/html", "html"), Document("whole"))

    assert ["whole"] == [document.text for document in result.documents]
    assert ("html", frozenset(), None) == (result.reader, result.notices, result.quality.pages)


def test_text_that_would_fill_the_memory_is_refused():
    """Its length and the limit are told."""
    with pytest.raises(ReaderBudgetExceeded) as caught:
        gathered(Document("a" * 60), Document("b" * 60), budget=Budget(characters=100))

    assert {
        "figure": "characters", "found": 120, "limit": 100, "media_type": "application/pdf", "reader": "pdf",
    } == caught.value.details  # fmt: skip


@pytest.mark.parametrize(
    ("declared", "text", "expected"),
    [("de-AT", "", "de"), ("EN", "", "en"), ("zh_Hans", "", "zh"), ("", "", None), ("x-none", "", None), ("mul", "", None)],
)
def test_declared_language(declared, text, expected):
    """Two letters, whatever stands behind them."""
    assert expected == gathered(Document("1"), Facts(language=declared)).quality.language


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The keeper of the light is on the tower, and the boat for the island was late with the post.", "en"),
        ("Der Wärter ist auf dem Turm, und das Boot mit der Post für die Insel ist nicht gekommen.", "de"),
        ("El guardián de la torre y los barcos de la isla no son para los que llegan por el mar.", "es"),
        ("Le gardien est dans la tour et les bateaux ne sont pas pour ceux qui vont sur une île.", "fr"),
        ("灯台守は塔の上にいて、島への船は遅れていました。", "ja"),
        ("灯塔的看守人在塔上，去岛上的船晚点了，今天没有邮件送来。", "zh"),
        ("등대지기는 탑 위에 있고 섬으로 가는 배는 늦게 도착했습니다.", "ko"),
        ("Ο φύλακας του φάρου είναι στον πύργο και το πλοίο άργησε.", "el"),
        ("Сторож маяка на башне, и лодка опоздала на остров.", None),
        (
            "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor ut labore et dolore in ex non est",
            "la",
        ),
        ("x1 y2 z3 foo bar baz qux quux corge grault garply", None),
        ("the", None),
        ("", None),
    ],
)
def test_language_where_it_is_clear(text, expected):
    """Scripts that several languages share, code, and short texts give no answer."""
    assert expected == language([text])
