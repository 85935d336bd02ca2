"""What `--wait` does around the loop of `wait`: show how far the work is, and say how it ended."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from knowledge.interfaces.cli.describing import failure_line
from knowledge.interfaces.cli.exits import ExitCode
from knowledge.interfaces.cli.output import Output, counted, detail
from knowledge.interfaces.cli.progress import describe, shown
from knowledge.interfaces.cli.wait import Ended, Outcome, until_settled
from knowledge.model.ids import ItemId, JobId
from knowledge.model.jobs import JobStatus
from knowledge.model.status import INDEX_LOST, INDEXING_INTERRUPTED
from knowledge.model.views import Base

if TYPE_CHECKING:
    from knowledge.service import KnowledgeService

FAILURES_SHOWN: Final = 20  #: lines for people; a broken setting fails thousands of files in the same way


def waited_for(
    service: "KnowledgeService",
    base: Base,
    roots: Sequence[ItemId],
    output: Output,
    timeout_seconds: float | None,
    *,
    job_id: JobId | None = None,
    deleting: bool = False,
    told: str | None = None,
) -> Ended:
    with shown(output) as reporter:
        return until_settled(
            service, base, roots, reporter, job_id=job_id, deleting=deleting, told=told, timeout_seconds=timeout_seconds
        )


def tell_end(output: Output, waited: Ended, base: Base) -> None:
    if waited.outcome is Outcome.STOPPED:
        output.hint("stopped waiting; the work goes on: see `knowledge item list`")
    elif waited.outcome is Outcome.TIMED_OUT:
        output.hint(f"still not done after {waited.seconds:.0f} s ({describe(waited.counts)}); the work goes on")
    else:
        end = "failed after" if waited.exit_code is ExitCode.FAILED else "done in"
        output.hint(": ".join(filter(None, (f"{end} {waited.seconds:.1f} s", describe(waited.counts)))))
    if waited.gone:
        output.hint(f"deleted meanwhile, and not indexed: {counted(waited.gone, 'item')}")
    for item in waited.failures[:FAILURES_SHOWN]:
        output.hint(f"failed: {failure_line(item)}")
    if len(waited.failures) > FAILURES_SHOWN:
        output.hint(f"and more; all of them: knowledge item list {base.id} --status failed")
    if any(item.error == INDEXING_INTERRUPTED for item in waited.failures):
        output.hint(f"a worker was lost or stopped; finish them with: knowledge item reindex {base.id} --interrupted --wait")
    if any(item.error == INDEX_LOST for item in waited.failures):
        output.hint(f"the index was damaged or gone; make it again with: knowledge item reindex {base.id} --interrupted --wait")
    if waited.job is not None and waited.job.status in (JobStatus.FAILED, JobStatus.CANCELLED):
        what = detail(waited.job.error_detail)
        output.hint(f"not indexed again: {waited.job.error}{f' ({what})' if what else ''}; the items are as they were")
    elif waited.job is not None and waited.job.progress.get("skipped_missing_sources"):
        output.hint(f"left as they were, their sources have gone meanwhile: {waited.job.progress['skipped_missing_sources']}")
