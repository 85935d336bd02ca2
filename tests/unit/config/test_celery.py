"""The Celery application that the settings make."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import current_app
from celery.backends.base import DisabledBackend

from config import celery
from config.settings import Settings


@pytest.fixture(autouse=True)
def current() -> Iterator[None]:
    """`make` makes its application the current one; the tests after these get theirs back."""
    before = current_app._get_current_object()
    yield
    before.set_current()
    before.set_default()


@pytest.mark.parametrize(
    "name", ["CELERY_BROKER_URL", "CELERY_BROKER_READ_URL", "CELERY_BROKER_WRITE_URL", "CELERY_RESULT_BACKEND"]
)
def test_variables_of_another_celery_application_lead_nowhere(tmp_path: Path, monkeypatch, name):
    """Celery prefers these to what it is told; the broker is the one that our settings name."""
    monkeypatch.setenv(name, "redis://elsewhere:1/0")

    app = celery.make(Settings(data_dir=tmp_path, broker_url="redis://ours:2/0"))

    addresses = [app.conf.broker_url, app.conf.broker_read_url, app.conf.broker_write_url, app.conf.result_backend]
    assert ["redis://ours:2/0"] * 4 == addresses


def test_only_redis_carries_answers(tmp_path: Path):
    """Clients speak to Redis and Valkey; with another broker there is no result store, and jobs need none."""
    app = celery.make(Settings(data_dir=tmp_path, broker_url="amqp://ours:2/"))

    assert isinstance(app.backend, DisabledBackend)


@pytest.mark.parametrize(("threads", "places"), [(2, 1), (4, 3), (16, 12), (100, 75)])
def test_some_threads_are_kept_for_questions(tmp_path: Path, threads, places):
    """At least one, a quarter as a rule."""
    app = celery.make(Settings(data_dir=tmp_path, broker_url="redis://ours:2/0", commands_concurrency=threads))

    assert places == app.knowledge_waiting_places


def test_jobs_write_no_result(tmp_path: Path):
    """Of all our tasks only commands answer."""
    app = celery.make(Settings(data_dir=tmp_path, broker_url="redis://ours:2/0"))
    app.loader.import_default_modules()
    app.finalize()
    ours = {name: task for name, task in app.tasks.items() if name.startswith("knowledge.")}

    assert {"knowledge.command"} == {name for name, task in ours.items() if not task.ignore_result}
    assert len(ours) > 5
