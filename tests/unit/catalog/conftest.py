"""An empty catalogue and one transaction on it."""

import pytest

from knowledge.catalog.rows import METADATA
from knowledge.db.engine import Database


@pytest.fixture
def db(tmp_path):
    db = Database(f"sqlite:///{tmp_path / 'rows.sqlite'}", busy_timeout_seconds=1)
    with db.write() as tx:
        METADATA.create_all(tx)
    yield db
    db.dispose()


@pytest.fixture
def tx(db):
    """One open write transaction."""
    with db.write() as tx:
        yield tx
