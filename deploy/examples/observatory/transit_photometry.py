"""Reduce a night of transit photometry from the Verity reflector.

Reads a table of instrumental brightness of the target and of comparison stars, removes exposures spoilt by the lighthouse
beam, and prints a normalised light curve with the depth of the transit.

The beam: two flashes every 20 s leave a gradient on exposures that start at the wrong moment. Exposures are flagged where the
sky background is more than four robust standard deviations above the running median.
"""

import csv
import statistics
import sys
from dataclasses import dataclass

BEAM_PERIOD_SECONDS = 20.0
OUTLIER_SIGMAS = 4.0
MAD_TO_SIGMA = 1.4826  # for a normal distribution


@dataclass(frozen=True)
class Exposure:
    time: float  # days, barycentric
    target: float  # counts, sky removed
    comparisons: tuple[float, ...]
    sky: float  # counts per pixel


def read(path: str) -> list[Exposure]:
    """Columns: time, target, sky, then one column for each comparison star."""
    with open(path, newline="") as file:
        rows = list(csv.reader(file))[1:]
    return [Exposure(float(r[0]), float(r[1]), tuple(map(float, r[3:])), float(r[2])) for r in rows]


def without_beam(exposures: list[Exposure]) -> list[Exposure]:
    """Exposures whose sky was not lit by the lighthouse."""
    middle = statistics.median(e.sky for e in exposures)
    spread = MAD_TO_SIGMA * statistics.median(abs(e.sky - middle) for e in exposures)
    return [e for e in exposures if e.sky - middle <= OUTLIER_SIGMAS * spread]


def light_curve(exposures: list[Exposure]) -> list[tuple[float, float]]:
    """Target divided by the sum of the comparison stars, 1.0 outside the transit."""
    ratios = [(e.time, e.target / sum(e.comparisons)) for e in exposures]
    edge = max(1, len(ratios) // 10)
    outside = statistics.median(value for _, value in ratios[:edge] + ratios[-edge:])
    return [(time, value / outside) for time, value in ratios]


def transit_depth(curve: list[tuple[float, float]]) -> float:
    """Depth in parts of one, from the median of the lowest fifth."""
    lowest = sorted(value for _, value in curve)[: max(1, len(curve) // 5)]
    return 1.0 - statistics.median(lowest)


if __name__ == "__main__":
    curve = light_curve(without_beam(read(sys.argv[1])))
    for time, value in curve:
        print(f"{time:.5f} {value:.5f}")
    print(f"# depth {100 * transit_depth(curve):.2f} per cent", file=sys.stderr)
