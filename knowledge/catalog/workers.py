"""Worker processes that tell of themselves; who has been silent for long is not there."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from sqlalchemy import select

from knowledge.catalog.rows import WORKER
from knowledge.db.columns import utc_now
from knowledge.db.engine import Tx
from knowledge.db.sql import upsert
from knowledge.model.jobs import Owner
from knowledge.model.results import WorkerView

HEARTBEAT_SECONDS: Final = 5.0
ALIVE_SECONDS: Final = 15.0  #: three heartbeats
_FORGET_AFTER: Final = timedelta(days=1)


def beat(tx: Tx, name: str, owner: Owner, queues: Sequence[str], broker_run_id: str | None) -> str | None:
    """Say that this worker lives. Returns the broker run id it had said before.

    Args:
        broker_run_id: None if the broker does not answer; the one said before is kept, so that its return is no new start.
    """
    before: str | None = tx.scalar(select(WORKER.c.broker_run_id).where(WORKER.c.name == name))
    upsert(
        tx,
        WORKER,
        ["name"],
        {
            "name": name,
            "host": owner.host,
            "pid": owner.pid,
            "started": owner.started,
            "queues": list(queues),
            "broker_run_id": broker_run_id or before,
            "heartbeat_at": utc_now(),
        },
    )
    return before


def others(tx: Tx, name: str, within_seconds: float) -> list[Owner]:
    """Workers of another name that were heard of lately."""
    rows = tx.execute(
        select(WORKER).where(WORKER.c.name != name, WORKER.c.heartbeat_at > utc_now() - timedelta(seconds=within_seconds))
    )
    return [Owner(row.host, row.pid, row.started) for row in rows]


def leave(tx: Tx, name: str, owner: Owner) -> None:
    """This worker has stopped in order."""
    tx.execute(WORKER.delete().where(WORKER.c.name == name, WORKER.c.pid == owner.pid, WORKER.c.started == owner.started))


def list_all(tx: Tx) -> Sequence[WorkerView]:
    now = utc_now()
    rows = tx.execute(select(WORKER).where(WORKER.c.heartbeat_at > now - _FORGET_AFTER).order_by(WORKER.c.name))
    views = []
    for row in rows:
        silence = max(0.0, (now - row.heartbeat_at).total_seconds())
        views.append(WorkerView(row.name, row.host, row.pid, tuple(row.queues), silence <= ALIVE_SECONDS, silence))
    return views


def forget_old(tx: Tx) -> None:
    tx.execute(WORKER.delete().where(WORKER.c.heartbeat_at < utc_now() - _FORGET_AFTER))
