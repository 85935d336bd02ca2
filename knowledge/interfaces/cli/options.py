"""Options and arguments that several commands share."""

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object; errors as JSON on stderr.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an unexpected error.")]
BaseName = Annotated[str, typer.Argument(metavar="BASE", help="Id of a base, or its name if no other has it.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until the work is done; Ctrl-C stops waiting, not the work.")]
Timeout = Annotated[
    float | None, typer.Option("--timeout", metavar="SECONDS", min=0, help="Stop waiting after this time (exit code 1).")
]


def example(*lines: str) -> str:
    """The epilog of a command's help: how it is typed."""
    return "Example: " + "   ".join(lines)
