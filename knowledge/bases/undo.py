"""Take back a base that could not be made whole."""

import logging
from contextlib import suppress

from knowledge.catalog import bases, items, jobs
from knowledge.errors import BaseNotFound, KnowledgeError
from knowledge.ingestion.purge import purge_base, purge_remains
from knowledge.model.views import Base
from knowledge.runtime import Runtime

log = logging.getLogger(__name__)


def undo(rt: Runtime, made: Base, error: BaseException) -> bool:
    """Best effort: the error that led here is the one the caller must see. False if the base is still there; it is named then.

    It stays if somebody has put something into it meanwhile: it was to be seen all the time. One that is marked and could not
    be removed now is removed by recovery.
    """
    try:
        with rt.locks.base(made.id), rt.db.write(durable=True) as tx:
            bases.get(tx, made.id, include_deleting=True)
            is_taken = bool(items.roots(tx, made.id))
            if not is_taken:
                bases.mark_deleting(tx, made.id)
                jobs.cancel_base(tx, made.id)
        if not is_taken:
            purge_base(rt, made.id)
            return True
        log.warning("half-made base kept, somebody uses it", extra={"base": made.id})
    except BaseNotFound:  # somebody else has deleted it; bytes may have come after
        with suppress(KnowledgeError):
            purge_remains(rt, made.id)
        return True
    except Exception as second:  # logged; the caller raises the first one
        code = second.code if isinstance(second, KnowledgeError) else "internal_error"
        log.error("half-made base left", extra={"base": made.id, "code": code}, exc_info=True)
    if isinstance(error, KnowledgeError):
        error.details.setdefault("base_id", made.id)
    return False
