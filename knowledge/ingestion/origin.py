"""Where a file or directory is, to the byte. `source` is for people and shows bytes that are not UTF-8 as U+FFFD."""

import os
from pathlib import Path
from urllib.parse import unquote_to_bytes

from knowledge.model.views import Item
from knowledge.pipeline.sources.children import PATH_BYTES_KEY
from knowledge.pipeline.sources.directory import place_of


def data_of(path: Path) -> dict[str, object]:
    """What an item must remember of a path that its `source` does not say: nothing, for most."""
    return place_of(str(path))


def path_of(item: Item) -> Path:
    """The path that the item was added from."""
    kept = item.data.get(PATH_BYTES_KEY)
    return Path(os.fsdecode(unquote_to_bytes(kept))) if isinstance(kept, str) else Path(item.source)
