"""Keyset cursors: where a page ended, as an opaque word. One that cannot be read counts as none: the first page."""

import base64
import binascii
import json
from datetime import datetime

Part = str | int | None


def write(*parts: Part | datetime) -> str:
    plain = [part.isoformat() if isinstance(part, datetime) else part for part in parts]
    return base64.urlsafe_b64encode(json.dumps(plain).encode()).decode().rstrip("=")


def read(cursor: str | None, length: int) -> list[Part] | None:
    """The parts, if the cursor is one of ours with so many of them."""
    if not cursor:
        return None
    try:
        parts = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, TypeError, binascii.Error):
        return None
    return parts if isinstance(parts, list) and len(parts) == length else None


def instant(part: Part) -> datetime | None:
    try:
        return datetime.fromisoformat(str(part))
    except ValueError:
        return None
