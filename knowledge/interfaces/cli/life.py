"""knowledge base patch | enable-embedder | restore | import: what becomes of a base after its creation."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from knowledge.errors import BaseNotFound
from knowledge.interfaces.cli.application import application, opened_service
from knowledge.interfaces.cli.bases import print_base
from knowledge.interfaces.cli.exits import ExitCode
from knowledge.interfaces.cli.groups import group_id
from knowledge.interfaces.cli.namesakes import tell_of_bases
from knowledge.interfaces.cli.options import (
    BaseName,
    Debug,
    Json,
    Timeout,
    Wait,
    checked,
    example,
    given,
    require_wait,
    text,
)
from knowledge.interfaces.cli.outcome import tell_end, waited_for
from knowledge.interfaces.cli.output import Output, counted
from knowledge.interfaces.cli.rereading import all_roots, as_they_are_now
from knowledge.interfaces.cli.shapes import base_object, item_object, waited_object
from knowledge.interfaces.cli.wait import Ended, missing_hands
from knowledge.model.inputs import BasePatch
from knowledge.model.jobs import JobType
from knowledge.model.status import BaseStatus, ItemType
from knowledge.model.views import Base

if TYPE_CHECKING:
    from knowledge.service import KnowledgeService

JOBS: Final = 1000  #: the newest that are looked through for the one that indexes everything again
_FROM_DISK: Final = frozenset({ItemType.FILE, ItemType.DIRECTORY, ItemType.ARCHIVE})


def register(app: typer.Typer) -> None:
    app.command("patch", epilog=example("knowledge base patch handbook --name manual --document-count 20"))(patch)
    app.command("enable-embedder", epilog=example("knowledge base enable-embedder handbook local/minilm"))(enable_embedder)
    app.command("restore", epilog=example("knowledge base restore handbook handbook-2"))(restore)
    app.command("import", epilog=example("knowledge base import handbook.zip"))(import_base)


def patch(
    base_name: BaseName,
    name: Annotated[str | None, typer.Option(metavar="NAME", callback=text, help="Another name.")] = None,
    group: Annotated[str | None, typer.Option(metavar="GROUP", callback=text, help="Id or name of its group.")] = None,
    no_group: Annotated[bool, typer.Option("--no-group", help="Take it out of its group.")] = False,
    embedder: Annotated[
        str | None, typer.Option(metavar="ID", callback=text, help="Another model; only while the base holds nothing.")
    ] = None,
    no_embedder: Annotated[bool, typer.Option("--no-embedder", help="None; only while the base holds nothing.")] = False,
    rerank_model: Annotated[
        str | None,
        typer.Option(metavar="ID", callback=text, help="Kept for later: no model orders hits again yet, whatever its id."),
    ] = None,
    no_rerank_model: Annotated[bool, typer.Option("--no-rerank-model", help="Forget that id.")] = False,
    file_processor: Annotated[
        str | None, typer.Option(metavar="ID", callback=text, help="What converts its files: `ocr`, `docling` …")
    ] = None,
    no_file_processor: Annotated[bool, typer.Option("--no-file-processor", help="Nothing converts its files.")] = False,
    chunk_size: Annotated[int | None, typer.Option(metavar="TOKENS", help="Largest passage, in estimated tokens.")] = None,
    chunk_overlap: Annotated[int | None, typer.Option(metavar="TOKENS", help="What neighbouring passages share.")] = None,
    chunk_strategy: Annotated[
        str | None, typer.Option(metavar="structured|delimiter", help="Cut at headings and paragraphs, or at a separator.")
    ] = None,
    chunk_separator: Annotated[
        str | None, typer.Option(metavar="TEXT", callback=text, help=r"For `delimiter`; \n and \t are understood.")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(metavar="0..1", help="Least relevance of a hit, where scores are relevance.")
    ] = None,
    document_count: Annotated[int | None, typer.Option(metavar="N", help="Hits that a search returns.")] = None,
    fail_on_empty: Annotated[
        bool | None, typer.Option("--fail-on-empty/--no-fail-on-empty", help="Whether a file without text counts as failed.")
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> ExitCode:
    """Change settings of a base. They count for later indexing: what is indexed stays as it is."""
    changes = given(
        name=name,
        embedder=embedder,
        rerank_model=rerank_model,
        file_processor=file_processor,
        chunk_size=chunk_size,
        chunk_overlap=chunk_overlap,
        chunk_strategy=chunk_strategy,
        chunk_separator=chunk_separator,
        threshold=threshold,
        document_count=document_count,
        fail_on_empty=fail_on_empty,
        group_id=group,
    )
    cleared = {
        "group_id": no_group,
        "embedder": no_embedder,
        "rerank_model": no_rerank_model,
        "file_processor": no_file_processor,
    }
    for field, is_cleared in cleared.items():
        if is_cleared and field in changes:
            option = "group" if field == "group_id" else field.replace("_", "-")
            raise typer.BadParameter(f"give either --{option} or --no-{option}")
        if is_cleared:
            changes[field] = None
    if not changes:
        raise typer.BadParameter("nothing to change: give at least one option")
    checked(BasePatch, changes)  # before anything is opened
    output = Output(as_json=json)
    with opened_service() as service:
        base = service.base(base_name)
        if group is not None:
            changes["group_id"] = group_id(service, group)
        base = service.patch_base(base.id, checked(BasePatch, changes))
        print_base(output, base)
        if rerank_model is not None:
            output.hint("the rerank model is kept for later: nothing orders hits again yet")
        if name is not None:
            tell_of_bases(output, service, base)

    return ExitCode.OK


def enable_embedder(
    base_name: BaseName,
    embedder: Annotated[str, typer.Argument(metavar="MODEL", callback=text, help="Id of a model (`knowledge model list`).")],
    wait: Wait = False,
    timeout: Timeout = None,
    json: Json = False,
    debug: Debug = False,
) -> ExitCode:
    """Give a base without a model one. Everything in it is indexed again."""
    require_wait(wait, timeout)
    output = Output(as_json=json)
    with opened_service() as service:
        began = datetime.now(UTC).replace(microsecond=0)  # rows keep less of a second
        base = service.enable_embedder(service.base(base_name).id, embedder)
        waited = _worked_off(service, base, output, timeout, since=began) if wait else None
        base = _now(service, base)

    output.answer(_base_wire(base, waited), lambda out: print_base(out, base))
    return _ending(
        output, base, waited, f"everything in it is indexed again: see `knowledge base show {base.id}`, or use --wait"
    )


def restore(
    base_name: BaseName,
    name: Annotated[str, typer.Argument(metavar="NAME", callback=text, help="Name of the new base.")],
    embedder: Annotated[
        str | None, typer.Option(metavar="ID", callback=text, help="Its model; the default is that of the old base.")
    ] = None,
    no_embedder: Annotated[bool, typer.Option("--no-embedder", help="Search by words only.")] = False,
    wait: Wait = False,
    timeout: Timeout = None,
    json: Json = False,
    debug: Debug = False,
) -> ExitCode:
    """Rebuild a base, failed ones included, into a new one. The old one is not changed."""
    require_wait(wait, timeout)
    if embedder and no_embedder:
        raise typer.BadParameter("give either --embedder or --no-embedder")
    output = Output(as_json=json)
    with opened_service() as service:
        source = service.base(base_name)
        chosen = None if no_embedder else embedder or source.embedder
        receipt = service.restore_base(source.id, name, chosen)
        waited = _worked_off(service, receipt.base, output, timeout) if wait else None
        base = _now(service, receipt.base)
        items = as_they_are_now(service, receipt.items) if waited else receipt.items

    wire = {
        "base": base_object(base),
        "items": [item_object(item) for item in items],
        "skipped_missing_sources": receipt.skipped_missing_sources,
        "wait": waited_object(waited) if waited else None,
    }
    output.answer(wire, lambda out: print_base(out, base))
    if receipt.skipped_missing_sources:
        output.hint(f"{counted(receipt.skipped_missing_sources, 'item')} left out: the source is gone")
    return _ending(
        output, base, waited, f"{counted(len(items), 'item')} accepted: see `knowledge base show {base.id}`, or use --wait"
    )


def import_base(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A bundle: rows, bytes and maybe vectors, in one zip file.")],
    wait: Wait = False,
    timeout: Timeout = None,
    json: Json = False,
    debug: Debug = False,
) -> ExitCode:
    """Import a base from a bundle. One whose model is not declared here arrives failed; restore leads out of that."""
    require_wait(wait, timeout)
    output = Output(as_json=json)
    with opened_service(founds=True) as service:
        base = service.import_base(file)
        waited = _worked_off(service, base, output, timeout) if wait and base.status is BaseStatus.COMPLETED else None
        base = _now(service, base)
        output.answer(_base_wire(base, waited), lambda out: print_base(out, base))
        tell_of_bases(output, service, base)
        roots = service.list_items(base.id, roots_only=True, limit=100).items

    if named := [root.source for root in roots if root.type in _FROM_DISK]:
        output.hint(
            f"a reindex reads what the bundle names on this machine, as {named[0]}; all: knowledge item list {base.id} --json"
        )
    if base.status is BaseStatus.FAILED:
        default = application().default_embedder()
        model = f"--embedder {default}" if default else "--no-embedder"
        output.hint(f"it can be listed, deleted and restored: knowledge base restore {base.id} NAME {model}")
    return _ending(output, base, waited, None)


def _worked_off(
    service: "KnowledgeService", base: Base, output: Output, timeout: float | None, *, since: datetime | None = None
) -> Ended:
    """Everything in the base, which was made just now, or is indexed again by a job that was made `since`."""
    lacking = missing_hands(service, base, published=service.broker_answers())
    if lacking:
        output.hint(f"accepted; {lacking}")
    found = service.list_jobs(base_id=base.id, limit=JOBS).jobs if since else ()
    again = [job.id for job in found if job.type is JobType.REINDEX_SUBTREE and since and job.created_at >= since]
    roots = [item.id for item in all_roots(service, base.id)]
    return waited_for(service, base, roots, output, timeout, job_id=next(iter(again), None), told=lacking)


def _now(service: "KnowledgeService", base: Base) -> Base:
    """As it is after the waiting, in which somebody may have deleted it."""
    try:
        return service.base(base.id)
    except BaseNotFound:
        return base


def _base_wire(base: Base, waited: Ended | None) -> dict[str, object]:
    return base_object(base) | {"wait": waited_object(waited) if waited else None}


def _ending(output: Output, base: Base, waited: Ended | None, begun: str | None) -> ExitCode:
    """Tell what became of it, or what has begun."""
    if waited:
        tell_end(output, waited, base)
        return waited.exit_code
    if begun:
        output.hint(begun)
    return ExitCode.OK
