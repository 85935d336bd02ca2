"""Where an item came from, to the byte, and who may have it read again.

`source` is for people and shows bytes that are not UTF-8 as U+FFFD. What a client brought in stays confined to the import
roots, whoever asks for it later: else it could name a file now that the owner of the host reads for it at the next reindex.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

from knowledge.files.reach import Reach
from knowledge.model.jobs import Job
from knowledge.model.views import Item
from knowledge.pipeline.sources.directory import shown
from knowledge.runtime import Runtime

_BYTES: Final = "path_bytes"
_CONFINED: Final = "confined"


def data_of(path: Path, *, confined: bool = False) -> dict[str, object]:
    """What an item must remember of a path that its `source` does not say: nothing, for most."""
    data: dict[str, object] = {}
    if shown(str(path)) != str(path):
        data[_BYTES] = quote_from_bytes(os.fsencode(path))
    return confined_data(data) if confined else data


def confined_data(data: Mapping[str, object]) -> dict[str, object]:
    """An item's data when a client brings it in, whatever they say themselves."""
    return {**data, _CONFINED: True}


def is_confined(item: Item) -> bool:
    return bool(item.data.get(_CONFINED))


def kept(item: Item) -> dict[str, object]:
    """The same for the copy of an item in another base."""
    return data_of(path_of(item), confined=is_confined(item))


def path_of(item: Item) -> Path:
    """The path that the item was added from."""
    kept = item.data.get(_BYTES)
    return Path(os.fsdecode(unquote_to_bytes(kept))) if isinstance(kept, str) else Path(item.source)


def reach_of(rt: Runtime, item: Item, job: Job | None = None) -> Reach:
    """How far the item's source may be looked for: that of the caller, the item and the job, whichever ends first."""
    confined = is_confined(item) or (job is not None and bool(job.input.get(_CONFINED)))
    return Reach(rt.options.import_roots) if confined else rt.reach
