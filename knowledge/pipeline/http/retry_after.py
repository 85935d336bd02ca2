"""What a server means by `Retry-After`."""

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

MAX_SECONDS: Final = 3600.0  #: a server that asks for more gets asked again after an hour


def retry_after_seconds(value: str | None) -> float | None:
    """Seconds to wait, from a number or an HTTP date; None if the header is absent or senseless."""
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            moment = parsedate_to_datetime(value)
        except (ValueError, TypeError):
            return None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        seconds = (moment - datetime.now(UTC)).total_seconds()
    if math.isnan(seconds):
        return None
    return min(max(seconds, 0.0), MAX_SECONDS)
