"""Height of the tide at the landing, from eight harmonic constituents.

The constants were fitted to the tide board readings of 2019 to 2023 (31,200 readings, root mean square error 9 cm). Weather is
not in them: each hectopascal below 1013 adds about one centimetre, and a north-westerly gale up to a metre more.
"""

from datetime import datetime, timedelta, timezone
from math import cos, radians

EPOCH = datetime(2020, 1, 1, tzinfo=timezone.utc)
MEAN_LEVEL_M = 1.94  # above chart datum

# name: (amplitude in metres, phase in degrees at the epoch, speed in degrees an hour)
CONSTITUENTS = {
    "M2": (0.982, 214.0, 28.9841042),  # Moon, twice a day
    "S2": (0.361, 251.5, 30.0000000),  # Sun, twice a day
    "N2": (0.198, 190.2, 28.4397295),  # the Moon's distance
    "K2": (0.101, 248.9, 30.0821373),
    "K1": (0.074, 138.0, 15.0410686),  # declination, once a day
    "O1": (0.066, 352.4, 13.9430356),
    "M4": (0.031, 77.3, 57.9682084),  # shallow water in the east bay
    "MS4": (0.017, 120.6, 58.9841042),
}


def height(when: datetime) -> float:
    """Metres above chart datum."""
    hours = (when - EPOCH).total_seconds() / 3600
    return MEAN_LEVEL_M + sum(a * cos(radians(speed * hours - phase)) for a, phase, speed in CONSTITUENTS.values())


def high_waters(day: datetime) -> list[tuple[datetime, float]]:
    """Times and heights of high water on the day that begins at `day`, to the minute."""
    minutes = [day + timedelta(minutes=m) for m in range(-1, 24 * 60 + 1)]
    heights = [height(minute) for minute in minutes]
    return [
        (minutes[i], heights[i])
        for i in range(1, len(minutes) - 1)
        if heights[i - 1] < heights[i] >= heights[i + 1]
    ]


def can_land(when: datetime, swell_m: float) -> bool:
    """The ferry needs 1.1 m of water at the slip and a swell of no more than 1.2 m."""
    return height(when) >= 1.1 and swell_m <= 1.2
