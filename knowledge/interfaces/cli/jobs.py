"""knowledge jobs list | show | cancel | requeue | why"""

from contextlib import suppress
from typing import Annotated

import typer

from knowledge.errors import BaseNotFound, ItemNotFound
from knowledge.interfaces.cli.application import opened_service
from knowledge.interfaces.cli.exits import ExitCode
from knowledge.interfaces.cli.options import Debug, ItemName, Json, example, text
from knowledge.interfaces.cli.output import Output, clock, detail
from knowledge.interfaces.cli.shapes import job_object, job_page_object, why_object
from knowledge.interfaces.cli.wait import missing_hands
from knowledge.model.ids import ItemId, JobId
from knowledge.model.jobs import ACTIVE_JOB, Job, JobStatus

app = typer.Typer(help="See what the workers do and did, and why; step in.", no_args_is_help=True)

JobName = Annotated[str, typer.Argument(metavar="JOB", callback=text, help="Id of a job.")]


@app.command("list", epilog=example("knowledge jobs list --base handbook --status running"))
def list_jobs(
    base_name: Annotated[
        str | None, typer.Option("--base", metavar="BASE", callback=text, help="Only jobs of this base.")
    ] = None,
    statuses: Annotated[
        list[JobStatus] | None, typer.Option("--status", help="Only jobs with this status; may be repeated.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Rows to show.")] = 50,
    json: Json = False,
    debug: Debug = False,
) -> ExitCode:
    """List jobs, newest first."""
    with opened_service() as service:
        base_id = service.base(base_name).id if base_name else None
        page = service.list_jobs(base_id=base_id, statuses=statuses or None, limit=limit)

    def people(out: Output) -> None:
        rows = [
            (job.id, job.type.value.removeprefix("knowledge."), _state(job), str(len(job.item_ids)), clock(job.created_at))
            for job in page.jobs
        ]
        out.table(("ID", "JOB", "STATUS", "ITEMS", "CREATED"), rows)

    output = Output(as_json=json)
    output.answer(job_page_object(page), people)
    if page.total > len(page.jobs):
        output.hint(f"{len(page.jobs)} of {page.total}; see more with --limit")
    elif not page.jobs:
        output.hint("no jobs")
    return ExitCode.OK


@app.command("show", epilog=example("knowledge jobs show 01938c2e-7d1f-7a30-9b57-3d0c1f2a4b5c"))
def show(job_id: JobName, json: Json = False, debug: Debug = False) -> ExitCode:
    """Show one job: what it works on, who runs it, what became of it."""
    with opened_service() as service:
        job = service.job(JobId(job_id))

    Output(as_json=json).answer(job_object(job), lambda out: out.record(_record(job)))
    return ExitCode.OK


@app.command("cancel", epilog=example("knowledge jobs cancel 01938c2e-7d1f-7a30-9b57-3d0c1f2a4b5c"))
def cancel(job_id: JobName, json: Json = False, debug: Debug = False) -> ExitCode:
    """Have a job stop; its items are parked and can be indexed again. A delete cannot be cancelled."""
    output = Output(as_json=json)
    with opened_service() as service:
        job = service.cancel_job(JobId(job_id))

    output.answer(job_object(job), lambda out: out.record(_record(job)))
    if job.status in ACTIVE_JOB:
        output.hint("it stops at its next checkpoint: between two pages or batches")
    return ExitCode.OK


@app.command("requeue", epilog=example("knowledge jobs requeue 01938c2e-7d1f-7a30-9b57-3d0c1f2a4b5c"))
def requeue(job_id: JobName, json: Json = False, debug: Debug = False) -> ExitCode:
    """Have a waiting job go on now. It may wait for a back-off, a message that was lost, or a server that asked to wait."""
    output = Output(as_json=json)
    with opened_service() as service:
        job = service.requeue_job(JobId(job_id))
        with suppress(ItemNotFound):  # a job of a whole base names none
            output.hint(service.why(job.item_ids[0]).explanation if job.item_ids else "it is due now")

    output.answer(job_object(job), lambda out: out.record(_record(job)))
    return ExitCode.OK


@app.command("why", epilog=example("knowledge jobs why 01938c2e-7d1f-7a30-9b57-3d0c1f2a4b5c"))
def why(item_id: ItemName, json: Json = False, debug: Debug = False) -> ExitCode:
    """Say what explains an item's status. Names its job, whose run that is, and the last error."""
    output = Output(as_json=json)
    with opened_service() as service:
        found = service.why(ItemId(item_id))
        lacking = None
        if found.job and found.job.status is JobStatus.PENDING:
            with suppress(BaseNotFound):  # it is being deleted
                lacking = missing_hands(service, service.base(found.item.base_id))

    def people(out: Output) -> None:
        item = found.item
        out.line(found.explanation)
        out.record({"item": item.id, "name": item.name, "item status": item.status.value, "item error": item.error})
        if found.job:
            alive = {True: "alive", False: "gone", None: None}[found.owner_alive]
            out.record(
                {f"job {name}" if name in ("id", "status") else name: value for name, value in _record(found.job).items()}
                | {"owner is": alive, "lease until": clock(found.job.lease_until, seconds=True)}
            )

    output.answer(why_object(found), people)
    if lacking:
        output.hint(lacking)
    return ExitCode.OK


def _state(job: Job) -> str:
    remarks = [
        remark
        for remark in (job.error, "stuck" if job.is_stuck else "", "not sent yet" if job.is_unpublished else "")
        if remark
    ]
    return f"{job.status.value} ({', '.join(remarks)})" if remarks else job.status.value


def _record(job: Job) -> dict[str, str | None]:
    return {
        "id": job.id,
        "job": job.type.value,
        "base": job.base_id,
        "items": ", ".join(job.item_ids),
        "status": _state(job),
        "detail": detail(job.error_detail),
        "track": job.kind.track.value,
        "recovery": job.kind.recovery.value,
        "errors": str(job.attempt) if job.attempt else None,
        "losses": str(job.losses) if job.losses else None,
        "owner": f"{job.owner.host}, process {job.owner.pid}" if job.owner else None,
        "progress": detail(job.progress),
        "created": clock(job.created_at, seconds=True),
        "due": clock(job.scheduled_at, seconds=True),
        "started": clock(job.started_at, seconds=True),
        "finished": clock(job.finished_at, seconds=True),
        "shard": job.shard,
    }
