"""The job ledger: the only writer of `knowledge_job`.

A job exists because its row was committed together with the status it explains. The broker only wakes somebody up; every
decision about running, ending or repeating a job is one compare-and-set here.

enqueueing.py   a job comes to be
window.py       which waiting jobs may have a message, and which message was lost
lease.py        claim a row, keep it, prove that it is still ours
ends.py         how the run that owns a row closes it, or puts it back
cancelling.py   how others have jobs stop
losses.py       rows whose process is gone
history.py      what may be asked, and how long it is kept
conditions.py   what the others share
"""

from knowledge.catalog.jobs.cancelling import (
    cancel_base,
    cancel_one,
    cancel_touching,
    hold,
    hurry,
    is_delete_waiting,
    revoke,
    running_in,
    running_touching,
    waiting_touching,
)
from knowledge.catalog.jobs.conditions import CANCELLED, JOB_ABANDONED, LEASE_REVOKED
from knowledge.catalog.jobs.ends import cancel, fail, finish, note, put_back
from knowledge.catalog.jobs.enqueueing import enqueue, enqueue_all, enqueue_chain
from knowledge.catalog.jobs.history import active_ids, find, get, is_backfill, last_of_item, page, prune
from knowledge.catalog.jobs.lease import Refusal, Standing, claim, claim_next, renew, require_ours, stamp_drain, standing
from knowledge.catalog.jobs.losses import close_lost, expired, loss_delay_seconds, lost_by, park_pending_of, running_on
from knowledge.catalog.jobs.window import (
    bases_with_due,
    clear_all_published,
    clear_published,
    has_due,
    published_waiting,
    take_due,
)

__all__ = [
    "CANCELLED",
    "JOB_ABANDONED",
    "LEASE_REVOKED",
    "Refusal",
    "Standing",
    "active_ids",
    "bases_with_due",
    "cancel",
    "cancel_base",
    "cancel_one",
    "cancel_touching",
    "claim",
    "claim_next",
    "clear_all_published",
    "clear_published",
    "close_lost",
    "enqueue",
    "enqueue_all",
    "enqueue_chain",
    "expired",
    "fail",
    "find",
    "finish",
    "get",
    "has_due",
    "hold",
    "hurry",
    "is_backfill",
    "is_delete_waiting",
    "last_of_item",
    "loss_delay_seconds",
    "lost_by",
    "note",
    "page",
    "park_pending_of",
    "prune",
    "published_waiting",
    "put_back",
    "renew",
    "require_ours",
    "revoke",
    "running_in",
    "running_on",
    "running_touching",
    "stamp_drain",
    "standing",
    "take_due",
    "waiting_touching",
]
