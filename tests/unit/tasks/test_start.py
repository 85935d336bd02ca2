"""A worker that could only do harm does not start, and says why."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from knowledge.db import schema
from knowledge.db.engine import Database
from knowledge.errors import ConfigurationError
from tasks import memory

ROOT = Path(__file__).parents[3]


def idle_kib():
    """Of this process, as it is now."""
    return psutil.Process().memory_info().rss // 1024


@pytest.fixture
def start(tmp_path):
    """Starts the product's own index worker, without a broker; what it has said when it ended by itself."""

    def start(*options):
        command = [sys.executable, "-m", "celery", "-A", "config.celery", "worker", "-n", "index@here", "-Q", "knowledge.main"]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("KNOWLEDGE_")}
        environ = {"KNOWLEDGE_DATA_DIR": str(tmp_path / "data"), "KNOWLEDGE_BROKER_URL": "redis://127.0.0.1:1/0"}
        done = subprocess.run([*command, *options], cwd=ROOT, env=kept | environ, capture_output=True, text=True, timeout=250)
        assert done.returncode == 1
        return done.stderr.strip().splitlines()[-1]

    return start


def test_worker_whose_processes_would_all_be_over_their_limit_does_not_start(start):
    """With both figures and the name of the setting."""
    said = start("--max-memory-per-child", "10240")

    assert "does not start: worker_max_memory_per_child (--max-memory-per-child) is 10 MiB, but" in said
    assert "MiB when idle" in said


def test_worker_does_not_start_on_tables_of_another_version(start, tmp_path):
    """The command that brings them to this one is named."""
    (tmp_path / "data").mkdir()
    db = Database(f"sqlite:///{tmp_path / 'data' / 'catalogue.sqlite'}")
    schema.upgrade(db)
    with db.write() as tx:
        tx.exec_driver_sql("UPDATE alembic_version SET version_num = '0001'")
    db.dispose()

    assert "does not start: The catalogue's tables are not of this version; run `knowledge db upgrade`." in start()


@pytest.mark.parametrize("share", [0.001, 0.5])
def test_limit_below_the_idle_footprint_is_refused(share):
    """Each process would end after one job, for ever."""
    limit_kib = int(idle_kib() * share)

    with pytest.raises(ConfigurationError) as refused:
        memory.check(limit_kib)

    assert limit_kib // 1024 == refused.value.details["limit_mib"] < refused.value.details["idle_mib"]
    assert refused.value.details["setting"] in str(refused.value)


@pytest.mark.parametrize(("share", "is_told"), [(None, False), (0, False), (1.3, True), (10, False)])
def test_limit_close_to_the_idle_footprint_is_told(caplog, share, is_told):
    """It may be meant; a process of an embedder that runs here would be over it all the same."""
    with caplog.at_level(logging.WARNING):
        memory.check(share and int(idle_kib() * share))

    assert is_told == bool(caplog.records)
    assert all(record.limit_mib > record.idle_mib for record in caplog.records)
