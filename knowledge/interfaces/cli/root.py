"""All commands under one name, and what becomes of their errors."""

import logging
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

import typer

from knowledge.errors import KnowledgeError
from knowledge.interfaces.cli import bases, extracting, groups, house, items, jobs, life, searching, streams
from knowledge.interfaces.cli.application import NoApplication
from knowledge.interfaces.cli.exits import ExitCode
from knowledge.interfaces.cli.failure import refuse, refuse_known, refuse_unknown

app = typer.Typer(
    name="knowledge",
    help="Bases of files, directories and notes: indexed by workers, searched with citations.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help: fast, and the same in a pipe
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(bases.app, name="base")
life.register(bases.app)
app.add_typer(groups.app, name="group")
app.add_typer(items.app, name="item")
app.command("search", epilog=searching.EXAMPLE)(searching.search)
app.command("extract", epilog=extracting.EXAMPLE)(extracting.extract)
app.add_typer(jobs.app, name="jobs")
house.register(app)


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False) -> None:
    if version:
        from importlib.metadata import version as installed

        print(f"knowledge {installed('knowledge-pipeline')}")
        raise typer.Exit(ExitCode.OK)


def run(arguments: Sequence[str]) -> int:
    """Run one command; its exit code. Every error has been printed when this returns."""
    given = _options(arguments)
    as_json, debug = "--json" in given, "--debug" in given
    streams.mend()
    logging.getLogger("knowledge").addHandler(logging.NullHandler())  # what people must know a command says itself, once
    try:
        code = _code(app(list(arguments), prog_name="knowledge", standalone_mode=False))
        sys.stdout.flush()  # here, where an error can still be told
        return code
    except typer.TyperException as wrong:
        return _refuse_usage(wrong, as_json=as_json)
    except NoApplication as missing:
        refuse("no_application", str(missing), as_json=as_json)
        return ExitCode.USAGE
    except KnowledgeError as error:
        refuse_known(error, as_json=as_json)
        return ExitCode.FAILED
    except (typer.Abort, KeyboardInterrupt):
        refuse("stopped", "stopped", as_json=as_json)
        return ExitCode.STOPPED
    except BrokenPipeError:  # `| head` has read enough
        return ExitCode.OK
    except Exception as error:
        return _refuse_other(error, as_json=as_json, debug=debug)
    finally:
        streams.let_go()


def _code(outcome: Any) -> int:
    """Commands return an `ExitCode`; what Typer ends by itself (help, version) returns a number or nothing."""
    return int(outcome) if isinstance(outcome, int) else ExitCode.OK


def _refuse_other(error: Exception, *, as_json: bool, debug: bool) -> ExitCode:
    with suppress(OSError):  # stderr may be as full as stdout
        if isinstance(error, OSError) and streams.is_full(error):
            refuse("output", f"the answer could not be written: {error.strerror}", as_json=as_json)
        else:
            refuse_unknown(error, as_json=as_json, debug=debug)
    return ExitCode.FAILED


def _options(arguments: Sequence[str]) -> frozenset[str]:
    words = list(arguments)
    return frozenset(words[: words.index("--")] if "--" in words else words)


def _refuse_usage(wrong: typer.TyperException, *, as_json: bool) -> ExitCode:
    wrong.message = wrong.message.removeprefix("Value error, ")  # where the complaint comes from means nothing to a person
    if as_json:
        refuse("usage", wrong.format_message(), as_json=True)
    elif hasattr(wrong, "show"):
        wrong.show()
    else:
        refuse("usage", wrong.format_message(), as_json=False)
    return ExitCode(wrong.exit_code)
