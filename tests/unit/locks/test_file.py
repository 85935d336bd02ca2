"""The base lock on files, with real processes."""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from knowledge.errors import BaseBusy, StorageFailed
from knowledge.locks.file import FileLocks
from tests.contracts.locks_contract import BASE, LocksContract
from tests.waiting import PATIENCE_SECONDS

HOLDER = """
import sys, time
from pathlib import Path
from knowledge.locks.file import FileLocks
with FileLocks(Path(sys.argv[1]), 30).base("base-1"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "locks"


@pytest.fixture
def locks(directory):
    return FileLocks(directory, wait_seconds=PATIENCE_SECONDS)


@pytest.fixture
def holder(directory):
    """Another process that holds the lock until its input ends or it is killed."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert b"held\n" == process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


class TestFileLocks(LocksContract):
    @pytest.fixture
    def locks(self, tmp_path):
        return FileLocks(tmp_path / "locks", wait_seconds=PATIENCE_SECONDS)

    @pytest.fixture
    def others(self, tmp_path):
        return FileLocks(tmp_path / "locks", wait_seconds=PATIENCE_SECONDS)


def test_killed_holder_frees_the_base(locks, holder):
    """The system frees the lock with its process; nobody waits for a time to live."""
    with pytest.raises(BaseBusy), locks.base(BASE, wait_seconds=0):
        pass

    os.kill(holder.pid, signal.SIGKILL)

    with locks.base(BASE, wait_seconds=PATIENCE_SECONDS):
        pass


def test_busy_error_names_the_holder(locks, holder):
    """Whoever waits in vain learns for which process."""
    with pytest.raises(BaseBusy) as caught, locks.base(BASE, wait_seconds=0.05):
        pass

    assert (holder.pid, 0.05) == (caught.value.details["holder"]["pid"], caught.value.details["waited_seconds"])


def test_waiting_ends_after_its_time(directory, holder):
    """The configured wait is kept, neither cut short nor endless."""
    begun = time.monotonic()
    with pytest.raises(BaseBusy), FileLocks(directory, wait_seconds=0.3).base(BASE):
        pass

    assert 0.3 <= time.monotonic() - begun < 20


@contextmanager
def forked(body):
    """A forked child that runs `body` and then waits; yields its pid and a pipe with what `body` returned."""
    answer_read, answer_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(answer_write, body().encode())
            signal.pause()
        finally:
            os._exit(0)
    os.close(answer_write)
    try:
        yield pid, answer_read
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(answer_read)


def answer(pipe):
    ready, _, _ = select.select([pipe], [], [], PATIENCE_SECONDS)
    assert ready
    return os.read(pipe, 100).decode()


def attempt(locks, wait_seconds=0.0):
    try:
        with locks.base(BASE, wait_seconds=wait_seconds):
            return "got it"
    except BaseBusy:
        return "busy"


def test_forked_child_does_not_hold_what_its_parent_holds(locks):
    """A fork inside the lock shares nothing: the child is refused, and does not keep the base when its parent lets go."""
    with locks.base(BASE):
        child = forked(lambda: attempt(locks))
        _, pipe = child.__enter__()
        answered = answer(pipe)
    try:
        assert ("busy", "got it") == (answered, attempt(locks))
    finally:
        child.__exit__(None, None, None)


def test_killed_parent_frees_the_base_although_its_child_lives(locks, directory):
    """A worker forks its children; one forked inside the lock must not keep it after the parent was killed."""
    script = HOLDER.replace(
        "    print(",
        "    import os, signal\n    child = os.fork()\n    if child == 0:\n        signal.pause()\n    print(child, ",
    )
    process = subprocess.Popen([sys.executable, "-c", script, directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child = int(process.stdout.readline().split()[0])
    try:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()

        assert "got it" == attempt(locks, PATIENCE_SECONDS)
    finally:
        os.kill(child, signal.SIGKILL)
        process.communicate()


def test_started_program_does_not_inherit_the_lock(locks):
    """A program started inside the lock does not keep it."""
    with locks.base(BASE):
        process = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, close_fds=False
        )
    try:
        assert "got it" == attempt(locks)
    finally:
        process.communicate()


def test_waiter_on_a_forgotten_file_takes_the_new_one(locks, directory):
    """Two holders of two files of the same name would be two owners of one base."""
    waiting, got, leave = threading.Event(), threading.Event(), threading.Event()

    def wait():
        waiting.set()
        with locks.base(BASE, wait_seconds=PATIENCE_SECONDS):
            got.set()
            leave.wait(PATIENCE_SECONDS)

    with locks.base(BASE):
        thread = threading.Thread(target=wait)
        thread.start()
        waiting.wait(PATIENCE_SECONDS)
        (directory / BASE).unlink()
    assert got.wait(PATIENCE_SECONDS)

    refused = attempt(locks)
    leave.set()
    thread.join()
    assert "busy" == refused


def test_two_processes_never_hold_together(directory, tmp_path):
    """Under contention each increment of an unguarded counter survives."""
    counter = tmp_path / "counter"
    counter.write_text("0")
    script = (
        "import sys\nfrom pathlib import Path\nfrom knowledge.locks.file import FileLocks\n"
        "locks, counter = FileLocks(Path(sys.argv[1]), 60), Path(sys.argv[2])\n"
        "for _ in range(50):\n"
        "    with locks.base('base-1'):\n"
        "        counter.write_text(str(int(counter.read_text()) + 1))\n"
    )
    processes = [subprocess.Popen([sys.executable, "-c", script, directory, counter]) for _ in range(3)]

    assert [0, 0, 0] == [process.wait(60) for process in processes]
    assert "150" == counter.read_text()


@pytest.mark.parametrize("base_id", ["", "..", "a/b"])
def test_lock_name_that_is_no_file_name_is_refused(locks, base_id):
    """A base id never leads out of the directory of locks."""
    with pytest.raises(ValueError, match="cannot name a lock"), locks.base(base_id):
        pass


def test_a_place_where_no_lock_can_be_made_is_a_typed_error(tmp_path):
    """The disk's fault is told as such, by the base lock and by the single flight alike."""
    (tmp_path / "in the way").write_text("")
    locks = FileLocks(tmp_path / "in the way" / "locks", wait_seconds=1)

    with pytest.raises(StorageFailed), locks.base(BASE):
        pass
    with pytest.raises(StorageFailed), locks.single_flight("recovery"):
        pass
