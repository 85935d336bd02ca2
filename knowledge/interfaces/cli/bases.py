"""knowledge base create | list | show | delete; the other verbs are in `life`."""

import sys
from datetime import datetime
from enum import StrEnum
from typing import Annotated

import typer

from knowledge.interfaces.cli.application import application, opened_service
from knowledge.interfaces.cli.exits import ExitCode
from knowledge.interfaces.cli.groups import group_id
from knowledge.interfaces.cli.namesakes import tell_of_bases
from knowledge.interfaces.cli.options import BaseName, Debug, Json, Yes, checked, example, given, text
from knowledge.interfaces.cli.output import Output, clock, counted
from knowledge.interfaces.cli.progress import describe
from knowledge.interfaces.cli.quality import coverage
from knowledge.interfaces.cli.shapes import base_object, base_page_object, counts_object, coverage_object
from knowledge.model.inputs import BaseInput, BaseQuery
from knowledge.model.views import Base

app = typer.Typer(help="Create, change, list, restore and delete bases.", no_args_is_help=True)

LEXICAL_ONLY = "no embedder: this base is searched by its words only"
CHUNK_SIZE = f"Largest passage, in estimated tokens; the default is {BaseInput.model_fields['chunk_size'].default}."
CHUNK_OVERLAP = f"What neighbouring passages share; the default is {BaseInput.model_fields['chunk_overlap'].default}."
NO_LOCAL_MODEL = f"the default model is not installed (extra `local`); {LEXICAL_ONLY}"


@app.command("create", epilog=example("knowledge base create handbook"))
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", callback=text, help="What people call it; need not be unique.")],
    embedder: Annotated[
        str | None, typer.Option(metavar="ID", callback=text, help="Model that embeds its texts (`knowledge model list`).")
    ] = None,
    no_embedder: Annotated[bool, typer.Option("--no-embedder", help="Search by words only.")] = False,
    chunk_size: Annotated[int | None, typer.Option(metavar="TOKENS", help=CHUNK_SIZE)] = None,
    chunk_overlap: Annotated[int | None, typer.Option(metavar="TOKENS", help=CHUNK_OVERLAP)] = None,
    chunk_strategy: Annotated[
        str | None, typer.Option(metavar="structured|delimiter", help="Cut at headings and paragraphs, or at a separator.")
    ] = None,
    chunk_separator: Annotated[
        str | None, typer.Option(metavar="TEXT", callback=text, help=r"For `delimiter`; \n and \t are understood.")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(metavar="0..1", help="Least relevance of a hit, where scores are relevance.")
    ] = None,
    document_count: Annotated[
        int | None, typer.Option(metavar="N", help="Hits that a search returns; the default is 10.")
    ] = None,
    fail_on_empty: Annotated[bool, typer.Option("--fail-on-empty", help="A file without text counts as failed.")] = False,
    shard: Annotated[str | None, typer.Option(metavar="NAME", callback=text, help="Which workers it belongs to.")] = None,
    group: Annotated[str | None, typer.Option(metavar="GROUP", callback=text, help="Id or name of its group.")] = None,
    json: Json = False,
    debug: Debug = False,
) -> ExitCode:
    """Create a base. Without options it uses the default local model, or none if that is not installed."""
    if embedder and no_embedder:
        raise typer.BadParameter("give either --embedder or --no-embedder")
    output = Output(as_json=json)
    chosen = embedder or (None if no_embedder else application().default_embedder())
    wish = given(
        name=name,
        embedder=chosen,
        chunk_size=chunk_size,
        chunk_overlap=chunk_overlap,
        chunk_strategy=chunk_strategy,
        chunk_separator=chunk_separator,
        threshold=threshold,
        document_count=document_count,
        fail_on_empty=fail_on_empty or None,
        shard=shard,
    )
    checked(BaseInput, wish)  # before anything is opened
    with opened_service(founds=True) as service:
        if group is not None:
            wish["group_id"] = group_id(service, group)
        base = service.create_base(checked(BaseInput, wish))
        print_base(output, base)
        tell_of_bases(output, service, base)

    if chosen is None:
        output.hint(LEXICAL_ONLY if no_embedder else NO_LOCAL_MODEL)
    return ExitCode.OK


class Sort(StrEnum):
    CREATED = "created_at"
    UPDATED = "updated_at"
    NAME = "name"


class Order(StrEnum):
    ASCENDING = "asc"
    DESCENDING = "desc"


@app.command("list", epilog=example("knowledge base list --search hand --sort name --order asc"))
def list_bases(
    search: Annotated[
        str | None, typer.Option("--search", metavar="TEXT", callback=text, help="Only those with this in their name.")
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", metavar="GROUP", callback=text, help="Only those of this group (id or name).")
    ] = None,
    updated_from: Annotated[
        datetime | None, typer.Option("--updated-from", metavar="TIME", help="Only those changed at this local time or later.")
    ] = None,
    sort: Annotated[Sort, typer.Option("--sort", help="What orders them.")] = Sort.CREATED,
    order: Annotated[Order, typer.Option("--order", help="Upwards or downwards.")] = Order.DESCENDING,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100, help="Rows of a page.")] = 100,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="CURSOR", callback=text, help="Go on where the last page ended.")
    ] = None,
    include_deleting: Annotated[bool, typer.Option("--all", help="Also those whose deletion has not finished.")] = False,
    json: Json = False,
    debug: Debug = False,
) -> ExitCode:
    """List bases, newest first unless told otherwise."""
    query = given(
        search=search,
        updated_from=updated_from.astimezone() if updated_from else None,
        sort_by=sort.value,
        sort_order=order.value,
        limit=limit,
        cursor=cursor,
        include_deleting=include_deleting,
    )
    with opened_service() as service:
        if group is not None:
            query["group_id"] = group_id(service, group)
        page = service.find_bases(checked(BaseQuery, query))

    def people(out: Output) -> None:
        rows = [
            (base.id, _state(base), str(base.item_count), base.mode, clock(base.created_at), base.name) for base in page.bases
        ]
        out.table(("ID", "STATUS", "ITEMS", "SEARCH", "CREATED", "NAME"), rows)

    output = Output(as_json=json)
    output.answer(base_page_object(page), people)
    if page.next_cursor:
        output.hint(f"{len(page.bases)} of {page.total}; go on with --cursor {page.next_cursor}")
    elif not page.bases:
        narrowed = search or group or updated_from or cursor
        output.hint("no bases" if narrowed else "no bases yet: create one with `knowledge base create NAME`")
    return ExitCode.OK


@app.command("show", epilog=example("knowledge base show handbook"))
def show(base_name: BaseName, json: Json = False, debug: Debug = False) -> ExitCode:
    """Show one base and how far its items are."""
    with opened_service() as service:
        base = service.base(base_name)
        counts, covered = service.status_counts(base.id), service.coverage(base.id)

    wire = base_object(base) | {"counts": counts_object(counts), "coverage": coverage_object(covered)}
    state = {"documents": describe(counts) or "none", "text": coverage(covered) if covered.items else None}
    Output(as_json=json).answer(wire, lambda out: out.record(_record(base) | state))
    return ExitCode.OK


@app.command("delete", epilog=example("knowledge base delete handbook --yes"))
def delete(
    base_name: BaseName,
    yes: Yes = False,
    json: Json = False,
    debug: Debug = False,
) -> ExitCode:
    """Delete a base with everything in it."""
    with opened_service() as service:
        base = service.base(base_name)
        if not yes and not _confirmed(base):
            return ExitCode.FAILED
        service.delete_base(base.id)

    Output(as_json=json).answer({"base_id": base.id, "deleted": True}, lambda out: out.line(f"deleted {base.name} ({base.id})"))
    return ExitCode.OK


def print_base(output: Output, base: Base) -> None:
    output.answer(base_object(base), lambda out: out.record(_record(base)))


def _confirmed(base: Base) -> bool:
    if not sys.stdin.isatty():
        raise typer.BadParameter("deleting a base needs --yes where nobody can be asked")
    from knowledge.interfaces.cli.printable import printable

    return typer.confirm(f"Delete {printable(base.name)} with {counted(base.item_count, 'item')}?", err=True)


def _state(base: Base) -> str:
    if base.deleting_at is not None:
        return "deleting"
    return f"{base.status.value} ({base.error})" if base.error else base.status.value


def _chunks(base: Base) -> str:
    """How its texts are cut: what its model takes counts where that is less than what the base says."""
    spec = next((spec for spec in application().list_models() if spec.id == base.embedder), None)
    if spec is None or base.chunk_size <= spec.max_input_tokens:
        return f"{base.chunk_strategy}, at most {base.chunk_size} tokens, {base.chunk_overlap} shared"
    most, said = f"at most {spec.max_input_tokens} tokens", f"{base.chunk_size} tokens, {base.chunk_overlap} shared"
    return f"{base.chunk_strategy}, {most} (all that {spec.id} takes; the base says {said})"


def _record(base: Base) -> dict[str, str | None]:
    return {
        "id": base.id,
        "name": base.name,
        "status": _state(base),
        "search": base.mode,
        "embedder": base.embedder,
        "dimensions": str(base.dimensions or ""),
        "chunks": _chunks(base),
        "threshold": "" if base.threshold is None else str(base.threshold),
        "hits": str(base.document_count or ""),
        "empty files": "failed" if base.fail_on_empty else "",
        "shard": "" if base.shard == "main" else base.shard,
        "group": base.group_id,
        "rerank model": base.rerank_model,
        "file processor": base.file_processor,
        "items": str(base.item_count),
        "created": clock(base.created_at),
    }
