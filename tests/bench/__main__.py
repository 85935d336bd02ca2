"""`make bench`, or `python -m tests.bench NAME…` for some of it: what was measured next to what is required.

Ratios within one run only, so that they hold on any machine; exits 1 if one is missed.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Final

from tests.bench.measured import Measured

_WIDEST_NAME: Final = 96


def main() -> int:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as in the Procfile; before numpy is loaded
    benches = _benches()
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(benches))
    names = parser.parse_args().names or list(benches)
    if unknown := [name for name in names if name not in benches]:
        parser.error(f"no bench {unknown[0]!r}; there are {', '.join(benches)}")
    found: list[Measured] = []
    for name in names:
        print(f"bench: {name}", file=sys.stderr, flush=True)
        found += _alone(benches[name])
    print(*_table(found), sep="\n")
    missed = sum(not one.ok for one in found)
    print(f"\n{len(found) - missed} of {len(found)} hold")
    return int(missed > 0)


def _benches() -> Mapping[str, Callable[[], list[Measured]]]:
    from tests.bench import expansion, indexing, jobs, lifecycle, readers, vectors

    return {
        "overhead": jobs.overhead,
        "celery": jobs.through_celery,
        "lifecycle": lifecycle.run,
        "indexing": indexing.run,
        "expansion": expansion.run,
        "vectors": vectors.run,
        "readers": readers.run,
    }


def _alone(bench: Callable[[], list[Measured]]) -> list[Measured]:
    """Run it in a process of its own: settings and Celery applications live as long as a process, fleets do not."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(bench).result()


def _table(found: Iterable[Measured]) -> Iterable[str]:
    yield f"{'name':<{_WIDEST_NAME}}  {'measured':>8}  {'required':>8}  {'':4}  figures"
    for one in found:
        verdict = "ok" if one.ok else "FAIL"
        note = one.note.removeprefix("(").removesuffix(")")
        yield f"{one.name:<{_WIDEST_NAME}}  {one.value:>8.3g}  {one.required:>8.3g}  {verdict:4}  {note}"


if __name__ == "__main__":
    sys.exit(main())
