"""Identifiers: bases are UUID v4, everything that is listed by age is UUID v7 (time-ordered)."""

import os
import time
import uuid
from typing import NewType

BaseId = NewType("BaseId", str)
ItemId = NewType("ItemId", str)
JobId = NewType("JobId", str)


def new_base_id() -> BaseId:
    return BaseId(str(uuid.uuid4()))


def new_item_id() -> ItemId:
    return ItemId(_uuid7())


def new_job_id() -> JobId:
    return JobId(_uuid7())


def _uuid7() -> str:
    """RFC 9562 §5.7: 48 bits of milliseconds, 12 bits of sub-millisecond clock, 62 random bits."""
    now = time.time_ns()
    milliseconds, rest = divmod(now, 1_000_000)
    clock = rest * 4096 // 1_000_000
    high = (milliseconds & 0xFFFF_FFFF_FFFF) << 16 | 0x7000 | clock
    low = int.from_bytes(os.urandom(8), "big") & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000
    return str(uuid.UUID(int=high << 64 | low))
