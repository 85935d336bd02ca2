"""What hangs must not hold every process: an embedder, or a host, that has taken a request and not answered in time.

The first requests that hang hold a process each, until their time is over. From then on one job at a time asks whatever hangs,
and the jobs behind all that hangs together leave a process to the others, until it answers, or has been left in peace for
`HUNG_SECONDS`. A job that has to wait is put back before its item changes, with no attempt used up.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Final

from knowledge.catalog import jobs, rate
from knowledge.db.engine import Tx
from knowledge.errors import EmbedderUnavailable, FetchFault, KnowledgeError
from knowledge.ingestion.run import PutBack, Run
from knowledge.model.rates import HANGING, Limit
from knowledge.runtime import Runtime

HUNG_SECONDS: Final = 600.0
NO_PLACE: Final = "rate_limited"  #: why a job waits: what it would ask is asked as often as it may be
SCOPE: Final = "scope"  #: in the detail of a job that waits: for what
_LOOKS_PER_MINUTE: Final = 600  #: only the pace at which those that wait look again


def embedder_scope(embedder: str) -> str:
    return f"embedder:{embedder}"


def take_turn(rt: Runtime, run: Run, scope: str) -> None:
    """Go on if nobody else asks what hangs; the right to ask ends with this run.

    Raises:
        PutBack: not now.
    """
    with rt.db.write() as tx:
        jobs.require_ours(tx, run.job)
        answer = rate.take_all(tx, limits(rt, tx, scope), run.job)
    if isinstance(answer, rate.Wait):
        raise PutBack(answer.seconds, NO_PLACE, **{SCOPE: answer.scope})


def limits(rt: Runtime, tx: Tx, scope: str) -> Sequence[Limit]:
    """None unless it hangs."""
    if not rate.hangs(tx, scope):
        return ()
    together = rt.options.hanging_at_once
    return (
        Limit(f"{HANGING}{scope}", 1, _LOOKS_PER_MINUTE),
        Limit(HANGING, together, together * _LOOKS_PER_MINUTE),
    )


@contextmanager
def watched(rt: Runtime, scope: str) -> Iterator[None]:
    """Around asking: an answer that does not come in time is noted."""
    try:
        yield
    except (EmbedderUnavailable, FetchFault) as error:
        if error.details.get("reason") == "timeout":
            with suppress(KnowledgeError), rt.db.write() as tx:  # the error that led here is the one that must be seen
                rate.hang(tx, scope, timedelta(seconds=HUNG_SECONDS))
        raise
