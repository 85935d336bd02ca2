"""Paid vectors: on the disk when `put` returns, by model and text, bounded in size, never evicted within a week of payment."""

import resource
import signal
import subprocess
import sys
from contextlib import contextmanager
from datetime import timedelta

import numpy as np
import pytest

from knowledge.catalog.embeddings import VECTOR, EmbeddingCache
from knowledge.db.columns import utc_now
from knowledge.db.engine import Database
from knowledge.errors import DatabaseBusy, StorageFailed, StorageFull
from tests.paid import stored_at


@pytest.fixture
def db(tmp_path):
    db = Database(f"sqlite:///{tmp_path / 'embeddings.sqlite'}")
    yield db
    db.dispose()


@pytest.fixture
def cache(db):
    return EmbeddingCache(db, max_bytes=1 << 30)


def vectors(*names, width=4):
    return {name: np.full(width, number + 0.25, np.float32) for number, name in enumerate(names)}


def test_what_was_put_comes_back_exactly(cache):
    """float32, bit by bit; unknown hashes and other models have nothing."""
    cache.put("model", vectors("a", "b"))
    found = cache.get("model", ["a", "b", "c"])

    assert {"a", "b"} == set(found)
    assert np.float32 == found["b"].dtype
    assert [1.25] * 4 == found["b"].tolist()
    assert {} == cache.get("other", ["a"])
    assert {} == cache.get("model", [])


def test_the_first_answer_stays(cache):
    """Paid twice by two workers at once: one vector is kept, and nothing breaks."""
    cache.put("model", vectors("a"))
    cache.put("model", {"a": np.zeros(4, np.float32)})

    assert [0.25] * 4 == cache.get("model", ["a"])["a"].tolist()


def test_what_was_put_survives_a_kill(db):
    """The next line after `put` may be a death."""
    script = (
        "import os, signal, sys; import numpy as np\n"
        "from knowledge.catalog.embeddings import EmbeddingCache; from knowledge.db.engine import Database\n"
        "EmbeddingCache(Database(sys.argv[1]), max_bytes=1 << 30).put('model', {'a': np.ones(4, np.float32)})\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )

    assert -signal.SIGKILL == subprocess.run([sys.executable, "-c", script, db.url], check=False).returncode
    assert [1.0] * 4 == EmbeddingCache(db, max_bytes=1 << 30).get("model", ["a"])["a"].tolist()


@contextmanager
def growing_no_further_than(path, room):
    """A disk that has so many bytes left for this file, as far as a process without a disk of its own can have one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_room_is_refused_where_an_answer_would_not_fit(cache, db):
    """A few bytes may fit and the answer not; found out before it is paid for, as often as it is asked."""
    cache.put("model", vectors("a"))
    log = db.path.with_name(f"{db.path.name}-wal")
    with growing_no_further_than(log, 300_000):
        cache.ensure_room(100_000)
        for _ in range(3):
            with pytest.raises((StorageFull, StorageFailed)):
                cache.ensure_room(1_000_000)
        cache.put("model", vectors("b"))

    cache.ensure_room(1_000_000)
    assert {"a", "b"} == set(cache.get("model", ["a", "b"]))


def test_room_is_not_used_up_by_asking(cache, db):
    """The trial is written over: the store stays as large as one answer."""
    for _ in range(50):
        cache.ensure_room(1_000_000)

    assert cache._used_bytes() < 2_000_000


def test_room_is_refused_while_others_write(db):
    """Whoever waits for them has paid for nothing."""
    impatient = Database(db.url, busy_timeout_seconds=0.05)
    cache = EmbeddingCache(impatient, max_bytes=1 << 30)
    cache.ensure_room(1)
    with db.write(), pytest.raises(DatabaseBusy):
        cache.ensure_room(1)
    impatient.dispose()


def aged(db, days_paid, days_used, names):
    now = utc_now()
    with db.write() as tx:
        tx.execute(
            VECTOR.update()
            .where(VECTOR.c.text_hash.in_(names))
            .values(paid_at=now - timedelta(days=days_paid), used_at=now - timedelta(days=days_used))
        )


def test_eviction_takes_the_longest_unused_and_nothing_paid_within_a_week(db):
    """Above its bound the store shrinks as far as that allows."""
    cache = EmbeddingCache(db, max_bytes=1)
    cache.put("model", vectors("fresh", "old", width=1000))
    aged(db, 8, 8, ["old"])
    aged(db, 6, 30, ["fresh"])

    assert 1 == cache.evict()
    assert {"fresh"} == set(cache.get("model", ["fresh", "old"]))
    assert 0 == cache.evict()


def test_below_its_bound_nothing_goes(cache, db):
    """However old it is."""
    cache.put("model", vectors("a"))
    aged(db, 400, 400, ["a"])

    assert 0 == cache.evict()


def test_use_keeps_a_vector(db):
    """What was asked for lately goes last."""
    cache = EmbeddingCache(db, max_bytes=1)
    cache.put("model", vectors(*(f"v{number}" for number in range(1001))))
    aged(db, 8, 8, [f"v{number}" for number in range(1001)])
    cache.get("model", ["v7"])
    with db.read() as tx:
        oldest = list(
            tx.scalars(VECTOR.select().order_by(VECTOR.c.used_at.desc()).with_only_columns(VECTOR.c.text_hash).limit(1))
        )

    assert ["v7"] == oldest


def test_who_looks_while_the_store_is_being_made_finds_nothing(db, cache, tmp_path):
    assert {} == stored_at(tmp_path), "there is no file"
    with db.write() as tx:
        tx.exec_driver_sql("CREATE TABLE other (id INTEGER)")
        assert {} == stored_at(tmp_path), "a file of which nothing is committed"
    assert {} == stored_at(tmp_path), "a file without the table"
    cache.put("model", {"a": np.ones(2, np.float32)})
    assert {"a"} == stored_at(tmp_path).keys()
