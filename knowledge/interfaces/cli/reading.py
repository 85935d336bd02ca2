"""knowledge item chunks | preview | path: what is behind an item."""

from typing import Annotated

import typer

from knowledge.interfaces.cli.application import opened_service
from knowledge.interfaces.cli.exits import ExitCode
from knowledge.interfaces.cli.options import Debug, ItemName, Json, example
from knowledge.interfaces.cli.output import Output
from knowledge.interfaces.cli.printable import one_line, place_in_file
from knowledge.interfaces.cli.shapes import chunk_object, list_object, preview_object
from knowledge.model.ids import ItemId
from knowledge.model.status import ItemStatus

ITEM = "01938c2e-7d1f-7a30-9b57-3d0c1f2a4b5c"


def register(app: typer.Typer) -> None:
    app.command("chunks", epilog=example(f"knowledge item chunks {ITEM}"))(chunks)
    app.command("preview", epilog=example(f"knowledge item preview {ITEM} --characters 500"))(preview)
    app.command("path", epilog=example(f"knowledge item path {ITEM}"))(path)


def chunks(item_id: ItemName, json: Json = False, debug: Debug = False) -> ExitCode:
    """List the passages of an item. Of a directory those of everything in it, in the order of the text."""
    with opened_service() as service:
        item = service.item(ItemId(item_id))
        found = service.chunks(item.base_id, item.id)

    def people(out: Output) -> None:
        for chunk in found:
            place = place_in_file(chunk.page, chunk.locator)
            stale = "" if chunk.item_status is ItemStatus.COMPLETED else f"  ({chunk.item_status.value})"
            where = f"characters {chunk.char_start} to {chunk.char_end}, about {chunk.token_count} tokens"
            out.styled(f"{chunk.source} #{chunk.chunk_index}{place}: {where}{stale}", "bold")
            out.styled(one_line(chunk.content), "", indent=3)
            out.line()

    output = Output(as_json=json)
    output.answer(list_object("chunks", [chunk_object(chunk) for chunk in found]), people)
    if not found:
        output.hint("no passages: nothing of it is indexed")
    return ExitCode.OK


def preview(
    item_id: ItemName,
    characters: Annotated[int, typer.Option("--characters", metavar="N", min=1, max=20_000, help="How much of it.")] = 2_000,
    json: Json = False,
    debug: Debug = False,
) -> ExitCode:
    """Show the beginning of an item's text, as it is searched."""
    with opened_service() as service:
        shown = service.preview(ItemId(item_id), characters=characters)

    def people(out: Output) -> None:
        for line in shown.text.splitlines():
            out.line(line)

    output = Output(as_json=json)
    output.answer(preview_object(shown), people)
    if shown.truncated:
        output.hint(f"the first {len(shown.text)} of {shown.total_characters} characters")
    elif not shown.text:
        output.hint("no text: nothing of it is indexed")
    return ExitCode.OK


def path(item_id: ItemName, json: Json = False, debug: Debug = False) -> ExitCode:
    """Print where the stored copy of a file lies."""
    with opened_service() as service:
        found = service.file_path(ItemId(item_id))

    Output(as_json=json).answer({"item_id": item_id, "path": str(found)}, lambda out: out.line(str(found)))
    return ExitCode.OK
