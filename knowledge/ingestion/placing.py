"""Bytes that go into raw/ together with their rows, or not at all."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from knowledge.catalog import paths
from knowledge.db.engine import Tx
from knowledge.errors import KnowledgeError
from knowledge.model.ids import BaseId, ItemId
from knowledge.runtime import Runtime

log = logging.getLogger(__name__)


@contextmanager
def placing(rt: Runtime, base_id: BaseId) -> Iterator[list[str]]:
    """A list for the paths that the block publishes; if it raises, they are removed again. The base lock must be held.

    Goes around the transaction, so that a commit that fails counts as well. The error of the block is the one that is seen;
    hourly tidying finds what could not be removed.
    """
    placed: list[str] = []
    try:
        yield placed
    except BaseException:
        try:
            rt.files.remove(base_id, placed)
        except KnowledgeError as error:
            log.warning(
                "bytes of a failed commit not removed", extra={"base": base_id, "files": len(placed), "code": error.code}
            )
        raise


def free_path(
    rt: Runtime, tx: Tx, base_id: BaseId, item_id: ItemId, name: str, *, folder: str = "", directory: bool = False
) -> str:
    """A path that is this item's now and that the disk does not hold either.

    A leftover of a crash is stepped over; hourly tidying removes it.

    Args:
        folder: path of the container that the item lies in; empty for the top.
    """
    path = paths.reserve(tx, base_id, item_id, name, folder=folder, directory=directory)
    while rt.files.exists(base_id, path):
        path = paths.reserve(tx, base_id, item_id, name, folder=folder, directory=directory)
    return path
