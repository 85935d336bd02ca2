"""knowledge base create | list | show | delete"""

import sys
from typing import Annotated, Any

import typer

from knowledge.interfaces.cli.application import application, opened_service
from knowledge.interfaces.cli.exits import ExitCode
from knowledge.interfaces.cli.options import BaseName, Debug, Json, example, text
from knowledge.interfaces.cli.output import Output, clock, counted
from knowledge.interfaces.cli.progress import describe
from knowledge.interfaces.cli.shapes import base_object, counts_object, list_object
from knowledge.model.inputs import BaseInput
from knowledge.model.views import Base

app = typer.Typer(help="Create, list and delete bases.", no_args_is_help=True)

LEXICAL_ONLY = "no embedder: this base is searched by its words only"
NO_LOCAL_MODEL = f"the default model is not installed (extra `local`); {LEXICAL_ONLY}"


@app.command("create", epilog=example("knowledge base create handbook"))
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", callback=text, help="What people call it; need not be unique.")],
    embedder: Annotated[
        str | None, typer.Option(metavar="ID", callback=text, help="Model that embeds its texts (`knowledge model list`).")
    ] = None,
    no_embedder: Annotated[bool, typer.Option("--no-embedder", help="Search by words only.")] = False,
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
    fail_on_empty: Annotated[bool, typer.Option("--fail-on-empty", help="A file without text counts as failed.")] = False,
    shard: Annotated[str | None, typer.Option(metavar="NAME", callback=text, help="Which workers it belongs to.")] = None,
    json: Json = False,
    debug: Debug = False,
) -> ExitCode:
    """Create a base. Without options it uses the default local model, or none if that is not installed."""
    if embedder and no_embedder:
        raise typer.BadParameter("give either --embedder or --no-embedder")
    output = Output(as_json=json)
    chosen = embedder or (None if no_embedder else application().default_embedder())
    wish = _wish(
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
    with opened_service() as service:
        base = service.create_base(wish)

    output.answer(base_object(base), lambda out: out.record(_record(base)))
    if chosen is None:
        output.hint(LEXICAL_ONLY if no_embedder else NO_LOCAL_MODEL)
    return ExitCode.OK


@app.command("list", epilog=example("knowledge base list"))
def list_bases(
    include_deleting: Annotated[bool, typer.Option("--all", help="Also those whose deletion has not finished.")] = False,
    json: Json = False,
    debug: Debug = False,
) -> ExitCode:
    """List bases, newest first."""
    with opened_service() as service:
        bases = service.list_bases(include_deleting=include_deleting)

    def people(out: Output) -> None:
        rows = [(base.id, _state(base), str(base.item_count), base.mode, clock(base.created_at), base.name) for base in bases]
        out.table(("ID", "STATUS", "ITEMS", "SEARCH", "CREATED", "NAME"), rows)
        if not bases:
            out.hint("no bases yet: create one with `knowledge base create NAME`")

    Output(as_json=json).answer(list_object("bases", [base_object(base) for base in bases]), people)
    return ExitCode.OK


@app.command("show", epilog=example("knowledge base show handbook"))
def show(base_name: BaseName, json: Json = False, debug: Debug = False) -> ExitCode:
    """Show one base and how far its items are."""
    with opened_service() as service:
        base = service.base(base_name)
        counts = service.status_counts(base.id)

    wire = base_object(base) | {"counts": counts_object(counts)}
    Output(as_json=json).answer(wire, lambda out: out.record(_record(base) | {"documents": describe(counts) or "none"}))
    return ExitCode.OK


@app.command("delete", epilog=example("knowledge base delete handbook --yes"))
def delete(
    base_name: BaseName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
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


def _wish(**given: Any) -> BaseInput:
    """What was given; the model's own defaults hold for the rest, so that they are written down once."""
    from pydantic import ValidationError

    try:
        return BaseInput(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as wrong:
        raise typer.BadParameter("; ".join(_complaint(error) for error in wrong.errors())) from None


def _complaint(error: Any) -> str:
    where = ".".join(str(part) for part in error["loc"])
    what = str(error["msg"]).removeprefix("Value error, ")
    return f"{where}: {what}" if where else what


def _confirmed(base: Base) -> bool:
    if not sys.stdin.isatty():
        raise typer.BadParameter("deleting a base needs --yes where nobody can be asked")
    from knowledge.interfaces.cli.printable import printable

    return typer.confirm(f"Delete {printable(base.name)} with {counted(base.item_count, 'item')}?", err=True)


def _state(base: Base) -> str:
    if base.deleting_at is not None:
        return "deleting"
    return f"{base.status.value} ({base.error})" if base.error else base.status.value


def _record(base: Base) -> dict[str, str | None]:
    return {
        "id": base.id,
        "name": base.name,
        "status": _state(base),
        "search": base.mode,
        "embedder": base.embedder,
        "dimensions": str(base.dimensions or ""),
        "chunks": f"{base.chunk_strategy}, at most {base.chunk_size} tokens, {base.chunk_overlap} shared",
        "threshold": "" if base.threshold is None else str(base.threshold),
        "hits": str(base.document_count or ""),
        "empty files": "failed" if base.fail_on_empty else "",
        "shard": "" if base.shard == "main" else base.shard,
        "items": str(base.item_count),
        "created": clock(base.created_at),
    }
