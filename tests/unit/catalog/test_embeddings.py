"""Paid vectors: on the disk when `put` returns, by model and text, bounded in size, never evicted within a week of payment."""

import signal
import subprocess
import sys
from datetime import timedelta

import numpy as np
import pytest

from knowledge.catalog.embeddings import VECTOR, EmbeddingCache
from knowledge.db.columns import utc_now
from knowledge.db.engine import Database


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
