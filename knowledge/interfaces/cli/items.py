"""knowledge item add | list | show | reindex | delete; reading verbs are in `reading`."""

import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from knowledge.errors import ItemNotFound, ItemNotInBase
from knowledge.interfaces.cli import left_out
from knowledge.interfaces.cli.application import opened_service
from knowledge.interfaces.cli.exits import ExitCode
from knowledge.interfaces.cli.notices import advice
from knowledge.interfaces.cli.options import (
    BaseName,
    Debug,
    ItemName,
    Json,
    Timeout,
    Wait,
    checked,
    example,
    given,
    require_wait,
    text,
    texts,
)
from knowledge.interfaces.cli.output import Output, clock, counted, detail
from knowledge.interfaces.cli.printable import printable
from knowledge.interfaces.cli.progress import describe, shown
from knowledge.interfaces.cli.quality import pages, record
from knowledge.interfaces.cli.shapes import (
    capture_object,
    conflict_object,
    counts_object,
    item_object,
    item_page_object,
    waited_object,
)
from knowledge.interfaces.cli.wait import Outcome, Waited, missing_hands, until_settled
from knowledge.model.ids import ItemId, JobId
from knowledge.model.inputs import DirectoryInput, FileInput, ItemInput, NoteInput, SitemapInput, Strategy, UrlInput
from knowledge.model.jobs import JobStatus
from knowledge.model.results import Conflict
from knowledge.model.status import CONTAINERS, INDEX_LOST, INDEXING_INTERRUPTED, ItemStatus, ItemType
from knowledge.model.views import Base, Item

if TYPE_CHECKING:
    from knowledge.service import KnowledgeService

app = typer.Typer(help="Add, list, read, index again and delete what a base holds.", no_args_is_help=True)

PAGE: Final = 100  #: rows asked for at once when all roots are wanted: the most that the service gives
_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.I)  #: the service says which schemes it takes
FAILURES_SHOWN: Final = 20  #: lines for people; a broken setting fails thousands of files in the same way


@app.command("add", epilog=example("knowledge item add handbook ./docs --wait"))
def add(
    base_name: BaseName,
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="PATH...", help="Files, directories, and addresses of pages: https://…")
    ] = None,
    notes: Annotated[
        list[str] | None,
        typer.Option("--note", metavar="TEXT", callback=texts, help="Add this text as a note; may be repeated."),
    ] = None,
    note_file: Annotated[
        Path | None,
        typer.Option("--note-file", metavar="FILE", allow_dash=True, help="Add this file's text as a note; - is stdin."),
    ] = None,
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", callback=text, help="Title of the note.")] = None,
    sitemaps: Annotated[
        list[str] | None,
        typer.Option("--sitemap", metavar="URL", callback=texts, help="Add every page that this sitemap or feed names."),
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(
            "--include", metavar="PATTERN", callback=texts, help="Of directories, take only such files; as in .gitignore."
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option("--exclude", metavar="PATTERN", callback=texts, help="Of directories, leave such files and folders out."),
    ] = None,
    on_conflict: Annotated[
        Strategy, typer.Option("--on-conflict", help="What to do about what is there with the same type and name.")
    ] = Strategy.RENAME,
    idempotency_key: Annotated[
        str | None,
        typer.Option("--idempotency-key", metavar="KEY", callback=text, help="The same key within a week adds nothing again."),
    ] = None,
    wait: Wait = False,
    timeout: Timeout = None,
    json: Json = False,
    debug: Debug = False,
) -> ExitCode:
    """Add files, directories, pages and notes. Files and notes are copied now; the rest goes on in the background."""
    require_wait(wait, timeout)
    inputs = [
        *(_path_input(path, include or (), exclude or ()) for path in paths or ()),
        *_notes(notes or (), note_file, title),
        *(SitemapInput(url=url) for url in sitemaps or ()),
    ]
    if (include or exclude) and not any(isinstance(one, DirectoryInput) for one in inputs):
        raise typer.BadParameter("--include and --exclude belong to a directory")
    if not inputs:
        raise typer.BadParameter("nothing to add: give a PATH or URL, --note, --note-file or --sitemap")
    output = Output(as_json=json)
    with opened_service() as service:
        base = service.base(base_name)
        receipt = service.add_items(base.id, inputs, strategy=on_conflict, idempotency_key=idempotency_key)
        if receipt.conflicts:
            return _refuse_conflicts(output, base, receipt.conflicts)
        lacking = missing_hands(service, base, published=receipt.published)
        if lacking:
            output.hint(f"accepted; {lacking}")
        items, waited = receipt.items, None
        if wait:
            waited = _watch(service, base, [item.id for item in items], output, timeout, told=lacking)
            items = _as_they_are_now(service, items)

    wire = {
        "base_id": base.id,
        "items": [item_object(item) for item in items],
        "conflicts": [],
        "published": receipt.published,
        "warning": lacking,
        "wait": waited_object(waited) if waited else None,
    }
    output.answer(wire, lambda out: _print_items(out, items))
    if waited:
        _print_end(output, waited, base)
        for item in items:
            if missed := left_out.reasons(item):
                output.hint(f"left out of {item.name}: {missed}; see `knowledge item show {item.id}`")
    elif not lacking:
        output.hint(f"accepted {counted(len(items), 'item')}; see `knowledge item list`, or use --wait")
    return waited.exit_code if waited else ExitCode.OK


class Kind(StrEnum):
    """The types of items."""

    FILE = "file"
    DIRECTORY = "directory"
    ARCHIVE = "archive"
    NOTE = "note"
    URL = "url"
    SITEMAP = "sitemap"


@app.command("list", epilog=example("knowledge item list handbook --status failed"))
def list_items(
    base_name: BaseName,
    inside: Annotated[
        str | None, typer.Option("--in", metavar="ITEM", callback=text, help="Only what is directly in this directory.")
    ] = None,
    roots: Annotated[bool, typer.Option("--roots", help="Only what was added itself, not what was found inside.")] = False,
    type_: Annotated[Kind | None, typer.Option("--type", help="Only items of this type.")] = None,
    status: Annotated[ItemStatus | None, typer.Option("--status", help="Only items with this status.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100, help="Rows of a page.")] = 20,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="CURSOR", callback=text, help="Go on where the last page ended.")
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> ExitCode:
    """List the items of a base: directories first, then newest first. What was added at once comes in the order of ids."""
    if inside and roots:
        raise typer.BadParameter("give either --in or --roots")
    with opened_service() as service:
        base = service.base(base_name)
        if inside and service.item(ItemId(inside)).base_id != base.id:
            raise ItemNotInBase(item_id=inside)
        page = service.list_items(
            base.id,
            group_id=ItemId(inside) if inside else None,
            roots_only=roots,
            type=ItemType(type_.value) if type_ else None,
            status=status,
            limit=limit,
            cursor=cursor,
        )

    output = Output(as_json=json)
    output.answer(item_page_object(page), lambda out: _print_items(out, page.items))
    if page.next_cursor:
        output.hint(f"{len(page.items)} of {page.total}; go on with --cursor {page.next_cursor}")
    elif not page.items:
        output.hint("no items")
    if (next_step := advice(page.items)) is not None:
        output.hint(next_step)
    return ExitCode.OK


@app.command("show", epilog=example("knowledge item show 01938c2e-7d1f-7a30-9b57-3d0c1f2a4b5c"))
def show(item_id: ItemName, json: Json = False, debug: Debug = False) -> ExitCode:
    """Show one item, and of a directory how far its files are."""
    with opened_service() as service:
        item = service.item(ItemId(item_id))
        is_container = item.type in CONTAINERS
        counts = service.status_counts(item.base_id, [item.id]) if is_container else None
        failures = service.failures(item.base_id, [item.id]) if is_container else ()

    wire = item_object(item)
    if counts:
        wire |= {"counts": counts_object(counts), "failures": [item_object(failure) for failure in failures]}

    def people(out: Output) -> None:
        out.record(_record(item) | {"inside": describe(counts) if counts else None})
        for failure in failures:
            if failure.id != item.id:
                out.line(f"  {_failure(failure)}")
        left_out.print_names(out, item)

    output = Output(as_json=json)
    output.answer(wire, people)
    if (next_step := advice([item])) is not None:
        output.hint(next_step)
    return ExitCode.OK


@app.command("reindex", epilog=example("knowledge item reindex handbook --interrupted --wait"))
def reindex(
    base_name: BaseName,
    item_ids: Annotated[list[str] | None, typer.Argument(metavar="ITEM...", callback=texts, help="Ids of items.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every item of the base.")] = False,
    interrupted: Annotated[
        bool, typer.Option("--interrupted", help="What a lost worker, or an index that was lost, left failed; nothing else.")
    ] = False,
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="Let a folder that has become empty empty its directory.")
    ] = False,
    changed: Annotated[
        bool, typer.Option("--changed", help="Of directories, only files whose size or time is another one.")
    ] = False,
    wait: Wait = False,
    timeout: Timeout = None,
    json: Json = False,
    debug: Debug = False,
) -> ExitCode:
    """Fetch and index sources again. Directories follow their folder; the old text is found until the new one is."""
    require_wait(wait, timeout)
    if bool(item_ids) + everything + interrupted != 1:
        raise typer.BadParameter("give the ids of items, --all or --interrupted")
    if interrupted and (allow_empty or changed):
        raise typer.BadParameter("--allow-empty and --changed belong to ids or --all")
    output = Output(as_json=json)
    with opened_service() as service:
        base = service.base(base_name)
        if interrupted:
            receipt = service.reindex_interrupted(base.id)
        else:
            chosen = _all_roots(service, base) if everything else [ItemId(item_id) for item_id in item_ids or ()]
            receipt = service.reindex_items(base.id, chosen, allow_empty=allow_empty, only_changed=changed)
        lacking = missing_hands(service, base, published=receipt.published) if receipt.root_ids else None
        if lacking:
            output.hint(f"accepted; {lacking}")
        waited = None
        if wait and receipt.root_ids:
            waited = _watch(service, base, receipt.root_ids, output, timeout, job_id=receipt.job_id, told=lacking)

    wire = {
        "base_id": base.id,
        "root_ids": list(receipt.root_ids),
        "job_id": receipt.job_id,
        "published": receipt.published,
        "warning": lacking,
        "wait": waited_object(waited) if waited else None,
    }

    def people(out: Output) -> None:
        for root_id in receipt.root_ids:
            out.line(root_id)

    output.answer(wire, people)
    if waited:
        _print_end(output, waited, base)
    elif not receipt.root_ids:
        output.hint("nothing to index again")
    elif not lacking:
        output.hint(f"indexing {counted(len(receipt.root_ids), 'item')} again; see `knowledge item list`, or use --wait")
    return waited.exit_code if waited else ExitCode.OK


@app.command("delete", epilog=example("knowledge item delete handbook 01938c2e-7d1f-7a30-9b57-3d0c1f2a4b5c"))
def delete(
    base_name: BaseName,
    item_ids: Annotated[
        list[str] | None, typer.Argument(metavar="ITEM...", callback=texts, help="Ids of items, in any status.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every item of the base.")] = False,
    wait: Wait = False,
    timeout: Timeout = None,
    json: Json = False,
    debug: Debug = False,
) -> ExitCode:
    """Delete items with all they contain. They are hidden at once and removed in the background."""
    require_wait(wait, timeout)
    if bool(item_ids) == everything:
        raise typer.BadParameter("give the ids of items, or --all")
    output = Output(as_json=json)
    with opened_service() as service:
        base = service.base(base_name)
        chosen = _all_roots(service, base) if everything else [ItemId(item_id) for item_id in item_ids or ()]
        receipt = service.delete_items(base.id, chosen)
        lacking = missing_hands(service, base, published=receipt.published) if receipt.root_ids else None
        if lacking:
            output.hint(f"accepted; {lacking}")
        waited = None
        if wait and receipt.root_ids:
            waited = _watch(service, base, receipt.root_ids, output, timeout, deleting=True, told=lacking)

    wire = {
        "base_id": base.id,
        "root_ids": list(receipt.root_ids),
        "published": receipt.published,
        "warning": lacking,
        "wait": waited_object(waited) if waited else None,
    }

    def people(out: Output) -> None:
        for root_id in receipt.root_ids:
            out.line(root_id)

    output.answer(wire, people)
    if waited:
        _print_end(output, waited, base)
    elif not receipt.root_ids:
        output.hint("nothing to delete")
    elif not lacking:
        output.hint(f"deleting {counted(len(receipt.root_ids), 'item')}")
    return waited.exit_code if waited else ExitCode.OK


# what is added ---------------------------------------------------------------------------------------------------------------


def _path_input(typed: str, include: Sequence[str], exclude: Sequence[str]) -> ItemInput:
    """A directory if it is one now; everything else is a file, and the service says what is wrong with it."""
    if _ADDRESS.match(typed):
        return UrlInput(url=typed)
    if not typed:  # as a path this would be the current directory
        raise typer.BadParameter("a PATH is empty: name a file or directory")
    encoding = sys.getfilesystemencoding()
    if encoding != "utf-8" and any("\ud800" <= character <= "\udfff" for character in typed):
        raise typer.BadParameter(f"{printable(typed)} cannot be read in this locale ({encoding}); set PYTHONUTF8=1")
    path = Path(typed)
    if path.is_dir():
        return checked(DirectoryInput, {"path": path, "include": tuple(include), "exclude": tuple(exclude)})
    return FileInput(path=path)


def _notes(written: Sequence[str], file: Path | None, title: str | None) -> Sequence[NoteInput]:
    if written and file is not None:
        raise typer.BadParameter("give either --note or --note-file")
    contents = written if file is None else [_content(file)]
    if any(not content.strip() for content in contents):
        given_by = "--note" if file is None else f"--note-file {printable(str(file))}"
        raise typer.BadParameter(f"{given_by} is blank: a note needs text")
    if title is not None and len(contents) != 1:
        raise typer.BadParameter("--title belongs to one --note or --note-file")
    return [checked(NoteInput, given(content=content, title=title)) for content in contents]


def _content(file: Path) -> str:
    try:
        return sys.stdin.buffer.read().decode() if str(file) == "-" else file.read_bytes().decode()
    except OSError as refused:
        raise typer.BadParameter(f"--note-file {printable(str(file))} cannot be read: {refused.strerror}") from refused
    except UnicodeDecodeError as wrong:
        raise typer.BadParameter(f"--note-file {printable(str(file))} is not UTF-8 text; add it as a file") from wrong


def _refuse_conflicts(output: Output, base: Base, conflicts: Sequence[Conflict]) -> ExitCode:
    wire = {
        "base_id": base.id,
        "items": [],
        "conflicts": [conflict_object(conflict) for conflict in conflicts],
        "published": True,
        "warning": None,
        "wait": None,
    }

    def people(out: Output) -> None:
        out.table(("TYPE", "NAME"), [(conflict.type.value, conflict.title) for conflict in conflicts])

    output.answer(wire, people)
    output.hint("nothing was added: these are there already; --on-conflict rename or replace adds them all the same")
    return ExitCode.FAILED


def _all_roots(service: "KnowledgeService", base: Base) -> list[ItemId]:
    found: list[ItemId] = []
    cursor: str | None = None
    while True:
        page = service.list_items(base.id, roots_only=True, limit=PAGE, cursor=cursor)
        found += [item.id for item in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return found


# waiting and printing --------------------------------------------------------------------------------------------------------


def _watch(
    service: "KnowledgeService",
    base: Base,
    roots: Sequence[ItemId],
    output: Output,
    timeout_seconds: float | None,
    *,
    job_id: JobId | None = None,
    deleting: bool = False,
    told: str | None = None,
) -> Waited:
    with shown(output) as reporter:
        return until_settled(
            service, base, roots, reporter, job_id=job_id, deleting=deleting, told=told, timeout_seconds=timeout_seconds
        )


def _as_they_are_now(service: "KnowledgeService", items: Sequence[Item]) -> list[Item]:
    """These items read again, without those that have been deleted meanwhile."""
    found = []
    for item in items:
        with suppress(ItemNotFound):
            found.append(service.item(item.id))
    return found


def _print_items(out: Output, items: Sequence[Item]) -> None:
    rows = [
        (
            item.id,
            item.type.value,
            f"{item.status.value} ({item.error})" if item.error else item.status.value,
            "" if item.chunk_count is None else str(item.chunk_count),
            pages(item.quality),
            ", ".join(item.notices),
            item.name,  # last: a long one widens no other column
        )
        for item in items
    ]
    out.table(("ID", "TYPE", "STATUS", "CHUNKS", "TEXT", "NOTICES", "NAME"), rows)


def _failure(item: Item) -> str:
    what = detail(item.error_detail)
    return f"{item.name}: {item.error}{f' ({what})' if what else ''}"


def _print_end(output: Output, waited: Waited, base: Base) -> None:
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
        output.hint(f"failed: {_failure(item)}")
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


def _record(item: Item) -> dict[str, str | None]:
    what = detail(item.error_detail)
    return {
        "id": item.id,
        "base": item.base_id,
        "in": item.group_id,
        "type": item.type.value,
        "name": item.name,
        "concept": item.concept_id,
        "source": item.source,
        **_fetched(item),
        "status": item.status.value,
        "error": f"{item.error}{f' ({what})' if what else ''}" if item.error else None,
        "chunks": None if item.chunk_count is None else str(item.chunk_count),
        **record(item.quality),
        "notices": ", ".join(item.notices),
        "left out": left_out.reasons(item),
        "created": clock(item.created_at),
        "updated": clock(item.updated_at),
    }


def _fetched(item: Item) -> dict[str, str | None]:
    """Of a page: where its address led, if that is another one, and when."""
    known = capture_object(item) or {}
    leads_to = known.get("url") if known.get("url") != item.source else None
    fetched_at = known.get("fetched_at")
    return {"leads to": leads_to, "fetched": clock(datetime.fromisoformat(fetched_at)) if fetched_at else None}
