"""Transactions on the catalogue: what is kept, what is rolled back, and how the environment's faults are called."""

import os
import random
import re
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from knowledge.db import engine
from knowledge.db.engine import Database
from knowledge.errors import ConfigurationError, DatabaseBusy, InvalidInput, KnowledgeError, StorageFailed
from tests.modes import modes_bind_us


@pytest.fixture
def db(tmp_path):
    db = Database(f"sqlite:///{tmp_path / 'catalogue.sqlite'}", busy_timeout_seconds=0.2)
    with db.write() as tx:
        tx.execute(text("CREATE TABLE note (id TEXT PRIMARY KEY)"))
    yield db
    db.dispose()


def count(db):
    with db.read() as tx:
        return tx.scalar(text("SELECT count(*) FROM note"))


def insert(tx, value):
    tx.execute(text("INSERT INTO note VALUES (:value)"), {"value": value})


@pytest.mark.parametrize("durable", [True, False])
def test_whatever_is_raised_inside_rolls_back(db, durable):
    """No exception leaves half a transaction."""

    def interrupted():
        with db.write(durable=durable) as tx:
            insert(tx, "a")
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    assert 0 == count(db)


@pytest.mark.parametrize(("durable", "level"), [(True, 2), (False, 1)])
def test_admission_is_flushed_and_progress_is_not(db, durable, level):
    """`synchronous` is FULL (2) for what a caller was told, NORMAL (1) for what can be done again."""
    with db.write(durable=durable) as tx:
        assert level == tx.scalar(text("PRAGMA synchronous"))
        assert 1 == tx.scalar(text("PRAGMA foreign_keys"))
        assert "wal" == tx.scalar(text("PRAGMA journal_mode"))


def test_the_driver_is_the_bundled_one(db):
    """Not the system's library, whose WAL has a known corruption bug."""
    with db.read() as tx:
        version = tuple(int(part) for part in tx.scalar(text("SELECT sqlite_version()")).split("."))

    assert version >= (3, 51, 3)


def test_a_second_writer_waits_and_is_then_told_that_the_catalogue_is_busy(db):
    """A write transaction that is held too long gives the next writer a typed error, never a driver's."""
    with db.write() as tx:
        insert(tx, "a")
        with pytest.raises(DatabaseBusy), db.write() as other:
            insert(other, "b")

    assert 1 == count(db)


def test_a_reader_neither_waits_nor_sees_half_a_write(db):
    """Reading goes on during a write, on the state before it."""
    with db.write() as tx:
        insert(tx, "a")
        assert 0 == count(db)


def test_a_read_is_one_consistent_view(db):
    """What others commit meanwhile does not appear in the middle of a read."""
    with db.read() as tx:
        before = tx.scalar(text("SELECT count(*) FROM note"))
        with db.write() as other:
            insert(other, "a")
        assert before == tx.scalar(text("SELECT count(*) FROM note"))


def test_a_read_that_turns_into_a_write_has_a_typed_error(db):
    """It cannot wait for the lock, since its view is of the past; it is told so at once."""

    def late():
        with db.read() as tx:
            tx.scalar(text("SELECT count(*) FROM note"))
            with db.write() as other:
                insert(other, "a")
            insert(tx, "b")

    with pytest.raises(DatabaseBusy):
        late()


def test_a_fault_of_ours_stays_what_it_is(db):
    """A broken constraint is a bug and is not dressed up as the environment's fault."""
    with db.write() as tx:
        insert(tx, "a")

    with pytest.raises(IntegrityError), db.write() as tx:
        insert(tx, "a")


def test_half_a_surrogate_pair_is_bad_input(db):
    """An id from a command line with broken bytes is refused by name, in reads and writes alike."""
    with pytest.raises(InvalidInput), db.write() as tx:
        insert(tx, "caf\udce9")
    with pytest.raises(InvalidInput), db.read() as tx:
        tx.execute(text("SELECT * FROM note WHERE id = :value"), {"value": "caf\udce9"}).all()


def test_a_damaged_catalogue_has_a_typed_error(tmp_path):
    """A file that is no database is named as such."""
    (tmp_path / "broken.sqlite").write_bytes(b"this is no database, it only has a long enough beginning" * 100)
    db = Database(f"sqlite:///{tmp_path / 'broken.sqlite'}")

    with pytest.raises(StorageFailed, match="damaged"), db.read() as tx:
        tx.scalar(text("SELECT count(*) FROM note"))


@pytest.mark.parametrize("place", ["file/catalogue.sqlite", "file/deeper/catalogue.sqlite"])
def test_a_place_where_nothing_can_be_made_has_a_typed_error(tmp_path, place):
    """A directory that cannot be made is the disk's fault and told as such."""
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(StorageFailed), Database(f"sqlite:///{tmp_path / place}").write():
        pass


def test_another_kind_of_database_is_refused():
    """Only SQLite so far; the setting is named."""
    with pytest.raises(ConfigurationError) as refused:
        Database("postgresql://localhost/knowledge")

    assert "KNOWLEDGE_DATABASE_URL" == refused.value.details["setting"]


def test_more_threads_than_connections_are_told_to_come_back(tmp_path, monkeypatch):
    """A pool without a free connection is a busy catalogue."""
    db = Database(f"sqlite:///{tmp_path / 'catalogue.sqlite'}")
    with db.read():
        engine = db._engines["NORMAL"]
        monkeypatch.setattr(engine.pool, "_max_overflow", 0)
        monkeypatch.setattr(engine.pool, "_timeout", 0.05)
        held, leave = threading.Semaphore(0), threading.Event()

        def hold():
            with db.read():
                held.release()
                leave.wait(20)

        holders = [threading.Thread(target=hold) for _ in range(4)]
        for holder in holders:
            holder.start()
        for _ in holders:
            assert held.acquire(timeout=20)
        with pytest.raises(DatabaseBusy), db.read():
            pass
        leave.set()
        for holder in holders:
            holder.join()
    db.dispose()


def test_a_forked_child_uses_connections_of_its_own(db):
    """After a fork neither side disturbs the other's transactions."""
    with db.write() as tx:
        insert(tx, "before")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with db.write() as tx:
                insert(tx, "child")
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    with db.write() as tx:
        insert(tx, "parent")

    assert 0 == os.waitstatus_to_exitcode(status)
    assert 3 == count(db)


def test_a_killed_writer_leaves_the_last_commit(db):
    """What was committed stays, what was not is gone, and the next writer is not kept waiting."""
    script = (
        "import os, signal, sys; from sqlalchemy import text; from knowledge.db.engine import Database\n"
        "db = Database(sys.argv[1])\n"
        "with db.write(durable=True) as tx: tx.execute(text(\"INSERT INTO note VALUES ('kept')\"))\n"
        "with db.write() as tx:\n"
        "    tx.execute(text(\"INSERT INTO note VALUES ('lost')\"))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )

    assert -9 == subprocess.run([sys.executable, "-c", script, db.url], check=False).returncode
    with db.write() as tx:
        insert(tx, "next")
    assert 2 == count(db)


def test_deleted_words_are_neither_in_the_file_nor_in_its_log(db, tmp_path):
    """Overwritten where they were; the log is emptied on request, so that a later copy of the directory does not show them."""
    for number in range(200):
        with db.write() as tx:
            insert(tx, f"needle{number}" * 300)
    with db.write() as tx:
        tx.execute(text("DELETE FROM note"))
    is_empty = db.truncate_log()

    assert is_empty
    assert [0, 0] == [(tmp_path / f"catalogue.sqlite{end}").read_bytes().count(b"needle") for end in ("", "-wal")]


@pytest.mark.parametrize("seed", [6, 10, 11])
def test_no_copy_of_a_row_that_once_moved_is_left(db, tmp_path, seed):
    """A row that moved to another page, when others came or went, left its words in the free middle of the old one."""
    dice = random.Random(seed)
    alive: list[str] = []
    for number in range(60):
        with db.write() as tx:
            for word in range(number * 20, number * 20 + 20):
                alive.append(f"{dice.randrange(10**6):06}needle{word:04}" + "x" * dice.choice([0, 100, 400, 900]))
                insert(tx, alive[-1])
            dice.shuffle(alive)
            for _ in range(int(len(alive) * dice.random())):
                tx.execute(text("DELETE FROM note WHERE id = :id"), {"id": alive.pop()})
            engine.mark_deleted(tx)
    db.wipe()
    left = set(re.findall(rb"needle\d{4}", b"".join(path.read_bytes() for path in tmp_path.iterdir())))
    with db.read() as tx:
        mark = tx.scalar(text("PRAGMA user_version"))

    assert ({value[6:16].encode() for value in alive}, 0) == (left, mark)


def test_a_large_catalogue_is_rewritten_only_by_who_has_time(db, monkeypatch):
    """What is deleted stays marked until then."""
    monkeypatch.setattr(engine, "SMALL_BYTES", 0)

    def mark():
        with db.read() as tx:
            return tx.scalar(text("PRAGMA user_version"))

    with db.write() as tx:
        engine.mark_deleted(tx)
    db.wipe()
    at_once = mark()
    db.wipe(whole=True)

    assert at_once
    assert 0 == mark()


def test_a_log_in_use_is_left_to_the_next(db, monkeypatch):
    """A reader's view needs the log; nobody fails because of it, and whoever waited for locks before does so afterwards."""
    monkeypatch.setattr(engine, "LOG_WAIT_SECONDS", 0.01)
    with db.read() as reader:
        reader.scalar(text("SELECT count(*) FROM note"))
        with db.write() as tx:
            insert(tx, "a")
        while_in_use = db.truncate_log()

    assert (False, True) == (while_in_use, db.truncate_log())
    with db.read() as tx:
        assert 200 == tx.scalar(text("PRAGMA busy_timeout"))


@pytest.mark.parametrize("durable", [True, False])
def test_who_met_a_file_that_could_only_be_read_writes_again_when_it_may(db, durable):
    """What was opened meanwhile stays as it was opened: it is given up with the first refusal, and all of its kind with it."""
    db.dispose()
    files = list(db.path.parent.iterdir())
    with modes_bind_us():
        for file in files:
            file.chmod(0o400)
        with ExitStack() as stack:  # several connections at once
            for _ in range(3):
                stack.enter_context(suppress(KnowledgeError))
                stack.enter_context(db.read())
            with pytest.raises(StorageFailed), db.write(durable=durable) as tx:
                insert(tx, "a")
        for file in db.path.parent.iterdir():
            file.chmod(0o600)
        with suppress(StorageFailed), db.write(durable=durable) as tx:
            insert(tx, "b")
        for value in ("c", "d", "e", "f"):
            with db.write(durable=durable) as tx:
                insert(tx, value)

    assert 4 <= count(db)
