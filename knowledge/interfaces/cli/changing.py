"""knowledge item reindex | delete: what is done to items that are there."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from knowledge.interfaces.cli.application import opened_service
from knowledge.interfaces.cli.exits import ExitCode
from knowledge.interfaces.cli.options import BaseName, Debug, Json, Timeout, Wait, example, require_wait, texts
from knowledge.interfaces.cli.outcome import tell_end, waited_for
from knowledge.interfaces.cli.output import Output, counted
from knowledge.interfaces.cli.rereading import all_roots
from knowledge.interfaces.cli.shapes import waited_object
from knowledge.interfaces.cli.wait import Ended, missing_hands
from knowledge.model.ids import ItemId
from knowledge.model.views import Base

if TYPE_CHECKING:
    from knowledge.model.results import DeleteReceipt, ReindexReceipt
    from knowledge.service import KnowledgeService

REINDEX_EXAMPLE: Final = example("knowledge item reindex handbook --interrupted --wait")
DELETE_EXAMPLE: Final = example("knowledge item delete handbook 01938c2e-7d1f-7a30-9b57-3d0c1f2a4b5c")


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
    chosen_ways = bool(item_ids) + everything + interrupted
    if chosen_ways > 1:
        raise typer.BadParameter("the ids of items, --all and --interrupted exclude each other: give one of them")
    if not chosen_ways:
        raise typer.BadParameter("give the ids of items, --all or --interrupted")
    if interrupted and (allow_empty or changed):
        raise typer.BadParameter("--allow-empty and --changed belong to ids or --all")
    output = Output(as_json=json)
    with opened_service() as service:
        base = service.base(base_name)
        if interrupted:
            receipt = service.reindex_interrupted(base.id)
        else:
            chosen = _chosen(service, base, item_ids, everything=everything)
            receipt = service.reindex_items(base.id, chosen, allow_empty=allow_empty, only_changed=changed)
        lacking = missing_hands(service, base, published=receipt.published) if receipt.root_ids else None
        if lacking:
            output.hint(f"accepted; {lacking}")
        waited = None
        if wait and receipt.root_ids:
            waited = waited_for(service, base, receipt.root_ids, output, timeout, job_id=receipt.job_id, told=lacking)

    more = {"job_id": receipt.job_id}
    again = f"indexing {counted(len(receipt.root_ids), 'item')} again; see `knowledge item list`, or use --wait"
    return _answer(output, base, receipt, lacking, waited, more, nothing="nothing to index again", begun=again)


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
    if item_ids and everything:
        raise typer.BadParameter("the ids of items and --all exclude each other: give one of them")
    if not item_ids and not everything:
        raise typer.BadParameter("give the ids of items, or --all")
    output = Output(as_json=json)
    with opened_service() as service:
        base = service.base(base_name)
        chosen = _chosen(service, base, item_ids, everything=everything)
        receipt = service.delete_items(base.id, chosen)
        lacking = missing_hands(service, base, published=receipt.published) if receipt.root_ids else None
        if lacking:
            output.hint(f"accepted; {lacking}")
        waited = None
        if wait and receipt.root_ids:
            waited = waited_for(service, base, receipt.root_ids, output, timeout, deleting=True, told=lacking)

    begun = f"deleting {counted(len(receipt.root_ids), 'item')}"
    return _answer(output, base, receipt, lacking, waited, {}, nothing="nothing to delete", begun=begun)


def _answer(
    output: Output,
    base: Base,
    receipt: "ReindexReceipt | DeleteReceipt",
    lacking: str | None,
    waited: Ended | None,
    more: Mapping[str, object],
    *,
    nothing: str,
    begun: str,
) -> ExitCode:
    """Tell what was accepted and, if it was waited for, what became of it. `more`: what this verb says beside that in JSON."""
    wire = {
        "base_id": base.id,
        "root_ids": list(receipt.root_ids),
        **more,
        "published": receipt.published,
        "warning": lacking,
        "wait": waited_object(waited) if waited else None,
    }

    def people(out: Output) -> None:
        for root_id in receipt.root_ids:
            out.line(root_id)

    output.answer(wire, people)
    if waited:
        tell_end(output, waited, base)
    elif not receipt.root_ids:
        output.hint(nothing)
    elif not lacking:
        output.hint(begun)
    return waited.exit_code if waited else ExitCode.OK


def _chosen(service: "KnowledgeService", base: Base, item_ids: Sequence[str] | None, *, everything: bool) -> list[ItemId]:
    if everything:
        return [item.id for item in all_roots(service, base.id)]
    return [ItemId(item_id) for item_id in item_ids or ()]
