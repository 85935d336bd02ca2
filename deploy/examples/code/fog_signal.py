"""Decides when the fog signal sounds.

Start: visibility below 2 nautical miles for 5 minutes. Stop: above 3 nautical miles for 15 minutes. Two limits and two times,
so that a bank of fog that comes and goes does not switch the emitter on and off every minute.
A sensor that says its own windows are dirty (contamination above 30 per cent) cannot start the signal, only keep it going: a
spider once made the whole harbour listen to it for 41 minutes on a clear night.
"""

from dataclasses import dataclass
from enum import Enum

START_BELOW_NM = 2.0
START_AFTER_SECONDS = 5 * 60
STOP_ABOVE_NM = 3.0
STOP_AFTER_SECONDS = 15 * 60
MAX_CONTAMINATION = 0.30

BLAST_SECONDS = 3.0
PERIOD_SECONDS = 30.0


class Signal(Enum):
    SILENT = "silent"
    SOUNDING = "sounding"


@dataclass(frozen=True)
class Sample:
    seconds: float
    visibility_nm: float
    contamination: float


class FogSignal:
    """Feed it samples in order of time; `state` says what the emitter has to do."""

    def __init__(self) -> None:
        self.state = Signal.SILENT
        self._since: float | None = None  # when the condition for a change began to hold

    def update(self, sample: Sample) -> Signal:
        if self.state is Signal.SILENT:
            holds = sample.visibility_nm < START_BELOW_NM and sample.contamination <= MAX_CONTAMINATION
            wait, target = START_AFTER_SECONDS, Signal.SOUNDING
        else:
            holds = sample.visibility_nm > STOP_ABOVE_NM
            wait, target = STOP_AFTER_SECONDS, Signal.SILENT
        if not holds:
            self._since = None
        elif self._since is None:
            self._since = sample.seconds
        elif sample.seconds - self._since >= wait:
            self.state, self._since = target, None
        return self.state

    def is_blowing(self, seconds: float) -> bool:
        """Whether the emitter is on at this moment of its thirty-second period."""
        return self.state is Signal.SOUNDING and seconds % PERIOD_SECONDS < BLAST_SECONDS
