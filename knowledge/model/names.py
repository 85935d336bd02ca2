"""File names that every disk takes: made safe, made free, compared. Pure; paths and folders are the business of `files`."""

import re
import unicodedata
from collections.abc import Iterator
from itertools import count
from typing import Final

NAME_BYTES: Final = 255  #: of UTF-8; what ext4, xfs, btrfs and APFS allow for one part of a path
EXTENSION_BYTES: Final = 32  #: a longer "extension" is part of a sentence, and is cut like one

_SPACES: Final = re.compile(r"[\t\n\v\f\r\x85\u2028\u2029]+")
_FORBIDDEN: Final = re.compile(
    r'[\x00-\x1f\x7f-\x9f/\\:*?"<>|'  # control characters, separators, what Windows refuses
    r"\u202a-\u202e\u2066-\u2069]"  # marks that turn the direction around and so can disguise an extension
)
_SURROGATES: Final = re.compile(r"[\ud800-\udfff]")
_DEVICES: Final = frozenset(
    {"con", "prn", "aux", "nul", "conin$", "conout$"}
    | {f"{port}{digit}" for port in ("com", "lpt") for digit in "0123456789¹²³"}
)
_ZERO_WIDTH_JOINER: Final = "\u200d"


def safe_name(name: str, *, fallback: str = "file") -> str:
    """The nearest name that Linux, macOS and Windows can store: NFC, no separator or control character, at most 255 bytes.

    Line breaks become a space, bytes that were not valid UTF-8 become U+FFFD, the extension survives a cut. Emoji, inner
    spaces and a leading dot stay. Idempotent.

    Args:
        fallback: what a name becomes of which nothing is left, such as `..` or blanks.
    """
    name = _SURROGATES.sub("\ufffd", name)
    name = _FORBIDDEN.sub("_", _SPACES.sub(" ", unicodedata.normalize("NFC", name)))
    name = name.strip(" ").rstrip(". ")
    if not name:
        return fallback
    if name.split(".", 1)[0].rstrip().casefold() in _DEVICES:
        name = f"_{name}"
    return _fitted(*split_extension(name), "")


def candidates(name: str, *, directory: bool = False) -> Iterator[str]:
    """The name itself, then `_1`, `_2` … before its extension; each at most 255 bytes."""
    return (numbered(name, number, directory=directory) for number in count())


def numbered(name: str, number: int, *, directory: bool = False) -> str:
    """The candidate of this number; 0 is the name itself.

    Args:
        directory: a folder has no extension, so the number goes to the very end.
    """
    stem, extension = (name, "") if directory else split_extension(name)
    return _fitted(stem, extension, f"_{number}" if number else "")


def folded(name: str) -> str:
    """What two names must share to be taken for one: NFC and case folding, as a disk that ignores case compares them."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def split_extension(name: str) -> tuple[str, str]:
    """(stem, extension with its dot); the extension of `.env` and of `Dr. A very long sentence …` is empty."""
    stem, dot, extension = name.rpartition(".")
    if (
        not stem.strip(".")
        or not extension
        or " " in extension
        or len(extension.encode(errors="surrogatepass")) > EXTENSION_BYTES
    ):
        return name, ""
    return stem, dot + extension


def _fitted(stem: str, extension: str, number: str) -> str:
    room = NAME_BYTES - len((number + extension).encode())
    return _cut(stem, room) + number + extension


def _cut(text: str, max_bytes: int) -> str:
    """At most so many bytes of UTF-8, never ending inside a character or between a letter and its marks."""
    if len(text.encode()) <= max_bytes:
        return text
    kept = text.encode()[:max_bytes].decode(errors="ignore")
    following = text[len(kept)]
    while len(kept) > 1 and (_joins(following) or kept[-1] == _ZERO_WIDTH_JOINER):
        following, kept = kept[-1], kept[:-1]
    return kept.rstrip(". ") or kept


def _joins(character: str) -> bool:
    return character == _ZERO_WIDTH_JOINER or unicodedata.category(character).startswith("M")
