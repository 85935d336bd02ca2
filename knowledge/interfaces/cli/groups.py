"""knowledge group create | list | rename | delete"""

from typing import TYPE_CHECKING, Annotated

import typer

from knowledge.errors import GroupNotFound, InvalidInput
from knowledge.interfaces.cli.application import opened_service
from knowledge.interfaces.cli.exits import ExitCode
from knowledge.interfaces.cli.namesakes import tell_of_groups
from knowledge.interfaces.cli.options import Debug, Json, example, text
from knowledge.interfaces.cli.output import Output
from knowledge.interfaces.cli.shapes import group_object, list_object

if TYPE_CHECKING:
    from knowledge.service import KnowledgeService

app = typer.Typer(help="Names that bases are listed under.", no_args_is_help=True)

GroupName = Annotated[
    str, typer.Argument(metavar="GROUP", callback=text, help="Id of a group, or its name if no other has it.")
]
NewName = Annotated[str, typer.Argument(metavar="NAME", callback=text, help="What people call it; need not be unique.")]


@app.command("create", epilog=example("knowledge group create projects"))
def create(name: NewName, json: Json = False, debug: Debug = False) -> ExitCode:
    """Create a group."""
    output = Output(as_json=json)
    with opened_service(founds=True) as service:
        group = service.create_group(name)
        output.answer(group_object(group), lambda out: out.record({"id": group.id, "name": group.name}))
        tell_of_groups(output, service, group)

    return ExitCode.OK


@app.command("list", epilog=example("knowledge group list"))
def list_groups(json: Json = False, debug: Debug = False) -> ExitCode:
    """List groups by name."""
    with opened_service() as service:
        groups = service.list_groups()

    output = Output(as_json=json)
    wire = list_object("groups", [group_object(group) for group in groups])
    output.answer(wire, lambda out: out.table(("ID", "NAME"), [(group.id, group.name) for group in groups]))
    if not groups:
        output.hint("no groups yet: create one with `knowledge group create NAME`")
    return ExitCode.OK


@app.command("rename", epilog=example("knowledge group rename projects archive"))
def rename(group_name: GroupName, name: NewName, json: Json = False, debug: Debug = False) -> ExitCode:
    """Give a group another name."""
    output = Output(as_json=json)
    with opened_service() as service:
        group = service.rename_group(group_id(service, group_name), name)
        output.answer(group_object(group), lambda out: out.record({"id": group.id, "name": group.name}))
        tell_of_groups(output, service, group)

    return ExitCode.OK


@app.command("delete", epilog=example("knowledge group delete archive"))
def delete(group_name: GroupName, json: Json = False, debug: Debug = False) -> ExitCode:
    """Delete a group; its bases stay and are ungrouped."""
    with opened_service() as service:
        chosen = group_id(service, group_name)
        service.delete_group(chosen)

    Output(as_json=json).answer({"group_id": chosen, "deleted": True}, lambda out: out.line(f"deleted {chosen}"))
    return ExitCode.OK


def group_id(service: "KnowledgeService", id_or_name: str) -> str:
    """The id of the group with this id, else of the only one with this name.

    Raises:
        GroupNotFound: none has it. InvalidInput: several groups have this name.
    """
    groups = service.list_groups()
    if any(group.id == id_or_name for group in groups):
        return id_or_name
    named = [group.id for group in groups if group.name == id_or_name]
    if not named:
        raise GroupNotFound("There is no group with this id or name.", group=id_or_name)
    if len(named) > 1:
        raise InvalidInput("Several groups have this name; use the id.", name=id_or_name, ids=named)
    return named[0]
