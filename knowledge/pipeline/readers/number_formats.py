"""Numbers of spreadsheets as a person sees them there: dates instead of day counts, percent, no noise of binary fractions.

Days are written as ISO 8601 has them, because how a country writes them is a setting of the program that shows the sheet.
Digits are not rounded to the width of a column or the decimals of a format: what is searched for may be the exact figure.
"""

import math
import re
from datetime import datetime, timedelta
from enum import Enum, auto
from functools import lru_cache
from typing import Final

_PLAIN: Final = re.compile(r'"[^"]*"|\\.|_.|\*.|\[(?!(?:h+|m+|s+)\])[^\]]*\]', re.I)  #: literals, fill, colours, conditions
_ELAPSED: Final = re.compile(r"\[(?:h+|m+|s+)\]", re.I)
_CLOCK: Final = re.compile(r"h|s|AM/PM|A/P", re.I)
_DAY: Final = re.compile(r"[ydg]|e(?![+-])|b{2}", re.I)
_MONTH_BESIDE_CLOCK: Final = re.compile(r"(?:h+[^a-z]*m+)|(?:m+[^a-z]*s+)", re.I)
_SPELLED_DAY: Final = re.compile(r"aaa", re.I)  #: Japanese and Chinese weekdays

_LAST_DAY: Final = 2_958_465  #: 9999-12-31
_DAYS_TO_1904: Final = 1_462
_DIGITS: Final = 15  #: a spreadsheet keeps no more


class Kind(Enum):
    NUMBER = auto()
    PERCENT = auto()
    DAY = auto()
    CLOCK = auto()
    MOMENT = auto()  #: day and time
    ELAPSED = auto()


#: What the numbers of formats mean that a file does not spell out; 27 to 36 and 50 to 58 are days in East Asian versions.
_BUILT_IN: Final = {
    9: Kind.PERCENT,
    10: Kind.PERCENT,
    **dict.fromkeys(range(14, 18), Kind.DAY),
    **dict.fromkeys(range(18, 22), Kind.CLOCK),
    22: Kind.MOMENT,
    **dict.fromkeys(range(27, 32), Kind.DAY),
    **dict.fromkeys(range(32, 36), Kind.CLOCK),
    36: Kind.DAY,
    45: Kind.CLOCK,
    46: Kind.ELAPSED,
    47: Kind.CLOCK,
    **dict.fromkeys(range(50, 59), Kind.DAY),
}


def kind_of(number: int, code: str | None) -> Kind:
    """What a cell with this number format shows.

    Args:
        number: of the format; decides where the file has no code for it.
    """
    if code is None:
        return _BUILT_IN.get(number, Kind.NUMBER)
    return _kind_of_code(code)


@lru_cache(maxsize=1024)
def _kind_of_code(code: str) -> Kind:
    first = _PLAIN.sub("", code).split(";", 1)[0]
    if first.strip().lower() in ("general", "@", ""):
        return Kind.NUMBER
    if _ELAPSED.search(first):
        return Kind.ELAPSED
    has_clock = bool(_CLOCK.search(first))
    rest = _MONTH_BESIDE_CLOCK.sub("", re.sub(r"AM/PM|A/P", "", first, flags=re.I))
    has_day = bool(_DAY.search(first) or _SPELLED_DAY.search(first)) or "m" in rest.lower()
    if has_day:
        return Kind.MOMENT if has_clock else Kind.DAY
    if has_clock:
        return Kind.CLOCK
    return Kind.PERCENT if "%" in first else Kind.NUMBER


def shown(value: float, kind: Kind = Kind.NUMBER, *, is_1904: bool = False) -> str:
    """A number of a cell as text.

    Args:
        is_1904: days are counted from 1904-01-01, not from 1899-12-30.
    """
    if kind is Kind.NUMBER:
        return _number(value)
    if kind is Kind.PERCENT:
        return f"{_number(round(value * 100, 12))}%"
    if not 0 <= value <= _LAST_DAY - (_DAYS_TO_1904 if is_1904 else 0):
        return _number(value)
    seconds = round(value * 86_400)
    if kind is Kind.ELAPSED:
        minutes, rest = divmod(seconds, 60)
        return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
    if kind is Kind.CLOCK:
        return f"{datetime.min + timedelta(seconds=seconds % 86_400):%H:%M:%S}".removesuffix(":00")
    if is_1904:
        moment = datetime(1899, 12, 30) + timedelta(seconds=seconds, days=_DAYS_TO_1904)
    else:  # day 60 is the 29 February 1900 that never was
        moment = datetime(1899, 12, 30) + timedelta(seconds=seconds, days=value < 60)
    if kind is Kind.DAY:
        return f"{moment:%Y-%m-%d}"
    return f"{moment:%Y-%m-%d %H:%M:%S}".removesuffix(":00")


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "#NUM!"
    if value.is_integer() and abs(value) < 10**_DIGITS:
        return str(int(value))
    return f"{value:.{_DIGITS}g}"
