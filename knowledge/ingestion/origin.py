"""Where an item came from, to the byte, and who may have it read again.

`source` is for people and shows bytes that are not UTF-8 as U+FFFD. What a client brought in stays confined to the import
roots, whoever asks for it later: else it could name a file now that the owner of the host reads for it at the next reindex.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote_to_bytes

from knowledge.files.reach import Reach
from knowledge.model.item_data import DataKey
from knowledge.model.jobs import Job
from knowledge.model.status import ItemType
from knowledge.model.views import Item
from knowledge.pipeline.sources.archive import member_of
from knowledge.pipeline.sources.directory import place_of
from knowledge.runtime import Runtime

_ON_HOST: Final = frozenset({ItemType.FILE, ItemType.DIRECTORY, ItemType.ARCHIVE})


def data_of(path: Path, *, confined: bool = False) -> dict[str, object]:
    """What an item must remember of a path that its `source` does not say: nothing, for most."""
    data = place_of(str(path))
    return confined_data(data) if confined else data


def confined_data(data: Mapping[str, object]) -> dict[str, object]:
    """An item's data when a client brings it in, whatever they say themselves."""
    return {**data, DataKey.CONFINED: True}


def is_confined(item: Item) -> bool:
    return bool(item.data.get(DataKey.CONFINED))


def kept(item: Item) -> dict[str, object]:
    """The same for the copy of an item in another base."""
    return data_of(path_of(item), confined=is_confined(item))


def path_of(item: Item) -> Path:
    """The path that the item was added from."""
    kept = item.data.get(DataKey.PATH_BYTES)
    return Path(os.fsdecode(unquote_to_bytes(kept))) if isinstance(kept, str) else Path(item.source)


def read_from(item: Item) -> Path | None:
    """The file or folder of the host that is read to get an item again; of what came out of an archive, the archive.

    None for what is not read from the host: notes, and what lies behind an address.
    """
    if (place := member_of(item.data)) is not None:
        return place[0]
    return path_of(item) if item.type in _ON_HOST else None


def reach_of(rt: Runtime, item: Item, job: Job | None = None) -> Reach:
    """How far the item's source may be looked for: that of the caller, the item and the job, whichever ends first."""
    confined = is_confined(item) or (job is not None and bool(job.input.get("confined")))
    return Reach(rt.options.import_roots) if confined else rt.reach
