"""An index whose files may not be written to for a while: whoever met that writes again when they may."""

from contextlib import suppress

import pytest

from knowledge.errors import KnowledgeError
from tests.contracts.leaves import plain_leaf
from tests.modes import modes_bind_us


@pytest.mark.parametrize("which", ["files", "folder", "all"])
@pytest.mark.parametrize("mode", [0o400, 0o000])
@pytest.mark.parametrize("first", ["reading", "writing"])
def test_connection_that_was_opened_meanwhile_is_not_kept(stores, mode, first, which):
    """SQLite opens what it may only read for reading, and leaves it at that for as long as the connection lives."""
    store = stores.create("shut", None)
    store.rebuild_material(plain_leaf("a", "the lamp"))
    store.rest()
    folder = store.path.parent
    files = [path for path in folder.iterdir() if path.is_file()]
    with modes_bind_us():
        for path in files if which != "folder" else []:
            path.chmod(mode)
        if which != "files":
            folder.chmod(mode | (0o100 if mode else 0))
        with suppress(KnowledgeError):
            store.counts() if first == "reading" else store.rebuild_material(plain_leaf("b", "the rock"))
        folder.chmod(0o700)
        for path in folder.iterdir():
            path.chmod(0o600)

        store.rebuild_material(plain_leaf("c", "the fog"))

    assert {"a", "c"} <= set(store.item_ids())
