"""Keyset cursors: where a page ended, as an opaque word. One that cannot be read counts as none: the first page."""

import base64
import binascii
import json
from datetime import datetime


def write(*parts: str | datetime) -> str:
    plain = [part.isoformat() if isinstance(part, datetime) else part for part in parts]
    return base64.urlsafe_b64encode(json.dumps(plain).encode()).decode().rstrip("=")


def read(cursor: str | None, length: int) -> list[str] | None:
    """The parts, if the cursor is one of ours with so many of them."""
    if not cursor:
        return None
    try:
        parts = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if not isinstance(parts, list) or len(parts) != length or not all(isinstance(part, str) for part in parts):
            return None
        "".join(parts).encode()  # half a surrogate pair is no text that a database could compare
    except (ValueError, TypeError, RecursionError, binascii.Error):
        return None
    return parts


def instant(part: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(part)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
