"""Options and arguments that several commands share."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from pydantic import BaseModel

Model = TypeVar("Model", bound="BaseModel")


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
ItemName = Annotated[str, typer.Argument(metavar="ITEM", callback=text, help="Id of an item.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until the work is done; Ctrl-C stops waiting, not the work.")]
Timeout = Annotated[
    float | None, typer.Option("--timeout", metavar="SECONDS", min=0, help="Stop waiting after this time (exit code 1).")
]


def require_wait(wait: bool, timeout: float | None) -> None:
    """A time to wait is nothing without the wish to wait: it would be ignored."""
    if timeout is not None and not wait:
        raise typer.BadParameter("--timeout belongs to --wait: without it nothing is waited for")


def given(**values: Any) -> dict[str, Any]:
    """What was given on the command line; a model's own defaults hold for the rest, so that they are written down once."""
    return {name: value for name, value in values.items() if value is not None}


def checked(model: type[Model], values: Mapping[str, Any]) -> Model:
    """The input that these values make; what is wrong with them is a usage error."""
    from pydantic import ValidationError

    try:
        return model(**values)
    except ValidationError as wrong:
        raise typer.BadParameter("; ".join(_complaint(error) for error in wrong.errors())) from None


def _complaint(error: Any) -> str:
    where = ".".join(str(part) for part in error["loc"])
    what = str(error["msg"]).removeprefix("Value error, ")
    what = what[:1].lower() + what[1:]
    return f"{where}: {what}" if where else what


def example(*lines: str) -> str:
    """The epilog of a command's help: how it is typed."""
    return "Example: " + "   ".join(lines)
