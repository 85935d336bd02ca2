"""knowledge item list | show"""

from collections import Counter
from enum import StrEnum
from typing import Annotated, Final

import typer

from knowledge.interfaces.cli import left_out
from knowledge.interfaces.cli.application import opened_service
from knowledge.interfaces.cli.describing import failure_line, item_record, print_items
from knowledge.interfaces.cli.exits import ExitCode
from knowledge.interfaces.cli.notices import advice
from knowledge.interfaces.cli.options import BaseName, Debug, ItemName, Json, example, text
from knowledge.interfaces.cli.output import Output
from knowledge.interfaces.cli.progress import describe
from knowledge.interfaces.cli.shapes import counts_object, item_object, item_page_object
from knowledge.model.ids import ItemId
from knowledge.model.results import StatusCounts
from knowledge.model.status import CONTAINERS, ItemStatus, ItemType
from knowledge.model.views import Item

LIST_EXAMPLE: Final = example("knowledge item list handbook --status failed")
SHOW_EXAMPLE: Final = example("knowledge item show 01938c2e-7d1f-7a30-9b57-3d0c1f2a4b5c")


class Kind(StrEnum):
    """The types of items."""

    FILE = "file"
    DIRECTORY = "directory"
    ARCHIVE = "archive"
    NOTE = "note"
    URL = "url"
    SITEMAP = "sitemap"


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
    if status is ItemStatus.DELETING:
        raise typer.BadParameter("what is being deleted is hidden from lists; `knowledge item show ITEM` shows it by its id")
    with opened_service() as service:
        base = service.base(base_name)
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
    output.answer(item_page_object(page), lambda out: print_items(out, page.items))
    if page.next_cursor:
        output.hint(f"{len(page.items)} of {page.total}; go on with --cursor {page.next_cursor}")
    elif not page.items:
        output.hint("no items")
    if (next_step := advice(page.items)) is not None:
        output.hint(next_step)
    return ExitCode.OK


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
        out.record(item_record(item) | {"inside": describe(_without(counts, item)) if counts else None})
        for failure in failures:
            if failure.id != item.id:
                out.line(f"  {failure_line(failure)}")
        left_out.print_names(out, item)

    output = Output(as_json=json)
    output.answer(wire, people)
    if (next_step := advice([item])) is not None:
        output.hint(next_step)
    return ExitCode.OK


def _without(counts: StatusCounts, container: Item) -> StatusCounts:
    """What is inside a container: the counts of its subtree but for itself."""
    return StatusCounts(counts.leaves, Counter(counts.containers) - Counter([container.status]))
