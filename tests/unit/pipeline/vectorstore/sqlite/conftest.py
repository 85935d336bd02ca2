from collections.abc import Iterator

import pytest

from knowledge.pipeline.vectorstore.sqlite import SqliteIndexStores


@pytest.fixture
def stores(tmp_path) -> Iterator[SqliteIndexStores]:
    stores = SqliteIndexStores(lambda base_id: tmp_path / base_id / ".knowledge" / "index.sqlite", busy_timeout_seconds=10)
    yield stores
    stores.close()
