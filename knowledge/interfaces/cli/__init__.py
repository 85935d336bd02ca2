"""The command line: nouns and verbs over `KnowledgeService`.

`main` is the console script `knowledge`. Nothing heavy is imported before a command needs it.
"""

import os
import signal
import sys

from knowledge.interfaces.cli.exits import ExitCode

__all__ = ["ExitCode", "main"]

NEEDS_SERVER = (
    "knowledge: this environment has the client library only. The commands need the server packages:\n"
    "  pip install 'knowledge-pipeline[server]', or run them from a checkout after `make setup`."
)


def main() -> None:
    """Run one command with the arguments of this process and end the process with its exit code."""
    minds = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not where Ctrl-C is to be ignored
    if minds:
        signal.signal(signal.SIGINT, _stop_at_once)  # an import that is interrupted can end in any error
    try:
        from knowledge.interfaces.cli.root import run
    except ModuleNotFoundError as missing:  # the base install is the thin client: no Typer in it
        if missing.name not in ("typer", "rich"):
            raise
        print(NEEDS_SERVER, file=sys.stderr)
        sys.exit(ExitCode.USAGE)
    if minds:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    code = run(sys.argv[1:])
    if minds:
        signal.signal(signal.SIGINT, _stop_at_once)
    sys.exit(code)


def _stop_at_once(*_: object) -> None:
    """Ctrl-C while nothing is at stake: before the command has begun, and after its end."""
    os._exit(ExitCode.STOPPED)
