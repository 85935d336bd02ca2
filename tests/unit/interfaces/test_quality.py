"""What a reader found, in words."""

import pytest

from knowledge.interfaces.cli.quality import coverage, pages, record
from knowledge.model.quality import Quality
from knowledge.model.results import Coverage


@pytest.mark.parametrize(
    ("quality", "expected"),
    [
        (Quality(), ""),
        (Quality(pages=1, pages_with_text=1), "1 page"),
        (Quality(pages=14, pages_with_text=14), "14 pages"),
        (Quality(pages=14, pages_with_text=12), "12/14 pages"),
        (Quality(pages=1, pages_with_text=0), "0/1 page"),
        (Quality(pages=3), "3 pages"),
    ],
)
def test_mark_of_a_list(quality, expected):
    """Short where all is well; a share where something is missing."""
    assert expected == pages(quality)


def test_record_tells_what_is_known():
    """The reader with what helped it, and how much could not be decoded."""
    quality = Quality(
        media_type="application/pdf", reader="pdf", converter="tesseract 5.3", pages=2, pages_with_text=1, characters=12_345,
        replaced_characters=1,
    )  # fmt: skip

    assert {
        "media type": "application/pdf", "read by": "pdf with tesseract 5.3", "charset": None, "language": None,
        "pages": "1/2 pages", "characters": "12,345", "unreadable": "1 character",
    } == record(quality)  # fmt: skip
    assert not any(record(Quality()).values())


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (Coverage(items=501, with_text=423, partial=12, without_text=0, failed=0), "423 of 501 items have text, 12 partial"),
        (Coverage(items=1, with_text=1, partial=0, without_text=0, failed=0), "1 of 1 item has text"),
        (
            Coverage(items=9, with_text=4, partial=1, without_text=2, failed=3),
            "4 of 9 items have text, 1 partial, 2 empty, 3 failed",
        ),
        (Coverage(items=0, with_text=0, partial=0, without_text=0, failed=0), "no items"),
    ],
)
def test_coverage_in_a_sentence(found, expected):
    """What is missing is named, what is not is not."""
    assert expected == coverage(found)
