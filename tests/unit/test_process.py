"""Whether a process still lives, whatever becomes of clocks and pids."""

import os
import subprocess
import sys
from dataclasses import replace

import psutil
import pytest

from knowledge import process
from knowledge.process import began, is_dead, is_stopped, this_process


@pytest.fixture
def other():
    """A process that waits for the end of its input."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as running:
        yield running
        running.stdin.close()


def test_it_lives_until_it_ends(other):
    """Also as long as nobody has asked how it ended."""
    owner = replace(this_process(), pid=other.pid, started=began(other.pid))
    alive = is_dead(owner)
    other.kill()
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)

    assert (False, True) == (alive, is_dead(owner))
    other.wait()
    assert is_dead(owner)
    with pytest.raises(psutil.NoSuchProcess):
        began(other.pid)


def test_a_clock_that_is_set_anew_kills_nobody(other, monkeypatch):
    """What the system says of its boot time then is another time."""
    owner = replace(this_process(), pid=other.pid, started=began(other.pid))
    before = psutil.Process(other.pid).create_time()
    boot = psutil.boot_time()
    monkeypatch.setattr(psutil, "boot_time", lambda: boot + 3600)
    monkeypatch.setattr(psutil._pslinux, "boot_time", lambda: boot + 3600)

    assert 3600 == round(psutil.Process(other.pid).create_time() - before), "the clock was not set"
    assert not is_dead(owner)
    assert not is_dead(this_process())


def test_another_process_of_the_same_number_is_another(other):
    """A later one, and one of another boot."""
    owner = replace(this_process(), pid=other.pid, started=began(other.pid))

    assert is_dead(replace(owner, started=owner.started - 1))
    assert is_dead(replace(owner, started=owner.started - process._LONGEST_SECONDS))
    assert not is_dead(replace(owner, host="elsewhere", started=0.0))


def test_who_is_stopped_is_not_dead(other):
    owner = replace(this_process(), pid=other.pid, started=began(other.pid))
    before = is_stopped(owner)
    psutil.Process(other.pid).suspend()
    os.waitpid(other.pid, os.WUNTRACED)

    assert (False, True, False) == (before, is_stopped(owner), is_dead(owner))
    psutil.Process(other.pid).resume()
