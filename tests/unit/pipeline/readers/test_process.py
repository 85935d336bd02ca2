"""The process that reads: what a hostile file does to it harms neither its owner nor the next file."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace

import psutil
import pytest

from knowledge.errors import CancelRequested, ConfigurationError, CorruptSource, EncryptedSource, ReaderBudgetExceeded
from knowledge.model.budget import MIB, Budget
from knowledge.pipeline.readers.process import ReaderProcess
from knowledge.pipeline.readers.reading import Reading
from knowledge.pipeline.readers.registry import ReaderRegistry
from tests.fakes import hostile_reader
from tests.processes import group_of, is_over
from tests.waiting import eventually

BUDGET = Budget(seconds=60, memory_bytes=256 * MIB)


@pytest.fixture
def make_process():
    made = []

    def make(budget=BUDGET, **options):
        made.append(ReaderProcess(budget, factory=hostile_reader.FACTORY, **options))
        return made[-1]

    yield make
    for process in made:
        process.close()


@pytest.fixture
def process(make_process):
    return make_process()


@pytest.fixture
def read(tmp_path):
    def read(process, *lines, checkpoint=lambda: None):
        """The texts of a file that begins with these lines."""
        path = tmp_path / "x.hostile"
        path.write_text("\n".join(lines))
        reading = Reading(BUDGET)
        process.read(path, path.name, reading.take, checkpoint)
        return [document.text for document in reading.result().documents]

    return read


def test_documents_come_whole(process, tmp_path):
    """Text, page, place and facts arrive as the reader gave them; the boundary cleans the text."""
    path = tmp_path / "x"
    path.write_text("surrogate")
    reading = Reading(BUDGET)

    process.read(path, "x", reading.take, lambda: None)

    (document,) = reading.result().documents
    assert ("a\ufffdb\ufffdc", 7, "sheet ä") == (document.text, document.page, document.locator)
    assert ("text/plain", "hostile", 2) == (
        reading.result().media_type,
        reading.result().reader,
        reading.result().quality.replaced_characters,
    )


def test_one_process_reads_many_files_and_is_replaced_after_its_share(make_process, read):
    """The 201st file has a fresh process."""
    process = make_process()

    pids = [read(process, "words")[0] for _ in range(201)]

    assert {pids[0]} == set(pids[:200])
    assert pids[0] != pids[200]
    eventually(lambda: is_over(int(pids[0])), "the processes are gone")


def test_own_errors_arrive_as_themselves(process, read):
    """Class, details and what the boundary adds; the process goes on."""
    with pytest.raises(EncryptedSource) as caught:
        read(process, "refuse")

    assert {"name": "x.hostile", "media_type": "text/plain", "reader": "hostile", "page": 2} == caught.value.details
    assert int(read(process, "words")[0]) == process.pid


@pytest.mark.parametrize("what", ["loop", "hold"])
def test_reader_that_never_ends_is_killed(make_process, read, what):
    """Also when it holds the interpreter's lock. The figure and the limit are told, and the next file is read."""
    process = make_process(replace(BUDGET, seconds=2.0))  # in which the next file must be read, whatever else runs here

    with pytest.raises(ReaderBudgetExceeded) as caught:
        read(process, what)

    assert ("seconds", 2.0, "hostile") == tuple(caught.value.details[name] for name in ("figure", "limit", "reader"))
    assert caught.value.details["found"] >= 2.0
    assert ["a"] == read(process, "words", "a")[:1]


@pytest.mark.parametrize("what", ["eat", "helper", "swallow"])
def test_reader_that_takes_too_much_memory_is_refused(process, read, what):
    """Step by step, in a program that it starts, or at once."""
    with pytest.raises(ReaderBudgetExceeded) as caught:
        read(process, what)

    assert "hostile" == caught.value.details["reader"]
    assert ["a"] == read(process, "words", "a")[:1]


def test_reader_that_crashes_is_a_damaged_file(process, read):
    """A segmentation fault is told as such, and the owner goes on."""
    with pytest.raises(CorruptSource) as caught:
        read(process, "crash")

    assert ("SIGSEGV", "hostile") == (caught.value.details["ended_with"], caught.value.details["reader"])
    assert ["a"] == read(process, "words", "a")[:1]


def test_reader_that_dies_in_the_middle_leaves_no_half_text(process, read):
    """Documents that came before count for nothing."""
    read(process, "words")

    with pytest.raises(CorruptSource, match="crashed") as caught:
        read(process, "quit")

    assert "status 3" == caught.value.details["ended_with"]


def test_file_gets_a_second_chance_in_a_fresh_process(process, read, tmp_path):
    """What a file before it has done to the process is not its fault."""
    read(process, "words")

    assert ["read at last"] == read(process, "crash_when_used", str(tmp_path / "marker"))


def test_process_that_is_ended_by_the_system_is_told_as_such(process, read):
    """The kernel kills with SIGKILL when memory is short."""
    killed = []

    def checkpoint():
        if not killed and process.pid:
            killed.append(process.pid)
            os.kill(process.pid, signal.SIGKILL)

    with pytest.raises(ReaderBudgetExceeded) as caught:
        read(process, "loop", checkpoint=checkpoint)

    assert "memory_bytes" == caught.value.details["figure"]


def test_process_that_ended_between_two_files_leaves_nothing(process, read, tmp_path, monkeypatch):
    """The next file gets a new one, and of the old one neither a process nor a folder stays."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    read(process, "words")
    family = psutil.Process(process.pid).children(recursive=True)
    folders = list((tmp_path / "temporary").iterdir())

    os.kill(process.pid, signal.SIGKILL)
    eventually(lambda: is_over(psutil.Process(process.pid).pid), "it is dead")
    read(process, "words")

    assert 1 == len(folders)
    assert not folders[0].exists()
    assert family
    eventually(lambda: all(is_over(one.pid) for one in family), "its guard is gone")


def test_cancel_in_the_middle_of_a_read(process, read):
    """A reader that gives nothing for long does not keep a cancel waiting, and its process does not go on."""
    pids = []

    def checkpoint():
        pids.append(process.pid)
        if len(pids) > 3:
            raise CancelRequested

    with pytest.raises(CancelRequested):
        read(process, "loop", checkpoint=checkpoint)

    eventually(lambda: is_over(pids[-1]), "the processes are gone")
    assert ["a"] == read(process, "words", "a")[:1]


def test_prints_of_a_library_are_no_answer(process, read, capfd):
    """Neither taken for text nor shown to anybody."""
    assert ["quiet"] == read(process, "chatter")
    assert ("", "") == capfd.readouterr()


def test_secrets_stay_with_the_owner(process, read, monkeypatch):
    """A reader that is taken over finds no password in its environment."""
    monkeypatch.setenv("KNOWLEDGE_BROKER_URL", "redis://:secret@localhost")

    (names,) = read(process, "environment")
    assert "PATH" in names
    assert "KNOWLEDGE_" not in names


def test_registry_that_does_not_start_is_a_mistake_of_the_installation(tmp_path):
    """It is no fault of the file."""
    process = ReaderProcess(BUDGET, factory="tests.fakes.hostile_reader:none")

    with pytest.raises(ConfigurationError, match="does not start"):
        process.read(tmp_path / "x", "x", lambda event: None, lambda: None)


def test_close_ends_the_process(process, read):
    """Nothing is left."""
    read(process, "words")
    pid = process.pid
    group = group_of(pid)

    process.close()

    assert 2 == len(group)
    eventually(lambda: all(map(is_over, group)), "the processes are gone")


OWNER = """
import os
import sys
import time
from pathlib import Path
from knowledge.pipeline.readers.process import ReaderProcess
from tests.fakes.hostile_reader import FACTORY

def tell(event):
    text = getattr(event, "text", "x" * 99)
    if len(text) < 99:
        print(text, flush=True)

ReaderProcess(factory=FACTORY).read(Path(sys.argv[1]), "x", tell, lambda: None)
"""


@pytest.fixture
def owned(tmp_path):
    """Starts an owner whose reader is at work: (owner, pids that the reader tells, folder of its temporary files)."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    def owned(what):
        (tmp_path / "x").write_text(what)
        command = [sys.executable, "-c", OWNER, str(tmp_path / "x")]
        environment = os.environ | {"TMPDIR": str(temporary)}
        owner = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        return owner, [int(pid) for pid in owner.stdout.readline().split()], temporary

    return owned


@pytest.mark.parametrize("what", ["start", "hold"])
def test_nothing_outlives_an_owner_that_is_killed(owned, what):
    """kill -9 of a worker's slot: its reader is gone at once, with what it has started, even in a library's endless loop."""
    owner, pids, temporary = owned(what)
    kept = list(temporary.iterdir())

    owner.kill()
    owner.wait()

    assert pids
    assert kept
    eventually(lambda: all(map(is_over, pids)), "the processes are gone")
    eventually(lambda: not list(temporary.iterdir()), "their temporary files are gone")


def test_being_told_twice_of_the_end_does_not_keep_the_guard_from_its_work(owned):
    """The pipe and the system both tell; the second word comes while it removes the temporary files."""
    owner, pids, temporary = owned("hold")
    (scratch,) = temporary.iterdir()
    for number in range(20_000):  # to remove them takes a while
        (scratch / str(number)).touch()
    guards = [one for one in psutil.Process(owner.pid).children(recursive=True) if one.pid not in pids]
    owner.kill()
    owner.wait()
    eventually(lambda: not all((scratch / str(number)).exists() for number in range(0, 20_000, 500)), "it removes them")
    for guard in guards:
        with suppress(psutil.NoSuchProcess):
            guard.send_signal(signal.SIGTERM)

    eventually(lambda: not list(temporary.iterdir()), "their temporary files are gone")


@pytest.fixture
def started(tmp_path):
    """An owner whose reader has started a program: (owner, ids of reader and program and of what `first` has printed)."""
    owners = []

    def started(first=""):
        (tmp_path / "x").write_text("start")
        code = OWNER.replace("        print(text, flush=True)", f"        {first or 'pass'}\n        print(text, flush=True)")
        owner = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "x")], stdout=subprocess.PIPE, text=True)
        owners.append(owner)
        return owner, [int(pid) for pid in owner.stdout.readline().split()]

    yield started
    for owner in owners:
        owner.kill()
        owner.wait()


def test_fork_of_an_owner_does_not_keep_its_reader_alive(started):
    """It holds the pipe open whose end the guard waits for; the system tells reader and guard all the same."""
    owner, (reader, program, fork) = started("text += f' {pid}' if (pid := os.fork()) else time.sleep(600)")
    try:
        owner.kill()
        owner.wait()

        eventually(lambda: is_over(reader) and is_over(program), "the processes are gone")
        assert not is_over(fork)
    finally:
        os.kill(fork, signal.SIGKILL)


def test_what_a_reader_has_started_ends_with_it(started):
    """Also when its owner, stopped just then, does nothing about it."""
    owner, (reader, program) = started()
    owner.send_signal(signal.SIGSTOP)
    eventually(lambda: psutil.STATUS_STOPPED == psutil.Process(owner.pid).status(), "it stands still")

    os.kill(reader, signal.SIGKILL)

    eventually(lambda: is_over(program), "the program is gone")
    assert psutil.STATUS_STOPPED == psutil.Process(owner.pid).status()


def test_reader_outlives_the_thread_that_has_started_it(process, read):
    """It belongs to the process: the next file, asked for by another thread, is read by the same one."""
    first = []
    thread = threading.Thread(target=lambda: first.extend(read(process, "words")))
    thread.start()
    thread.join()

    assert first == read(process, "words")


def test_threads_take_turns(process, read, tmp_path):
    """One file after the other; every thread gets its own answer."""
    got = {}

    def ask(number):
        path = tmp_path / f"{number}"
        path.write_text(f"words\nnumber {number}")
        reading = Reading(BUDGET)
        process.read(path, path.name, reading.take, lambda: time.sleep(0))
        got[number] = reading.result().documents[0].text

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {number: f"number {number}" for number in range(8)} == got


def test_short_plain_text_is_read_by_its_owner(tmp_path, process):
    """Everything else goes to the process, whatever it is called."""
    registry = ReaderRegistry([hostile_reader.HostileReader()], BUDGET, process)
    (tmp_path / "a.txt").write_text("words")
    (tmp_path / "b.txt").write_text("<html>words")
    (tmp_path / "b.html").write_text("words\n")

    own = registry.read(tmp_path / "a.txt", "a.txt", lambda: None).documents[0].text
    assert os.getpid() == int(own)
    with pytest.raises(CorruptSource):
        registry.read(tmp_path / "b.txt", "b.txt", lambda: None)
    other = registry.read(tmp_path / "b.html", "b.html", lambda: None)
    assert process.pid == int(other.documents[-1].text)


def test_names_that_are_no_text_arrive(process, tmp_path):
    """A path may hold bytes that are not UTF-8; the process opens the same file, and the details can be stored."""
    path = tmp_path / os.fsdecode(b"caf\xe9.hostile")
    path.write_text("refuse")

    with pytest.raises(EncryptedSource) as caught:
        process.read(path, path.name, lambda event: None, lambda: None)

    assert "caf\ufffd.hostile" == caught.value.details["name"]
