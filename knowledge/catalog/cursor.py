"""Keyset cursors: where a page ended, as an opaque word. One that no list has written is refused.

A first page in its place would be taken for the next one: whoever follows pages would see the same items again, for ever.
"""

import base64
import binascii
import json
from datetime import datetime
from typing import NoReturn

from knowledge.errors import InvalidInput


def write(*parts: str | datetime) -> str:
    plain = [part.isoformat() if isinstance(part, datetime) else part for part in parts]
    return base64.urlsafe_b64encode(json.dumps(plain).encode()).decode().rstrip("=")


def read(cursor: str | None, length: int) -> list[str] | None:
    """The parts of a cursor of ours; None if there is none, or a blank one: the first page.

    Raises:
        InvalidInput: nothing of ours with so many parts.
    """
    if not cursor:
        return None
    try:
        parts = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
        if not isinstance(parts, list) or len(parts) != length or not all(isinstance(part, str) for part in parts):
            refuse()
        "".join(parts).encode()  # half a surrogate pair is no text that a database could compare
    except (ValueError, TypeError, RecursionError, binascii.Error):
        refuse()
    return list(parts)


def instant(part: str) -> datetime:
    """Raises `InvalidInput`: it is none, or has no time zone."""
    try:
        moment = datetime.fromisoformat(part)
    except ValueError:
        refuse()
    return moment if moment.tzinfo is not None else refuse()


def refuse() -> NoReturn:
    raise InvalidInput(
        "This cursor does not come from a page of this list; leave it out for the first page.", field="cursor"
    ) from None
