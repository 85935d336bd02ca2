"""Where a directory is, to the byte. `source` is for people and shows bytes that are not UTF-8 as U+FFFD."""

import os
from pathlib import Path
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

from knowledge.model.views import Item
from knowledge.pipeline.sources.directory import shown

_KEY: Final = "path_bytes"


def data_of(path: Path) -> dict[str, object]:
    """What an item must remember of a path that its `source` does not say: nothing, for most."""
    return {} if shown(str(path)) == str(path) else {_KEY: quote_from_bytes(os.fsencode(path))}


def path_of(item: Item) -> Path:
    """The path that the item was added from."""
    kept = item.data.get(_KEY)
    return Path(os.fsdecode(unquote_to_bytes(kept))) if isinstance(kept, str) else Path(item.source)
