"""Foreign text made harmless for a terminal: names and contents come from files that anyone may have written."""

import unicodedata
from typing import Final

SHOWN: Final = frozenset("\u200c\u200d")  #: invisible, but emoji and several scripts are written with them
ESCAPED_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
NAMED: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str) -> str:
    """The text on one line, with control, direction and unassigned characters in escaped form.

    Escape sequences cannot move the cursor, right-to-left overrides cannot disguise a file name, and lone surrogates (names
    that are not valid UTF-8) cannot break the output stream.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(character) for character in text)


def one_line(text: str) -> str:
    """Running text for a snippet: every stretch of white space becomes one blank, the rest is made printable."""
    return printable(" ".join(text.split()))


def _shown(character: str) -> str:
    if character in SHOWN or unicodedata.category(character) not in ESCAPED_CATEGORIES:
        return character
    if character in NAMED:
        return NAMED[character]
    number = ord(character)
    if number <= 0xFF:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


def place_in_file(page: int | None, locator: str | None) -> str:
    """`, page 3`, `, sheet Sales`, or nothing: what follows a file's name."""
    parts = ([f"page {page}"] if page is not None else []) + ([one_line(locator)] if locator else [])
    return "".join(f", {part}" for part in parts)
