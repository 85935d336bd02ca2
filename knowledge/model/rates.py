"""How often something outside may be asked, by all processes together."""

from dataclasses import dataclass
from typing import Final

HANGING: Final = "hanging "  #: the scope of all that hangs together, and the beginning of that of one of them
PAGES: Final = "pages:"  #: begins what stands for the pages of one base, when they hang
NO_PLACE: Final = "rate_limited"  #: why a job waits: what it would ask is asked as often as it may be
SCOPE: Final = "scope"  #: in the detail of such a job: what that is
SINCE: Final = "waiting_since"  #: in the same place: since when servers have put it off, if they have


@dataclass(frozen=True, slots=True)
class Limit:
    """`scope` names what is asked, `host:example.com`, `reader:r.jina.ai` …"""

    scope: str
    at_once: int
    per_minute: int  #: starts in any 60 seconds
