"""A base, a folder of documents, and a paid embedder on HTTP."""

import pytest


@pytest.fixture
def base(house):
    return house.base()


@pytest.fixture
def docs(tmp_path):
    """docs/{a.md, inner/{b.md, deep/c.md}}"""
    docs = tmp_path / "docs"
    (docs / "inner" / "deep").mkdir(parents=True)
    (docs / "a.md").write_text("The lighthouse stands on the northern rock.")
    (docs / "inner" / "b.md").write_text("The fog signal sounds every ninety seconds.")
    (docs / "inner" / "deep" / "c.md").write_text("The keeper writes the log at midnight.")
    return docs
