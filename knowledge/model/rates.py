"""How often something outside may be asked, by all processes together."""

from dataclasses import dataclass
from typing import Final

PAGES: Final = "pages:"  #: begins the scope of what one base fetches at once
HANGING: Final = "hanging "  #: the scope of all that hangs together, and the beginning of that of one of them


@dataclass(frozen=True, slots=True)
class Limit:
    """`scope` names what is asked, `host:example.com`, `reader:r.jina.ai` …, or who asks, `pages:` and a base."""

    scope: str
    at_once: int
    per_minute: int  #: starts in any 60 seconds
