"""A broker that is a list: implements `dispatch.Sender`, and goes away on command."""

from collections import deque

from knowledge.errors import BrokerUnavailable
from knowledge.model.ids import JobId
from knowledge.model.jobs import Job


class ListSender:
    """Messages wait in `waiting` until a test takes them; `sent` remembers every one."""

    def __init__(self) -> None:
        self.waiting: deque[JobId] = deque()
        self.sent: list[Job] = []
        self.is_away = False
        self.takes_only: int | None = None  #: messages until the broker goes away
        self.run_id = "first"

    def send(self, job: Job) -> None:
        if self.is_away or self.takes_only == 0:
            raise BrokerUnavailable("away, as ordered")
        if self.takes_only is not None:
            self.takes_only -= 1
        self.sent.append(job)
        self.waiting.append(job.id)

    def answers(self) -> bool:
        return not self.is_away

    def broker_run_id(self) -> str | None:
        return None if self.is_away else self.run_id

    def queue_length(self, job: Job) -> int:
        if self.is_away:
            raise BrokerUnavailable("away, as ordered")
        return len(self.waiting)
