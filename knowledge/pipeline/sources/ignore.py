"""Patterns in the form of .gitignore: what a folder's own files say is to be left out, and what a person asked for.

Matching is linear in the length of a name (RE2), so no pattern that somebody left in a folder can hang a scan.
"""

import logging
import os
import re
import stat
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from knowledge.errors import InvalidInput

log = logging.getLogger(__name__)

FILES: Final = (".knowledgeignore", ".gitignore")  #: the first one has the last word
MAX_FILE_BYTES: Final = 256 * 1024
MAX_PATTERN_CHARACTERS: Final = 1_000
_GROUP: Final = 100  #: patterns compiled together; RE2 limits the memory of each group


Opens = Callable[[Path, int], int]  #: (path, flags) -> descriptor, as `os.open`


class Rules:
    """Some patterns, the last that matches decides. One that is no pattern is passed over, as git does."""

    def __init__(self, patterns: Iterable[str]) -> None:
        kept = [pattern for line in patterns if (pattern := _pattern(line)) is not None]
        self._groups = [
            spec for start in range(0, len(kept), _GROUP) for spec in _compiled(kept[start : start + _GROUP])
        ]  # in the order of the file
        self._groups.reverse()

    def __bool__(self) -> bool:
        return bool(self._groups)

    def decide(self, relative: str, *, is_directory: bool) -> bool | None:
        """True: it is matched; False: it is matched by a pattern with `!`; None: nothing is said about it."""
        asked = f"{relative}/" if is_directory else relative
        for group in self._groups:
            said = group.check_file(asked).include
            if said is not None:
                return said
        return None


class Selection:
    """Which files of a folder a person wants: those that match `include`, all if there is none, without `exclude`.

    Args:
        above: where the folder that is asked about lies in the one that the patterns were given for, with a closing slash.
    """

    def __init__(self, include: Sequence[str] = (), exclude: Sequence[str] = (), above: str = "") -> None:
        self._include, self._exclude, self._above = Rules(include), Rules(exclude), above
        self._takes_all = not include

    def leaves_out(self, relative: str, *, is_directory: bool) -> bool:
        """Whether this is not wanted; a folder only if nothing below it is."""
        relative = self._above + relative
        if self._exclude.decide(relative, is_directory=is_directory):
            return True
        return not (self._takes_all or is_directory or self._include.decide(relative, is_directory=False))


def require_patterns(field: str, patterns: Sequence[str]) -> None:
    """
    Raises:
        InvalidInput: one of them is no pattern; nobody would see why it matches nothing.
    """
    for pattern in patterns:
        if not Rules([pattern]):
            raise InvalidInput(f"{field}: {pattern!r} is no pattern.", field=field, pattern=pattern)


def rules_of(folder: str, names: Container[str], opens: Opens | None = None) -> list[Rules]:
    """What the ignore files of a folder say, the one with the last word first; links are not followed, as git does not.

    Args:
        names: what the folder holds.
        opens: opens a file for a caller whose reach ends somewhere.

    Raises:
        PathNotAllowed: as `opens`.
        OSError: one of them cannot be read, or not any more; then nobody knows what may be taken from here.
    """
    present = [name for name in FILES if name in names]
    return [rules for name in present if (rules := _read(f"{folder}/{name}", opens or os.open))]


def _read(path: str, opens: Opens) -> Rules | None:
    if not stat.S_ISREG(os.lstat(path).st_mode):
        return None
    descriptor = opens(Path(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise OSError(f"{path} has more than {MAX_FILE_BYTES} bytes")
    return Rules(re.split(r"\r?\n", data.decode("utf-8-sig", errors="replace")))


def _pattern(line: str) -> str | None:
    """The line, unless it is blank, a comment, or something that no library takes for a pattern."""
    if not line.strip() or line.startswith("#") or len(line) > MAX_PATTERN_CHARACTERS or "\0" in line:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of `re`, about brackets in brackets
            pattern = GitIgnoreSpecPattern(line)
    except (ValueError, re.error):
        return None
    return line if pattern.include is not None else None


def _compiled(lines: list[str]) -> Iterator[GitIgnoreSpec]:
    """One matcher, or several where RE2 cannot take them together; a pattern that it does not take at all is passed over."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            spec = GitIgnoreSpec.from_lines(lines, backend="re2")
    except Exception as error:  # RE2 has errors of its own; the other patterns of the file must count all the same
        if len(lines) > 1:
            middle = len(lines) // 2
            yield from _compiled(lines[:middle])
            yield from _compiled(lines[middle:])
        else:
            log.warning("a pattern of an ignore file cannot be used", extra={"exception": type(error).__qualname__})
        return
    yield spec
