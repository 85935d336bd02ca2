"""Pictures and other files that text formats carry as base64: nobody searches for them, and they would fill an index."""

import re
from typing import Final

_SHORTEST: Final = 400  #: characters; a key or a checksum is shorter, and may be searched for
_LETTER: Final = "[A-Za-z0-9+/=_-]"
_ONE_RUN: Final = rf"{_LETTER}{{{_SHORTEST},}}"
_LINES: Final = rf"(?:{_LETTER}{{60,100}}\r?\n[ \t]*){{4,}}{_LETTER}*"  #: as long as programs make them
_PACKED: Final = re.compile(rf"(?:data:[\w/+.-]{{1,100}};base64,|(?<!{_LETTER}))(?:{_ONE_RUN}|{_LINES})")
_MIXED: Final = re.compile(r"(?=.*?[a-z])(?=.*?[A-Z])(?=.*?[0-9])", re.S)


def without_packed(text: str) -> str:
    """The text without long runs of base64. A run of one case, like a genome, is no base64."""
    if len(text) < _SHORTEST:
        return text
    return _PACKED.sub(lambda run: "" if _MIXED.match(run.group()) else run.group(), text)
