"""How much of a base can be searched."""

import pytest
from sqlalchemy import update

from knowledge.catalog.coverage import coverage
from knowledge.catalog.rows import ITEM
from knowledge.model.results import Coverage
from knowledge.model.status import ItemStatus, Notice


@pytest.fixture
def base(house):
    return house.base()


def set_row(house, item, **values):
    with house.db.write() as tx:
        tx.execute(update(ITEM).where(ITEM.c.id == item.id).values(**values))


def test_each_leaf_counts_once(house, base):
    """With text, with some of it, empty, failed, and not there yet."""
    whole, partial, empty, failed, waiting = house.notes(base, "a", "b", "c", "d", "e")
    done = {"status": ItemStatus.COMPLETED}
    set_row(house, whole, **done, chunk_count=3)
    set_row(house, partial, **done, chunk_count=1, notices=[Notice.ENCODING_GUESSED, Notice.PARTIAL_TEXT])
    set_row(house, empty, **done, chunk_count=0, notices=[Notice.NO_TEXT_EXTRACTED])
    set_row(house, failed, status=ItemStatus.FAILED, error="corrupt")

    with house.db.read() as tx:
        assert Coverage(items=5, with_text=2, partial=1, without_text=1, failed=1) == coverage(tx, base.id)


def test_text_of_an_earlier_reading_counts_while_it_is_found(house, base):
    """A reindex that failed leaves the last good material in the index; what is being deleted is hidden."""
    old, gone = house.notes(base, "a", "b")
    set_row(house, old, status=ItemStatus.FAILED, error="corrupt", chunk_count=3)
    set_row(house, gone, status=ItemStatus.DELETING, chunk_count=3)

    with house.db.read() as tx:
        assert Coverage(items=1, with_text=1, partial=0, without_text=0, failed=0) == coverage(tx, base.id)


def test_containers_count_nowhere(house, base, tmp_path):
    """A folder has no text of its own."""
    (tmp_path / "folder").mkdir()
    house.add(base, tmp_path / "folder")

    with house.db.read() as tx:
        assert Coverage(items=0, with_text=0, partial=0, without_text=0, failed=0) == coverage(tx, base.id)
