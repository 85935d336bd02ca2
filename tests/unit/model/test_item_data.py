"""One vocabulary for what an item's `data` holds."""

import re
from pathlib import Path

import knowledge

_BARE = re.compile(r"\bdata(?:\.get\(|\[)\s*[\"']")


def test_no_module_spells_a_key_of_an_items_data_itself():
    """What one module writes under a name and another reads under a name of its own would be lost in silence."""
    modules = sorted(Path(knowledge.__file__).parent.rglob("*.py"))

    assert [] == [str(path) for path in modules if _BARE.search(path.read_text(encoding="utf-8"))]
