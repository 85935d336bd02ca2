"""Why a container leaves out what it holds."""

from enum import StrEnum
from typing import Final


class SkipReason(StrEnum):
    HIDDEN = "hidden"  #: its name starts with a dot
    TOOLING = "tooling"  #: made by tools for tools: packages, caches, lock files
    IGNORED = "ignored"  #: an ignore file says so
    EXCLUDED = "excluded"  #: the item's own patterns say so
    SYMLINK = "symlink"  #: never followed
    DANGLING = "dangling"  #: a symbolic link that leads nowhere
    SPECIAL = "special"  #: a pipe, socket or device
    UNSUPPORTED = "unsupported"  #: no reader claims its extension, and it is no text
    BINARY = "binary"  #: named like text, holds binary data
    EMPTY = "empty"  #: 0 bytes
    ENCRYPTED = "encrypted"  #: a member of an archive that needs a password
    CORRUPT = "corrupt"  #: a member of an archive that is damaged
    OWN = "own"  #: the data directory lies inside the folder, or the folder inside the data directory
    INVALID = "invalid"  #: a sitemap names an address that is none
    OVER_LIMIT = "over_limit"  #: one more, or deeper, or later, than a container may bring
    UNREADABLE = "unreadable"  #: it could not be looked at; below it nothing is known
    UNMOUNTED = "unmounted"  #: a mount point where something was found before; now it is empty, or gone


EXPECTED: Final = frozenset({SkipReason.HIDDEN, SkipReason.TOOLING, SkipReason.IGNORED, SkipReason.EXCLUDED})
"""What nobody is surprised to miss: counted, and not worth a notice."""

STILL_THERE: Final = frozenset(
    {
        SkipReason.BINARY,
        SkipReason.CORRUPT,
        SkipReason.EMPTY,
        SkipReason.ENCRYPTED,
        SkipReason.OVER_LIMIT,
        SkipReason.UNREADABLE,
        SkipReason.UNSUPPORTED,
    }
)
"""What a known file may become without having vanished; it keeps what it has in the index."""
