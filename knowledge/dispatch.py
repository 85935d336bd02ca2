"""Ledger rows → messages. A message carries a job id and is only a wake-up.

Publishing happens after the commit, outside every lock and transaction. When the broker does not answer, the rows' marks are
cleared and the due tick sends them later: a broker that is down delays work, it cannot lose it.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from celery import Celery, Signature
from kombu.exceptions import ChannelError, OperationalError
from kombu.exceptions import ConnectionError as LostConnection
from redis.exceptions import RedisError

from knowledge.errors import BrokerUnavailable, DatabaseBusy, StorageFailed, StorageFull
from knowledge.model.ids import BaseId, JobId
from knowledge.model.jobs import KINDS, Job, JobType
from knowledge.topology import EXCHANGE, queue_for, routing_key

log = logging.getLogger(__name__)

#: What Celery and kombu raise when the broker is away; none of them is always an `OSError`.
BROKER_ERRORS: Final = (OperationalError, OSError, RedisError, ChannelError, LostConnection)


class Ledger(Protocol):
    """What dispatch needs of the job ledger; each call is a transaction of its own."""

    def bases_with_due(self) -> Sequence[BaseId]: ...

    def take_due(self, base_id: BaseId) -> Sequence[Job]:
        """Jobs of this base that may be published now, marked as published."""
        ...

    def clear_published(self, job_ids: Sequence[str]) -> None: ...


class Sender(Protocol):
    def send(self, job: Job) -> None:
        """Raises `BrokerUnavailable`."""
        ...

    def answers(self) -> bool: ...

    def broker_run_id(self) -> str | None:
        """Changes when the broker starts anew; None if it has none or does not answer."""
        ...

    def queue_length(self, job: Job) -> int:
        """Messages waiting in the queue that this job's would be in. Raises `BrokerUnavailable`."""
        ...


class Dispatch:
    def __init__(self, ledger: Ledger, sender: Sender) -> None:
        self._ledger = ledger
        self._sender = sender

    def publish_due(self, base_id: BaseId) -> bool:
        """Send what this base's window has room for. False if not all of it was sent; the rest waits in the ledger.

        Never fails a caller whose work is committed already: a catalogue that cannot be written is a reason to wait, as a
        silent broker is.
        """
        try:
            return self._publish(base_id, self._ledger.take_due(base_id))
        except (DatabaseBusy, StorageFull, StorageFailed) as error:
            log.warning("catalogue cannot be written; the rest is sent later", extra={"base": base_id, "reason": str(error)})
            return False

    def _publish(self, base_id: BaseId, jobs: Sequence[Job]) -> bool:
        for position, job in enumerate(jobs):
            try:
                self._sender.send(job)
            except BrokerUnavailable as error:
                unsent = [job.id for job in jobs[position:]]
                log.warning("broker does not answer", extra={"base": base_id, "unsent": len(unsent), "reason": str(error)})
                self._ledger.clear_published(unsent)
                return False
        return True

    def publish_all_due(self) -> bool:
        """The same for every base; stops at the first sign that the broker is away."""
        return all(self.publish_due(base_id) for base_id in self._ledger.bases_with_due())

    def broker_answers(self) -> bool:
        return self._sender.answers()

    def broker_run_id(self) -> str | None:
        return self._sender.broker_run_id()

    def is_queue_empty(self, job: Job) -> bool:
        """Whether no message waits where this job's would; False also if the broker does not answer."""
        try:
            return self._sender.queue_length(job) == 0
        except BrokerUnavailable:
            return False


class CelerySender:
    """Sends by name, so that neither tasks nor results are needed here.

    Args:
        app: gives the Celery application; called at the first send, not before.
    """

    def __init__(self, app: Callable[[], Celery]) -> None:
        self._app = app

    def send(self, job: Job) -> None:
        queue = queue_for(job)
        try:
            self._app().send_task(
                job.type,
                args=(job.id,),
                task_id=job.id,
                exchange=EXCHANGE,
                routing_key=routing_key(job.shard, job.base_id, job.kind.track),
                declare=[queue],  # a message to an undeclared queue vanishes silently on Redis
                ignore_result=True,
                chain=None if job.then is None else [self._link(job, *job.then)],
            )
        except BROKER_ERRORS as error:
            raise BrokerUnavailable(str(error)) from error

    def _link(self, job: Job, job_id: JobId, job_type: JobType) -> Signature:
        """What Celery sends when the task of this job returns: the next job of its chain, which is of the same base.

        Without `declare`: it travels inside a message. Its queue is declared by every worker that consumes it.
        """
        return self._app().signature(
            job_type.value,
            args=(job_id,),
            immutable=True,
            task_id=job_id,
            exchange=EXCHANGE.name,
            routing_key=routing_key(job.shard, job.base_id, KINDS[job_type].track),
            ignore_result=True,
        )

    def broker_run_id(self) -> str | None:
        try:
            with self._app().connection_for_write(connect_timeout=2) as connection:
                client = getattr(connection.default_channel, "client", None)  # Redis and Valkey only
                return None if client is None else str(client.info("server")["run_id"])
        except BROKER_ERRORS:
            return None

    def queue_length(self, job: Job) -> int:
        try:
            with self._app().connection_for_write() as connection, connection.channel() as channel:
                # Declared, not asked for passively: on Redis a queue without messages does not exist.
                return int(queue_for(job)(channel).queue_declare().message_count)
        except BROKER_ERRORS as error:
            raise BrokerUnavailable(str(error)) from error

    def answers(self) -> bool:
        try:
            with self._app().connection_for_write(connect_timeout=2) as connection:
                connection.ensure_connection(max_retries=1, interval_start=0.1, interval_step=0.1)
                return True
        except BROKER_ERRORS:
            return False
