"""The SQLite index store keeps the contract."""

import pytest

from tests.contracts.index_store import IndexStoreContract


class TestSqliteIndexStore(IndexStoreContract):
    @pytest.fixture
    def stores(self, tmp_path):
        from knowledge.pipeline.vectorstore.sqlite import SqliteIndexStores

        stores = SqliteIndexStores(lambda base_id: tmp_path / base_id / "index.sqlite", busy_timeout_seconds=10)
        yield stores
        stores.close()
