"""Hourly tidying: bytes that no row names, left behind by processes that died between the disk and the catalogue, and text that
was taken out of an index and is not yet wiped.

Looking needs no lock. What looks abandoned and is older than an hour is looked at again under the base lock, where no commit is
under way, and then removed. Copies that were never placed go when the process that made them is gone, or after a day.
"""

import logging
from functools import partial
from typing import Final

from knowledge import clock
from knowledge.catalog import bases, items
from knowledge.ingestion.each import each_base
from knowledge.ingestion.purge import purge_remains
from knowledge.ingestion.wipe import wipe
from knowledge.model.ids import BaseId
from knowledge.runtime import Runtime

log = logging.getLogger(__name__)

ABANDONED_SECONDS: Final = 3600.0
STAGED_SECONDS: Final = 86_400.0  #: an import or restore may copy for hours before it commits


def tidy(rt: Runtime) -> bool:
    """One round over all bases. False if another process is at it."""
    with rt.locks.single_flight("tidy") as is_mine:
        if is_mine:
            each_base({*rt.files.base_ids(), *rt.locks.base_ids()}, partial(_tidy_base, rt))
            with rt.db.read() as tx:
                known = bases.ids(tx)
            each_base(known, partial(wipe, rt, whole=True))
            rt.db.wipe(whole=True)
        return is_mine


def _tidy_base(rt: Runtime, base_id: BaseId) -> None:
    with rt.db.read() as tx:
        is_known = base_id in bases.ids(tx)
    if not is_known:
        if purge_remains(rt, base_id):
            log.warning("remains of a deleted base removed", extra={"base": base_id})
        return
    discard_leftovers(rt, base_id)
    if not _unnamed(rt, base_id) and not rt.files.empty_folders(base_id):
        return
    with rt.locks.base(base_id):  # whoever makes a folder for a file holds it too, so an empty one is a leftover
        found = _unnamed(rt, base_id)
        rt.files.remove(base_id, found)
        rt.files.remove_empty(base_id, rt.files.empty_folders(base_id))
    log.warning("files that no item owns removed", extra={"base": base_id, "files": len(found)})


def discard_leftovers(rt: Runtime, base_id: BaseId) -> None:
    """Remove copies that will never be placed."""
    rt.files.discard(rt.files.leftovers(base_id, STAGED_SECONDS))


def _unnamed(rt: Runtime, base_id: BaseId) -> list[str]:
    """Files below raw/ that are old and that no row names."""
    with rt.db.read() as tx:
        named = items.stored_paths(tx, base_id)
    limit = clock.seconds() - ABANDONED_SECONDS
    return [path for path, changed_at in rt.files.listing(base_id) if changed_at <= limit and path not in named]
