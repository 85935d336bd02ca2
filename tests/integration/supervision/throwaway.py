"""A Celery app with nothing in it but a broker, for trying the supervisor without Knowledge's own tasks."""

from celery import Celery

from config.broker import endpoint
from config.settings import load

app = Celery("throwaway", broker=endpoint(load()))
app.conf.update(worker_hijack_root_logger=False, broker_connection_retry_on_startup=True)
