"""knowledge item add"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from knowledge.interfaces.cli import left_out
from knowledge.interfaces.cli.application import opened_service
from knowledge.interfaces.cli.describing import print_items
from knowledge.interfaces.cli.exits import ExitCode
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
    texts,
)
from knowledge.interfaces.cli.outcome import tell_end, waited_for
from knowledge.interfaces.cli.output import Output, counted
from knowledge.interfaces.cli.printable import printable
from knowledge.interfaces.cli.rereading import as_they_are_now
from knowledge.interfaces.cli.shapes import conflict_object, item_object, waited_object
from knowledge.interfaces.cli.wait import missing_hands
from knowledge.model.inputs import DirectoryInput, FileInput, ItemInput, NoteInput, SitemapInput, Strategy, UrlInput
from knowledge.model.results import Conflict
from knowledge.model.views import Base

if TYPE_CHECKING:
    pass

EXAMPLE: Final = example("knowledge item add handbook ./docs --wait")
_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.I)  #: the service says which schemes it takes


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
        typer.Option(
            "--idempotency-key", metavar="KEY", callback=text, help="The same key and inputs within a week add nothing again."
        ),
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
            accepted = [*(item.id for item in items), *receipt.gone]
            waited = waited_for(service, base, accepted, output, timeout, told=lacking)
            items = as_they_are_now(service, items)

    wire = {
        "base_id": base.id,
        "items": [item_object(item) for item in items],
        "gone": list(receipt.gone),
        "conflicts": [],
        "published": receipt.published,
        "warning": lacking,
        "wait": waited_object(waited) if waited else None,
    }
    output.answer(wire, lambda out: print_items(out, items))
    if waited:
        tell_end(output, waited, base)
        for item in items:
            if missed := left_out.reasons(item):
                output.hint(f"left out of {item.name}: {missed}; see `knowledge item show {item.id}`")
    elif items and not lacking:
        output.hint(f"accepted {counted(len(items), 'item')}; see `knowledge item list`, or use --wait")
    if receipt.gone:
        output.hint(f"accepted, and deleted or replaced meanwhile: {', '.join(receipt.gone)}")
    return waited.exit_code if waited else ExitCode.OK


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
        "gone": [],
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
