"""What a bench found, next to what it must find."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measured:
    name: str
    value: float  #: a ratio within one run, or a recall; never a time
    required: float  #: `value` must reach it
    note: str = ""

    @property
    def ok(self) -> bool:
        return self.value >= self.required

    def __str__(self) -> str:
        verdict = "ok  " if self.ok else "MISS"
        return f"{verdict} {self.name}: {self.value:.4g} (required {self.required:.4g}) {self.note}".rstrip()


def least_medians(calls: Sequence[Sequence[Callable[[], object]]], *, rounds: int = 3) -> list[float]:
    """Seconds per call of each rival: the least over rounds of the median in a round. Rivals take turns, so noise hits all."""
    medians: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for rival, sink in zip(calls, medians, strict=True):
            sink.append(statistics.median(_seconds(call) for call in rival))
    return [min(sink) for sink in medians]


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
