"""A short run of the model: `python -m tests.chaos.model` makes the long one."""

import os

from tests.chaos.model import explore


def test_no_order_of_moves_and_deaths_breaks_a_promise():
    """Hundred random sequences of fifty moves each, then peace, then everything is right."""
    report = explore(
        sequences=int(os.environ.get("CHAOS_SEQUENCES", "100")), seed=int(os.environ.get("CHAOS_SEED", "7")), processes=2
    )

    assert report.failure is None, report.failure
    assert report.deaths.total() > report.sequences
