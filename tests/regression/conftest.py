"""A base, a folder of documents, and a paid embedder on HTTP that counts."""

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


@pytest.fixture
def root(house, base, docs):
    """The directory of `docs`, completely indexed."""
    (root,) = house.add(base, docs)
    house.work()
    return house.item(root)


@pytest.fixture
def paid_house(make_house, paid_spec):
    """A house whose second embedder, `paid`, costs money."""
    return make_house(paid_spec)


@pytest.fixture
def write(tmp_path):
    """Writes a file and gives its path: `write("in/x.md", "text")`."""

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write
