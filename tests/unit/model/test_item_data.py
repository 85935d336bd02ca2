"""One vocabulary for what an item's `data` holds."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import knowledge

MODULES = Path(knowledge.__file__).parent


def spelled(source: str) -> Iterator[str]:
    """Keys of something called `data` that a module writes as they are: read from it, set in it, or given when it is made."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Subscript(value=ast.Name("data") | ast.Attribute(attr="data"), slice=ast.Constant(str(key))):
                yield key
            case ast.Call(
                func=ast.Attribute(value=ast.Name("data") | ast.Attribute(attr="data"), attr="get"),
                args=[ast.Constant(str(key)), *_],
            ):
                yield key
            case ast.Call(func=ast.Attribute(attr="set_data"), keywords=given):
                yield from (one.arg for one in given if one.arg is not None)
            case ast.keyword(arg="data", value=ast.Dict(keys=keys)):
                yield from (key.value for key in keys if isinstance(key, ast.Constant))


@pytest.mark.parametrize(
    "source", ['item.data["size"]', 'data.get("size", 0)', "items.set_data(tx, i, size=1)", 'NewItem(i, data={"size": 1})']
)
def test_a_spelled_key_is_found(source):
    """Or the next test would prove nothing."""
    assert ["size"] == list(spelled(source))


def test_no_module_spells_a_key_of_an_items_data_itself():
    """What one module writes under a name and another reads under a name of its own would be lost in silence."""
    found = {str(path): keys for path in MODULES.rglob("*.py") if (keys := list(spelled(path.read_text(encoding="utf-8"))))}

    assert {} == found
