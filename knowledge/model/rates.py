"""How often something outside may be asked, by all processes together."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limit:
    """`scope` names what is asked: `host:example.com`, `reader:r.jina.ai` …"""

    scope: str
    at_once: int
    per_minute: int  #: starts in any 60 seconds
