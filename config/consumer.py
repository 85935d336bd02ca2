"""The consumer of our workers: it takes its time with a broker that lives and refuses."""

import time
from typing import Any, Final

from celery.worker.consumer import Consumer
from redis.exceptions import ResponseError

PAUSE_SECONDS: Final = 5.0


class PatientConsumer(Consumer):
    """A broker whose disk is full refuses each command at once. Celery would connect again several times a second, and tell of
    it each time, on the same disk.
    """

    def on_connection_error_before_connected(self, exc: BaseException) -> Any:
        _pause(exc)
        return super().on_connection_error_before_connected(exc)

    def on_connection_error_after_connected(self, exc: BaseException) -> Any:
        _pause(exc)
        return super().on_connection_error_after_connected(exc)


def _pause(error: BaseException) -> None:
    if isinstance(error, ResponseError):
        time.sleep(PAUSE_SECONDS)
