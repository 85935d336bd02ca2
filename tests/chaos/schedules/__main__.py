"""Random schedules against a fleet of real processes: people work through the client, and everything dies at random moments.

    python -m tests.chaos.schedules --schedules 200 --seed 1       all of them; fails also if a phase was struck too seldom
    python -m tests.chaos.schedules --seed 1 --only 17             one again, as a failure names it
    python -m tests.chaos.schedules --schedules 5 --slow 5         beside other work, which may take most of the machine

A schedule's operations and blows follow from its seed and number; what they meet follows from the clock.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.chaos.schedules.disk import Disk, own_mounts

if TYPE_CHECKING:
    from tests.chaos.schedules.play import Result, Theatre

PER_BLOW: Final = 20  #: of so many schedules, one at least strikes in each phase
LONG_SECONDS: Final = 10.0  #: a schedule that takes longer tells where they went
MAX_LONG: Final = 0.05  #: share of the schedules that may: the machine may have other work
SETTINGS: Final = {"KNOWLEDGE_SETTLE_SECONDS": "2", "KNOWLEDGE_LOCK_SECONDS": "2"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int)
    parser.add_argument("--slow", type=float, default=1.0, help="how many times longer everything may take")
    asked = parser.parse_args()
    began = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what has been started and made goes with us
    is_own = own_mounts()  # first of all: not every system lets a process do it that has threads
    numbers = range(asked.schedules) if asked.only is None else [asked.only]
    with out_of_reach():
        results = list(play_all(asked.seed, numbers, is_own=is_own, slow=asked.slow))
    print(summary(results))
    print(f"seed {asked.seed}, {time.monotonic() - began:.0f} s")
    seldom = too_seldom(results) if asked.only is None else []
    if seldom:
        print(f"struck too seldom: {', '.join(seldom)}")
    longest = LONG_SECONDS * asked.slow
    long = [result for result in results if result.seconds > longest]
    print(f"within {longest:.0f} s: {len(results) - len(long)} of {len(results)}")
    is_slow = len(long) > max(1, MAX_LONG * len(results))
    return 1 if seldom or is_slow or any(result.failure for result in results) else 0


@contextmanager
def out_of_reach() -> Iterator[None]:
    """Nothing here sees the settings or the data directory of whoever runs it."""
    for name in [name for name in os.environ if name.startswith("KNOWLEDGE_")]:
        del os.environ[name]
    with tempfile.TemporaryDirectory(prefix="knowledge-chaos-") as home:
        os.environ["KNOWLEDGE_DATA_DIR"] = home
        yield


def play_all(seed: int, numbers: Iterable[int], *, is_own: bool, slow: float) -> Iterator["Result"]:
    """One fleet for all; after a failure, which may have left anything, a new one."""
    left = list(numbers)
    while left:
        with theatre(is_own=is_own, slow=slow) as stage:
            while left:
                result = stage.play(seed, left.pop(0))
                print(result, flush=True)
                yield result
                if result.failure:
                    again = f"python -m tests.chaos.schedules --seed {seed} --only {result.number}"
                    print(f"{result.story}\n{result.failure}\nagain: {again}", flush=True)
                    break
                if result.seconds > LONG_SECONDS * slow:
                    print(f"{result.story}", flush=True)


@contextmanager
def theatre(*, is_own: bool, slow: float) -> Iterator["Theatre"]:
    from tests.chaos.schedules.blows import EMBEDDER_SECONDS, WORKERS
    from tests.chaos.schedules.play import Theatre
    from tests.fleet import Fleet

    root = Path(tempfile.mkdtemp(prefix="knowledge-chaos-"))
    settings = {**SETTINGS, "KNOWLEDGE_IMPORT_ROOTS": json.dumps([str(root / "source")])}
    fleet = Fleet(
        root,
        application="tests.faults.app",
        settings=settings,
        workers=WORKERS,
        embedder_seconds=EMBEDDER_SECONDS,
        modes_bind=True,
    )
    (root / "data").mkdir(mode=0o700)
    disk = Disk(root / "data" / "bases", is_own=is_own)
    if not disk.can_be_full:
        print("nothing can be mounted here: a full disk is struck as a folder that may not be written to", flush=True)
    try:
        fleet.start()
        yield Theatre(fleet, disk, slow=slow)
    finally:
        fleet.stop()
        disk.close()
        shutil.rmtree(root, ignore_errors=True)


def too_seldom(results: "list[Result]") -> list[str]:
    from tests.chaos.schedules.plan import PHASES

    struck = by_phase(results)
    least = max(1, len(results) // PER_BLOW) if len(results) >= len(PHASES) else 0
    return [f"{phase} ({struck[phase]} of {least})" for phase in PHASES if struck[phase] < least]


def by_phase(results: "list[Result]") -> Counter[str]:
    struck: Counter[str] = Counter()
    for result in results:
        for (phase, _), count in result.blows.items():
            struck[phase] += count
    return struck


def summary(results: "list[Result]") -> str:
    blows: Counter[str] = Counter()
    for result in results:
        for (phase, blow), count in result.blows.items():
            blows[f"{phase}: {blow}"] += count
    lines = [f"{len(results)} schedules, {sum(result.operations for result in results)} operations, {blows.total()} blows"]
    lines += [f"  {count:>5}  {name}" for name, count in sorted(by_phase(results).items())]
    lines += [f"  {count:>5}  {name}" for name, count in sorted(blows.items())]
    ended = sum((result.ended for result in results), Counter[str]())
    lines += [f"  {count:>5}  items ended {how}" for how, count in sorted(ended.items())]
    lines.append(f"  {sum(result.texts for result in results):>5}  texts sent to the embedder")
    missed = sum((result.missed for result in results), Counter[str]())
    lines += [f"  {count:>5}  ambushes in {phase} that nobody came into" for phase, count in sorted(missed.items())]
    slowest = max(results, key=lambda result: result.seconds)
    lines.append(f"slowest: {slowest.seconds:.1f} s ({slowest.seed}:{slowest.number})")
    lines.append(f"failed: {', '.join(str(result.number) for result in results if result.failure) or 'none'}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
