"""Where texts are cut."""

import json
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from knowledge.errors import InvalidInput
from knowledge.pipeline.indexing.splitter import is_blank, split, unescape
from knowledge.pipeline.indexing.tokens import estimate_tokens

PARAGRAPH = "The keeper lit the lamp of the lighthouse at dusk and the ships turned their bows to the harbour. "

MARKDOWN_PIECES = st.sampled_from(
    [
        "# Title\n",
        "\n## Part\n",
        "\n",
        "\n\n",
        "```\n",
        "~~~\n",
        "---\n",
        "- entry\n",
        "3. third\n",
        "word ",
        "天气预报。",
        "\u200b",
        *("naïve", "e\u0301", "👩‍👩‍👧", "🇩🇪", " " * 30, "x" * 50, "\r\n", "\ufeff", ", ", ". "),
    ]
)
TEXTS = st.lists(MARKDOWN_PIECES | st.text(max_size=20), max_size=60).map("".join)


def pieces(text, **options):
    return [text[span.start : span.end] for span in split(text, **{"size": 50, "overlap": 0, **options})]


@settings(max_examples=300, deadline=None)
@given(TEXTS, st.integers(1, 60), st.integers(0, 80), st.sampled_from(["structured", "delimiter"]))
@example("\n\n---\n\n \u200b\n\n", 1, 0, "structured")
@example("```\n" * 9, 3, 2, "structured")
def test_spans_are_clean(text, size, overlap, strategy):
    """Spans ascend, lie inside the text, are never blank and have no whitespace at either end."""
    spans = split(text, size=size, overlap=overlap, strategy=strategy, separator="\\n\\n")

    assert spans == sorted(set(spans))
    for span in spans:
        piece = text[span.start : span.end]
        assert span.end - span.start == len(piece) > 0
        assert piece == piece.strip()
        assert not is_blank(piece)


@settings(max_examples=300, deadline=None)
@given(TEXTS, st.integers(1, 60), st.sampled_from(["structured", "delimiter"]))
def test_without_overlap_every_visible_character_is_in_exactly_one_span(text, size, strategy):
    """Nothing is lost and nothing doubled."""
    spans = split(text, size=size, overlap=0, strategy=strategy, separator="\\n\\n")
    covered = [place for span in spans for place in range(*span)]

    assert len(covered) == len(set(covered))
    assert all(is_blank(text[place]) for place in set(range(len(text))) - set(covered))


@settings(max_examples=200, deadline=None)
@given(TEXTS, st.integers(2, 60), st.integers(1, 59))
def test_with_overlap_every_visible_character_is_covered(text, size, overlap):
    """Overlap may double text but never lose it."""
    covered = {place for span in split(text, size=size, overlap=overlap) for place in range(*span)}

    assert all(is_blank(text[place]) for place in set(range(len(text))) - covered)


def test_chunks_are_near_the_wanted_size():
    """Characters follow the text's own average; a chunk is at most its target and at least 78 % of it, but for the last."""
    sizes = [len(piece) for piece in pieces(PARAGRAPH * 100, size=100, strategy="delimiter", separator="|")]

    assert max(sizes) <= 100 * 4.5
    assert min(sizes[:-1]) >= 0.75 * max(sizes)


@pytest.mark.parametrize("text", ["", " ", "\n\n", "\u200b", "\ufeff \u2060", "\u00ad\u200d", "\u3164\u2800", "\ufe0f"])
def test_nothing_visible_gives_no_chunk(text):
    """A provider answers 400 to a blank input, so none is ever made."""
    assert [] == split(text, size=10, overlap=0)


@pytest.mark.parametrize("text", ["a", "…", "天", "👍", "---"])
def test_one_visible_character_is_a_chunk(text):
    """Small is not blank."""
    assert [text] == pieces(f"\n \u200b{text} \n")


def test_chunks_start_at_headings():
    """A heading inside the window beats everything else."""
    section = PARAGRAPH * 5
    text = "".join(f"## Part {number}\n\n{section}\n\nA last word. {PARAGRAPH}\n" for number in range(6))
    found = pieces(text, size=len(text) // 6 // 4)

    assert 6 == len(found)
    assert all(piece.startswith("## Part") for piece in found)


@pytest.mark.parametrize(("mark", "taken"), [("# ", True), ("###### ", True), ("#", False), ("####### ", False)])
def test_a_heading_needs_a_space_after_up_to_six_hashes(mark, taken):
    """`#include` and `#hashtag` are text: the blank line before them is the better place."""
    before = PARAGRAPH * 4 + "\n\nA short line.\n"
    text = before + mark + PARAGRAPH * 4
    size = (len(before) + 10) * estimate_tokens(text) // len(text)  # the target falls a word after the marks

    assert taken == any(piece.startswith(mark) for piece in pieces(text, size=size))


def test_a_break_inside_a_fence_is_not_taken():
    """The comment line inside the block looks like a heading but the cut falls before the block."""
    text = PARAGRAPH * 6 + "\n```\n" + "code\n# no heading\n" * 6 + "```\n" + PARAGRAPH * 6
    first = pieces(text, size=165)[0]

    assert first == (PARAGRAPH * 6).strip()


def test_an_open_fence_reaches_the_end():
    """Then only hard cuts are left."""
    text = "```\n" + "line of code\n" * 200

    assert any(not piece.endswith("code") for piece in pieces(text, size=50)[:-1])


def test_separator_is_read_in_escaped_form():
    """What a person typed as backslash n is a newline."""
    text = (PARAGRAPH + "\n\n") * 20

    assert pieces(text, strategy="delimiter", separator="\\n\\n") == pieces(text, strategy="delimiter", separator="\n\n")
    assert "\n\t\r\\n\\x" == unescape(r"\n\t\r\\n\x")


def test_delimiter_strategy_cuts_after_the_separator():
    """It stays with the chunk it ends."""
    text = (PARAGRAPH + "<cut>") * 20

    assert all(piece.endswith("<cut>") for piece in pieces(text, size=60, strategy="delimiter", separator="<cut>"))


def test_overlap_repeats_the_end_of_the_chunk_before():
    """Neighbours share text."""
    spans = split(PARAGRAPH * 40, size=100, overlap=20)

    assert all(left.start < right.start < left.end for left, right in pairwise(spans))


def test_overlap_as_large_as_the_chunk_still_ends():
    """It is clamped."""
    assert len(split("abc " * 50, size=5, overlap=500)) <= 200


@pytest.mark.parametrize(
    "cluster",
    [
        "e\u0301\u0323",
        "👩‍👩‍👧",
        "🇩🇪",
        "👍🏽",
        "1\ufe0f\u20e3",
        "🏳\ufe0f‍🌈",
        "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
        "\u1112\u1161\u11ab",
        "क्षि",
        "กำ",
        "ｶﾞ",
    ],
)
def test_a_hard_cut_leaves_combined_characters_whole(cluster):
    """What looks like one character stays in one chunk."""
    for shift in range(len(cluster)):
        text = "x" * shift + cluster * 400
        for piece in pieces(text, size=37, overlap=0):
            assert "" == piece.strip("x").replace(cluster, "")


@pytest.mark.parametrize(("strategy", "separator"), [("delimiter", " "), ("delimiter", "e"), ("structured", "e")])
def test_a_separator_under_a_mark_is_no_place_to_cut(strategy, separator):
    """The mark would stand alone at the beginning of the next chunk."""
    for piece in pieces("e\u0301 \u0301e\u0301" * 200, size=12, overlap=0, strategy=strategy, separator=separator):
        assert "\u0301" != piece[0]


@pytest.mark.parametrize(
    "text",
    [
        "长" * 1_000_000,
        json.dumps([{"id": n, "tags": ["a", "b"], "name": "x" * (n % 19)} for n in range(100_000)], separators=(",", ":")),
        "\n" * 1_000_000 + "x",
        "\nx" * 300_000,
        " " * 1_000_000 + "x",
        ("\n" + " " * 5_000) * 200 + "x",
        "```\n" + "x\n" * 300_000,
        "`" * 1_000_000,
        "a" + "\u0301" * 1_000_000,
        "-" * 1_000_000,
        "\n" + "#" * 500_000 + "\n" + "1" * 500_000,
    ],
    ids=[
        "one character",
        "json",
        "newlines",
        "short lines",
        "spaces",
        "indents",
        "open fence",
        "ticks",
        "marks",
        "rule",
        "hashes",
    ],
)
@pytest.mark.timeout(60)
def test_large_and_odd_texts_are_cut_in_linear_time(text):
    """No text is too long for one chunk, and none takes minutes."""
    spans = split(text, size=1024, overlap=200, separator="\\n\\n")

    assert spans
    assert sum(span.end - span.start for span in spans) <= 2 * len(text)


def test_decomposed_and_composed_text_differ_only_by_form():
    """Offsets are code points of the text as given."""
    text = unicodedata.normalize("NFD", "Größenänderung überprüfen. " * 40)

    assert all(piece == piece.strip() and not unicodedata.combining(piece[0]) for piece in pieces(text, size=13))


@pytest.mark.parametrize("options", [{"strategy": "semantic"}, {"strategy": "delimiter", "separator": ""}])
def test_senseless_chunking_is_refused(options):
    """An unknown strategy, or a delimiter strategy without delimiter."""
    with pytest.raises(InvalidInput):
        split("text", size=10, overlap=0, **options)
