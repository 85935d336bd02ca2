"""Bases that have failed, as an import leaves them."""

from knowledge.catalog import bases


def fail_base(house, base, code="missing_embedding_model"):
    with house.db.write() as tx:
        bases.fail(tx, base.id, code, embedder="gone/model", dimensions=7)
