"""The command line: nouns and verbs over `KnowledgeService`.

`main` is the console script `knowledge`. Nothing heavy is imported before a command needs it.
"""

import sys

from knowledge.interfaces.cli.exits import ExitCode

__all__ = ["ExitCode", "main"]

NEEDS_SERVER = (
    "knowledge: this environment has the client library only. The commands need the server packages:\n"
    "  pip install 'knowledge-pipeline[server]', or run them from a checkout after `make setup`."
)


def main() -> None:
    """Run one command with the arguments of this process and end the process with its exit code."""
    try:
        from knowledge.interfaces.cli.root import run
    except ModuleNotFoundError as missing:  # the base install is the thin client: no Typer in it
        if missing.name not in ("typer", "rich"):
            raise
        print(NEEDS_SERVER, file=sys.stderr)
        sys.exit(ExitCode.USAGE)
    except KeyboardInterrupt:  # while it was still loading
        sys.exit(ExitCode.STOPPED)
    sys.exit(run(sys.argv[1:]))
