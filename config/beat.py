"""What runs by the clock. Messages expire after their interval, so stopped workers do not find hundreds of them."""

from datetime import timedelta
from typing import Any

from knowledge.topology import DUE_TICK, EXCHANGE, RECOVERY, UPKEEP_KEY


def schedule(sweep: timedelta, tick: timedelta) -> dict[str, dict[str, Any]]:
    """The beat schedule: the search for lost work, and the look for jobs that have become due."""
    return {
        name: {
            "task": name,
            "schedule": every,
            "options": {"expires": every.total_seconds(), "exchange": EXCHANGE, "routing_key": UPKEEP_KEY},
        }
        for name, every in ((RECOVERY, sweep), (DUE_TICK, tick))
    }
