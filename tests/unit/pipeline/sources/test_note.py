"""What a note's snapshot is called."""

import pytest

from knowledge.pipeline.sources.note import is_blank, stem, title


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("Meeting notes", "Meeting notes"),
        ("\n  \n  Second line  \nThird", "Second line"),
        ("a/b: c?", "a_b_ c_"),
        ("x" * 200, "x" * 80),
        ("", "note"),
        (" \n\t", "note"),
        ("...", "note"),
        ("會議記錄", "會議記錄"),
    ],
)
def test_stem_is_the_first_line_made_safe(source, expected):
    """Cut to 80 characters; `note` if nothing is left."""
    assert expected == stem(source)


def test_title_is_the_first_line_as_written():
    """The title keeps what a file name cannot."""
    assert "a/b: c?" == title("\na/b: c?\nmore")


@pytest.mark.parametrize(
    ("content", "blank"), [("", True), (" \n\u200b\u00a0\ufeff", True), ("a", False), ("\u200bx\u200b", False), ("。", False)]
)
def test_blank_note_says_nothing(content, blank):
    """Zero-width marks are no content."""
    assert blank == is_blank(content)
