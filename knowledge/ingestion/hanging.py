"""What hangs must not hold every process: an embedder or a host that has taken a request and not answered in time.

The first requests that hang hold a process each, until their time is over; then what they asked is marked. From then on one job
at a time asks what is marked, and all that is marked together leaves a process to the others, until an answer comes, or nobody
has noticed it hanging for `HUNG_SECONDS`. A job that has to wait is put back before its item changes, with no attempt used up.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Final

from knowledge.catalog import jobs, rate
from knowledge.db.engine import Tx
from knowledge.errors import EmbedderUnavailable, FetchFault, KnowledgeError, NoTextExtracted
from knowledge.ingestion.run import PutBack, Run
from knowledge.model.jobs import Job
from knowledge.model.rates import HANGING, NO_PLACE, SCOPE, SINCE, Limit
from knowledge.runtime import Runtime

HUNG_SECONDS: Final = 600.0
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
        answer = rate.take_all(tx, limits(rt, tx, [scope]), run.job)
    if isinstance(answer, rate.Wait):
        raise PutBack(answer.seconds, NO_PLACE, **{SCOPE: f"{HANGING}{scope}"}, **since(run.job))


def limits(rt: Runtime, tx: Tx, scopes: Sequence[str]) -> Sequence[Limit]:
    """None unless one of these hangs."""
    hung = [Limit(f"{HANGING}{scope}", 1, _LOOKS_PER_MINUTE) for scope in scopes if rate.hangs(tx, scope)]
    together = rt.options.hanging_at_once
    return [*hung, Limit(HANGING, together, together * _LOOKS_PER_MINUTE)] if hung else []


def since(job: Job) -> dict[str, object]:
    """What a job that is put back again must not forget."""
    return {SINCE: job.error_detail[SINCE]} if job.error_detail.get(SINCE) else {}


@contextmanager
def watched(rt: Runtime, scopes: Sequence[str]) -> Iterator[None]:
    """Around asking: an answer that does not come in time is noted, and so is a refusal, which is one that comes."""
    try:
        yield
    except (EmbedderUnavailable, FetchFault) as error:
        if error.details.get("reason") == "timeout":
            _note(rt, scopes, hangs=True)
        elif "status" in error.details:
            answered(rt, scopes)
        raise
    except NoTextExtracted:
        answered(rt, scopes)
        raise


def answered(rt: Runtime, scopes: Sequence[str]) -> None:
    """None of these hangs."""
    _note(rt, scopes, hangs=False)


def _note(rt: Runtime, scopes: Sequence[str], *, hangs: bool) -> None:
    """Best effort: the error that led here is the one that must be seen, and a mark ends by itself."""
    with suppress(KnowledgeError):
        with rt.db.read() as tx:
            marked = [scope for scope in scopes if rate.hangs(tx, scope)]
        if not hangs and not marked:
            return
        with rt.db.write() as tx:
            for scope in scopes:
                if hangs:
                    rate.hang(tx, scope, timedelta(seconds=HUNG_SECONDS))
                else:
                    rate.answered(tx, scope)
