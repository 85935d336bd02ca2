"""Options and arguments that several commands share."""

from typing import Annotated

import typer


def text(value: str | None) -> str | None:
    """Callback of options and arguments that are text: refuses bytes that are not valid in the locale's encoding."""
    if value is not None and any("\ud800" <= character <= "\udfff" for character in value):
        raise typer.BadParameter("this is not valid text")
    return value


def texts(values: list[str] | None) -> list[str] | None:
    for value in values or ():
        text(value)
    return values


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object; errors as JSON on stderr.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an unexpected error.")]
BaseName = Annotated[str, typer.Argument(metavar="BASE", callback=text, help="Id of a base, or its name if no other has it.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until the work is done; Ctrl-C stops waiting, not the work.")]
Timeout = Annotated[
    float | None, typer.Option("--timeout", metavar="SECONDS", min=0, help="Stop waiting after this time (exit code 1).")
]


def example(*lines: str) -> str:
    """The epilog of a command's help: how it is typed."""
    return "Example: " + "   ".join(lines)
