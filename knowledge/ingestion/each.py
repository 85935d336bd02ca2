"""Upkeep of many bases, one after the other."""

import logging
from collections.abc import Callable, Iterable

from knowledge.errors import KnowledgeError
from knowledge.model.ids import BaseId

log = logging.getLogger(__name__)


def each_base(base_ids: Iterable[str], step: Callable[[BaseId], object]) -> None:
    """One base whose disk fails, that is busy, or whose name is none, must not keep the others waiting."""
    for base_id in base_ids:
        try:
            step(BaseId(base_id))
        except Exception as error:  # whatever it is, the next round tries again
            code = error.code if isinstance(error, KnowledgeError) else type(error).__name__
            extra = {"base": base_id, "code": code, "reason": str(error)}
            log.warning("base left to the next round", extra=extra, exc_info=not isinstance(error, KnowledgeError))
