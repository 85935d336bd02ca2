"""A Procfile: `name: command` a line, as foreman and honcho read it, plus `release`, which runs once before the others."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

RELEASE: Final = "release"
BROKER: Final = "broker"  #: not started when a broker URL is set

_LINE: Final = re.compile(r"^(?P<name>[A-Za-z0-9_-]+):\s*(?P<command>\S.*)$")


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    command: str

    @property
    def node(self) -> str | None:
        """Name of the Celery worker that this line starts, `%h` still in it; None if it starts something else."""
        words = shlex.split(self.command)
        if "worker" not in words or not any(word.endswith("celery") for word in words):
            return None
        for flag in ("-n", "--hostname"):
            if flag in words[:-1]:
                return words[words.index(flag) + 1]
        return "celery@%h"


def parse(path: Path) -> Mapping[str, Line]:
    """Every line by its name, in the order of the file.

    Raises:
        ValueError: a line is neither `name: command`, a comment, nor empty, or a name comes twice.
    """
    lines: dict[str, Line] = {}
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not text.strip() or text.startswith("#"):
            continue
        match = _LINE.match(text)
        if match is None or match["name"] in lines:
            raise ValueError(f"{path}:{number}: expected a new `name: command`")
        lines[match["name"]] = Line(name=match["name"], command=match["command"].strip())
    return lines
