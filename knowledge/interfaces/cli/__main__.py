"""`python -m knowledge.interfaces.cli`: the same as the console script, for environments without it."""

from knowledge.interfaces.cli import main

main()
