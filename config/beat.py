"""What runs by the clock. Messages expire after their interval, so stopped workers do not find hundreds of them."""

from datetime import timedelta
from typing import Any, Final

from knowledge.topology import DUE_TICK, EXCHANGE, RECOVERY, TIDY, UPKEEP_KEY

TIDY_EVERY: Final = timedelta(hours=1)


def schedule(sweep: timedelta, tick: timedelta) -> dict[str, dict[str, Any]]:
    """The beat schedule: the search for lost work, the look for jobs that have become due, and hourly tidying."""
    return {
        name: {
            "task": name,
            "schedule": every,
            "options": {"expires": every.total_seconds(), "exchange": EXCHANGE, "routing_key": UPKEEP_KEY},
        }
        for name, every in ((RECOVERY, sweep), (DUE_TICK, tick), (TIDY, TIDY_EVERY))
    }
