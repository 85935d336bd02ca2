"""Run the state machine over many random sequences in several processes, and tell what was tried.

    python -m tests.chaos.model --sequences 2000 --seed 1          everything; fails also if some kind was never tried
    python -m tests.chaos.model --seed 1 --only 17 [--shrink]      one part again, as a failure names it

Defaults come from CHAOS_SEQUENCES and CHAOS_SEED.
"""

import argparse
import logging
import os
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Final

from tests.chaos.fate import DEATHS

PART: Final = 25  #: sequences of one run of hypothesis; each part has its own seed, so that parts differ
STEPS: Final = 50

MOVES: Final = (
    "create base", "patch base", "delete base", "restore base", "enable embedder", "import base", "add with rename",
    "add with detect", "add with replace", "add with a key", "delete items", "reindex items", "reindex interrupted",
    "cancel job", "requeue job", "search", "list items", "status counts", "why", "chunks", "preview", "index-documents",
    "prepare-root", "reindex-subtree", "delete-subtree", "sweep", "tick", "parent notices a loss", "boot", "drain", "renewal",
    "source written", "source removed", "time passes", "message lost", "message doubled", "broker goes", "broker forgets",
    "embedder fails", "(held up)", "(went on)", "(died while held up)",
)  # fmt: skip


@dataclass
class Report:
    """What some sequences did."""

    sequences: int = 0
    moves: Counter[str] = field(default_factory=Counter)
    deaths: Counter[tuple[str, str]] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    failure: str | None = None

    def add(self, other: "Report") -> None:
        self.sequences += other.sequences
        self.moves += other.moves
        self.deaths += other.deaths
        self.counts += other.counts
        self.failure = self.failure or other.failure

    @property
    def missing(self) -> list[str]:
        return [name for name in MOVES if not self.moves[name]] + [
            f"{name}, killed at {place}" for name, place in DEATHS if not self.deaths[name, place]
        ]

    def __str__(self) -> str:
        by_place: Counter[str] = Counter()
        for (name, _), count in self.deaths.items():
            by_place[name] += count
        lines = [f"{self.sequences} sequences of {STEPS} moves"]
        lines += [f"  {count:>8,}  {name}" for name, count in sorted(self.moves.items())]
        lines += [f"{self.deaths.total():,} deaths at {len(self.deaths)} places"]
        lines += [f"  {count:>8,}  {name}, killed at {place}" for (name, place), count in sorted(self.deaths.items())]
        lines += [f"  {count:>8,}  {name}" for name, count in sorted(self.counts.items())]
        return "\n".join(lines)


def explore(*, sequences: int, seed: int, processes: int) -> Report:
    """Run that many sequences; stops early at a failure, which the report then holds."""
    os.environ["PYTHONHASHSEED"] = "0"  # of the children: sets come in the same order again
    report = Report()
    parts = range((sequences + PART - 1) // PART)
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for part in pool.map(run_part, [seed] * len(parts), parts):
            report.add(part)
            if report.failure:
                pool.shutdown(cancel_futures=True)
                break
    return report


def run_part(seed: int, part: int, *, shrink: bool = False) -> Report:
    from hypothesis import HealthCheck, Phase, settings
    from hypothesis import seed as seeded
    from hypothesis.stateful import run_state_machine_as_test

    from tests.chaos import fate, machine, world

    logging.disable(logging.CRITICAL)
    world.moves.clear()
    fate.deaths.clear()
    world.counts.clear()
    kind = type("Installation", (machine.Installation,), {})  # a fresh class has no seed yet
    report = Report(PART)
    try:
        run_state_machine_as_test(
            seeded(seed * 100_000 + part)(kind),
            settings=settings(
                max_examples=PART,
                stateful_step_count=STEPS,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
                phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
                report_multiple_bugs=False,
            ),
        )
    except Exception as error:
        again = f"python -m tests.chaos.model --seed {seed} --only {part}"
        moves = "\n".join(getattr(error, "__notes__", []))
        report.failure = f"{''.join(traceback.format_exception(error))}\n{moves}\nagain: PYTHONHASHSEED=0 {again} --shrink"
    report.moves.update(world.moves)
    report.deaths.update(fate.deaths)
    report.counts.update(world.counts)
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=int(os.environ.get("CHAOS_SEQUENCES", "2000")))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("CHAOS_SEED", "1")))
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", type=int)
    parser.add_argument("--shrink", action="store_true")
    asked = parser.parse_args()
    began = time.monotonic()
    if asked.only is not None:
        report = run_part(asked.seed, asked.only, shrink=asked.shrink)
    else:
        report = explore(sequences=asked.sequences, seed=asked.seed, processes=asked.processes)
    print(report)
    print(f"seed {asked.seed}, {time.monotonic() - began:.0f} s")
    if report.failure:
        print(report.failure)
        return 1
    if asked.only is None and report.missing:
        print("never tried: " + "; ".join(report.missing))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
