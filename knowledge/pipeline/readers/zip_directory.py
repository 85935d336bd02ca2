"""How long the directory of a zip archive says that it is, before it is read: one of millions of entries fills the memory."""

import struct
from pathlib import Path
from typing import Final

from knowledge.errors import ReaderBudgetExceeded

MAX_BYTES: Final = 32 << 20  #: some 300,000 entries; reading them takes ten times as much memory

_END: Final = struct.Struct("<4s6xHII")  #: signature, entries, bytes of the directory, its place; then a comment of 2 + n bytes
_END_MARK: Final = b"PK\x05\x06"
_LONGEST_END: Final = 22 + (1 << 16)
_WIDE_LOCATOR: Final = struct.Struct("<4s4xQ4x")  #: signature, place of the wide end; stands right before the end
_WIDE_LOCATOR_MARK: Final = b"PK\x06\x07"
_WIDE_END: Final = struct.Struct("<4s28xQQ8x")  #: signature, entries, bytes of the directory
_WIDE_END_MARK: Final = b"PK\x06\x06"


def require_short(path: Path) -> None:
    """Refuse an archive whose directory would fill the memory of whoever reads it. Anything else is let pass, also damage.

    Raises:
        OSError: the file cannot be read.
        ReaderBudgetExceeded
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        start = max(0, size - _LONGEST_END - _WIDE_LOCATOR.size)
        file.seek(start)
        tail = file.read(size - start)
        at = tail.rfind(_END_MARK)
        if at < 0 or at + _END.size > len(tail):
            return
        _, entries, length, _ = _END.unpack_from(tail, at)
        before = at - _WIDE_LOCATOR.size
        if before >= 0 and tail.startswith(_WIDE_LOCATOR_MARK, before):
            file.seek(min(_WIDE_LOCATOR.unpack_from(tail, before)[1], size))
            record = file.read(_WIDE_END.size)
            if len(record) == _WIDE_END.size and record.startswith(_WIDE_END_MARK):
                _, entries, length = _WIDE_END.unpack(record)
    if MAX_BYTES < length <= size:  # one that says to be longer than its file is damaged
        raise ReaderBudgetExceeded(
            "This archive has a longer list of entries than is read.", figure="directory_bytes", found=length, limit=MAX_BYTES,
            entries=entries,
        )  # fmt: skip
