"""How long a server asks to wait."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from knowledge.pipeline.http.retry_after import MAX_SECONDS, retry_after_seconds


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        (" 7 ", 7.0),
        ("0", 0.0),
        ("-3", 0.0),
        ("999999", MAX_SECONDS),
        ("inf", MAX_SECONDS),
        ("nan", None),
        ("soon", None),
        ("", None),
        (None, None),
    ],
)
def test_number_of_seconds_is_taken_within_reason(header, seconds):
    """An hour at most, and nothing that is no number."""
    assert seconds == retry_after_seconds(header)


def test_moment_is_taken_as_the_time_until_then():
    """The other form that the header may have; a moment that has passed is no wait."""
    later, earlier = (datetime.now(UTC) + timedelta(seconds=seconds) for seconds in (600, -600))

    assert 500 < retry_after_seconds(format_datetime(later, usegmt=True)) <= 600
    assert 0.0 == retry_after_seconds(format_datetime(earlier, usegmt=True))
