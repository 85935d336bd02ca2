"""Indexing 2,000 documents of 2 KB in process, against stores that others use for the same.

Each store runs in a process and an environment of its own. They take turns, a twentieth of the documents each, so that other
work on this machine hits all alike. Of four rounds of five turns, the least median of a round, and what is left to do at the
end, make the rate of a store.
"""

import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack, suppress
from typing import Final

from tests.bench.measured import Measured
from tests.bench.peers.environment import ROOT, PeerMissing, python
from tests.bench.peers.load import SLICES

STORES: Final = ("ours", "lance", "chroma")
COUNT: Final = 2000
ROUNDS: Final = 4
CHROMA_COUNT: Final = 300  #: one by one it needs minutes for all, and only gets slower

_ONE_BY_ONE: Final = "2,000 documents of 2 KB, one a transaction: rate against the best peer"
_BULK_LANCE: Final = "2,000 documents of 2 KB, 100 a transaction: rate against LanceDB with its text index built"
_BULK_OTHERS: Final = "2,000 documents of 2 KB, 100 a transaction: rate against the best of the others"


def run() -> list[Measured]:
    try:
        one, hundred = _rates(1), _rates(100)
    except PeerMissing as missing:
        return [Measured(name, 0, required, str(missing)) for name, required in _REQUIRED.items()]
    return [
        _measured(_ONE_BY_ONE, one["ours"] / max(one["lance"], one["chroma"]), one),
        _measured(_BULK_LANCE, hundred["ours"] / hundred["lance"], hundred),
        _measured(_BULK_OTHERS, hundred["ours"] / hundred["chroma"], hundred),
    ]


_REQUIRED: Final = {_ONE_BY_ONE: 4.0, _BULK_LANCE: 0.65, _BULK_OTHERS: 1.0}


def _measured(name: str, ratio: float, rates: dict[str, float]) -> Measured:
    figures = ", ".join(f"{store} {rate:.0f}" for store, rate in rates.items())
    return Measured(name, ratio, _REQUIRED[name], f"documents/s: {figures}")


def _rates(per: int) -> dict[str, float]:
    """Documents a second by store, `per` of them a transaction."""
    counts = {name: CHROMA_COUNT if (name, per) == ("chroma", 1) else COUNT for name in STORES}
    with ExitStack() as stack:
        rivals = {name: stack.enter_context(_Rival(name, per, count)) for name, count in counts.items()}
        for _ in range(SLICES):
            for rival in rivals.values():
                rival.slices.append(rival.step())
        seconds = {name: rival.least_median() * SLICES + rival.step() for name, rival in rivals.items()}
    return {name: count / seconds[name] for name, count in counts.items()}


class _Rival:
    """The process of one store."""

    def __init__(self, store: str, per: int, count: int) -> None:
        self.slices: list[float] = []
        self._store = store
        interpreter = sys.executable if store == "ours" else python()
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [interpreter, "-m", "tests.bench.peers.load", store, str(per), str(count)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def __enter__(self) -> "_Rival":
        self._answer()
        return self

    def __exit__(self, *error: object) -> None:
        self._process.communicate()  # the end of its input ends it
        self._errors.close()

    def least_median(self) -> float:
        """Seconds of a slice in its quietest round."""
        rounds = [self.slices[start : start + SLICES // ROUNDS] for start in range(0, SLICES, SLICES // ROUNDS)]
        return min(map(statistics.median, rounds))

    def step(self) -> float:
        """Seconds of its next turn."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write("go\n")
            self._process.stdin.flush()
        return float(self._answer())

    def _answer(self) -> str:
        assert self._process.stdout is not None
        if line := self._process.stdout.readline():
            return line
        self._errors.seek(0)
        last = [line for line in self._errors if line.strip()][-1:] or ["it ended"]
        if self._store == "ours":
            raise RuntimeError(f"our own store failed: {last[0].strip()}")
        raise PeerMissing(f"peer missing: {self._store}: {last[0].strip()}")
