"""Arguments that are no model of their own: refused by name before anything compares or stores them."""

from collections.abc import Iterable
from enum import StrEnum
from typing import TypeVar

from knowledge.errors import InvalidInput

Word = TypeVar("Word", bound=StrEnum)


def require_whole(name: str, value: object, most: int) -> int:
    """A count from 1 to `most`.

    Raises:
        InvalidInput: it is none; details name the argument.
    """
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most:
        return value
    raise InvalidInput(f"{name} must be 1 to {most:,}.", field=name, **{name: _short(value)})


def require_word(name: str, value: object, kind: type[Word]) -> Word:
    """The member of this enum.

    Raises:
        InvalidInput: there is none of this value; details name the argument and what there is.
    """
    try:
        return kind(value)  # type: ignore[arg-type]  # an enum refuses whatever it does not have
    except ValueError:
        known = [word.value for word in kind]
        raise InvalidInput(f"{name} must be one of {', '.join(known)}.", field=name, given=_short(value), known=known) from None


def require_words(name: str, values: Iterable[object], kind: type[Word]) -> list[Word]:
    return [require_word(name, value, kind) for value in values]


def _short(value: object) -> object:
    """As it was given, unless it is so large that nobody could print it."""
    if isinstance(value, int) and value.bit_length() > 1_000:
        return f"a number of {value.bit_length():,} bits"
    return value if isinstance(value, int | float | str | None) else repr(value)
