"""What is made of the counts while accepted work settles."""

import pytest

from knowledge.model.results import StatusCounts
from knowledge.model.status import ItemStatus
from knowledge.settling import share_done

COMPLETED, FAILED, READING = ItemStatus.COMPLETED, ItemStatus.FAILED, ItemStatus.READING
PREPARING, DELETING = ItemStatus.PREPARING, ItemStatus.DELETING


@pytest.mark.parametrize(
    ("expected", "counts", "most"),
    [
        (0.5, StatusCounts({COMPLETED: 1, FAILED: 1, READING: 2}, {}), 4),
        (0.0, StatusCounts({}, {PREPARING: 1}), 1),
        (0.75, StatusCounts({DELETING: 1}, {}), 4),
        (1.0, StatusCounts({}, {}), 4),
        (0.0, StatusCounts({}, {FAILED: 1}), 1),
    ],
)
def test_percent_is_by_work_done(expected, counts, most):
    """Indexing counts leaves that ended; a delete counts rows that are gone; an unexpanded directory is no progress."""
    assert expected == share_done(counts, most)
