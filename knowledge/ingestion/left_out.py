"""What an expansion did not take: counted by reason, named up to a limit."""

from collections import Counter
from typing import Final

from knowledge.model.skip_reason import EXPECTED, SkipReason
from knowledge.model.status import Notice

NAMED: Final = 1_000  #: entries that are kept with their names


class LeftOut:
    def __init__(self) -> None:
        self._reasons: Counter[str] = Counter()
        self._named: list[dict[str, str]] = []

    def add(self, relative: str, reason: str) -> None:
        """Hidden entries are counted and not named: there are many, and nobody asks for them."""
        self._reasons[str(reason)] += 1
        if reason != SkipReason.HIDDEN and len(self._named) < NAMED:
            self._named.append({"path": relative, "reason": str(reason)})

    @property
    def reasons(self) -> dict[str, int]:
        """How many for each reason."""
        return dict(self._reasons)

    @property
    def stored(self) -> dict[str, object] | None:
        """As the item keeps it; None if everything was taken."""
        if not self._reasons:
            return None
        return {"count": self._reasons.total(), "reasons": self.reasons, "sample": self._named}

    @property
    def notices(self) -> set[Notice]:
        return set() if self._reasons.keys() <= EXPECTED else {Notice.FILES_SKIPPED}
