"""knowledge extract: the text of files, without a base."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from knowledge.interfaces.cli.exits import ExitCode
from knowledge.interfaces.cli.failure import refuse_known
from knowledge.interfaces.cli.options import Debug, example, text
from knowledge.interfaces.cli.output import Output, counted
from knowledge.interfaces.cli.quality import pages
from knowledge.interfaces.cli.shapes import extracted_object

if TYPE_CHECKING:
    from knowledge.extraction import Extracted

EXAMPLE: Final = example("knowledge extract ~/Documents --types pdf,docx --json")
MAX_JOBS: Final = 64


def extract(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files and directories.")],
    types: Annotated[
        str | None,
        typer.Option("--types", metavar="LIST", callback=text, help="Only files of these suffixes, such as pdf,docx."),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, max=MAX_JOBS, help="Files read at the same time.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a file, on a line of its own.")] = False,
    debug: Debug = False,
) -> ExitCode:
    """Print the text of files. Needs no base and no running service; nothing is stored."""
    from knowledge.extraction import extract as extracted

    output = Output(as_json=json)
    read = failed = 0
    for one in extracted(paths, types=types.split(",") if types else None, jobs=jobs):
        read, failed = read + (one.error is None), failed + (one.error is not None)
        if json:
            output.object(extracted_object(one))
        else:
            _print(output, one)
    if not read and not failed:
        output.hint("no files")
    elif failed and not json:
        output.hint(f"{counted(read, 'file')} read, {failed} not")
    if not failed:
        return ExitCode.OK
    return ExitCode.PARTIAL if read else ExitCode.FAILED


def _print(out: Output, one: "Extracted") -> None:
    """A heading and the text; what a terminal would take for commands is shown in escaped form."""
    if one.error is not None:
        reason = one.error.details.get("reason")
        refuse_known(type(one.error)(f"{one.file}: {one.error}{f' {reason}.' if reason else ''}"), as_json=False)
        return
    assert one.read is not None
    quality = one.read.quality
    parts = [quality.reader or "", pages(quality), counted(quality.characters, "character"), *sorted(one.read.notices)]
    out.styled(f"== {one.file} ({', '.join(filter(None, parts))})", "bold")
    for line in one.text.splitlines():
        out.line(line.expandtabs())
    out.line()
