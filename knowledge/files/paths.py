"""Which paths may exist below `raw/`, and what files may be called. Pure functions; nothing here touches a disk."""

import re
from pathlib import PurePosixPath
from typing import Final

from knowledge.errors import UnsafePath
from knowledge.model.names import NAME_BYTES, candidates, folded, split_extension

RESERVED: Final = ".knowledge"  #: the base's own folder for its index; no item may be called so at the top
PATH_BYTES: Final = 3_000  #: of a whole path below `raw/`; Linux ends at 4,096 with the data directory in front
PATH_PARTS: Final = 256  #: of it; rows fall with their parents, and SQLite ends such a fall at 1,000 levels

_BASE_ID: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,127}")


def guard(path: str) -> str:
    """The path unchanged if it is a plain relative path that stays below `raw/`.

    Refused: empty, absolute, `.`, `..` and empty parts (so one file has one spelling, and nothing resolves to `raw/` itself),
    backslash (a separator elsewhere), control characters, lone surrogates, parts over 255 bytes, more than 256 parts, and
    `.knowledge` at the top in any case.

    Raises:
        UnsafePath: with the reason in its details.
    """
    reason = _fault(path)
    if reason is not None:
        raise UnsafePath(path=path.encode(errors="replace").decode(), reason=reason)
    return path


def guard_base(base_id: str) -> str:
    """The base id unchanged if it can name a folder; it comes from callers as a string, so it is checked where it is used."""
    if not is_base_id(base_id):
        raise UnsafePath("This is not the id of a base.", base_id=base_id.encode(errors="replace").decode())
    return base_id


def is_base_id(name: str) -> bool:
    return _BASE_ID.fullmatch(name) is not None


def derived(path: str) -> str:
    """Where the Markdown of a converted file lies: same folder and stem, extension `.md`; checked again."""
    place = PurePosixPath(guard(path))
    stem, _ = split_extension(place.name)
    return guard(str(place.with_name(next(candidates(f"{stem}.md")))))


def _fault(path: str) -> str | None:
    if not path:
        return "empty"
    if path.startswith("/"):
        return "absolute"
    if "\\" in path:
        return "backslash"
    if any(character < " " or character == "\x7f" for character in path):
        return "control character"
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        return "not valid Unicode"
    if size > PATH_BYTES:
        return "too long"
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "not a plain relative path"
    if len(parts) > PATH_PARTS:
        return "too deep"
    if any(len(part.encode()) > NAME_BYTES for part in parts):
        return "a part is over 255 bytes"
    if folded(parts[0]).rstrip(". ") == RESERVED:
        return "reserved"
    return None
