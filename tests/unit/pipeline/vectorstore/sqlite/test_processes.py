"""Several processes, threads and forks share one index through SQLite alone."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from knowledge.errors import KnowledgeError
from tests.bench.materials import materials, numbered_texts
from tests.bench.vector_sets import MAKERS
from tests.contracts.leaves import DIMENSIONS, leaf, vector_of
from tests.unit.pipeline.vectorstore.sqlite.soundness import assert_sound

PEER = """
import sys
from pathlib import Path
from knowledge.pipeline.vectorstore.sqlite import SqliteIndexStores
from tests.contracts.leaves import DIMENSIONS, leaf, vector_of

root = Path(sys.argv[1])
stores = SqliteIndexStores(lambda base_id: root / base_id / ".knowledge" / "index.sqlite", busy_timeout_seconds=30)
for line in sys.stdin:
    verb, *words = line.split()
    if verb == "open":
        store = stores.open(words[0], DIMENSIONS); answer = ""
    elif verb == "create":
        store = stores.create(words[0], DIMENSIONS); answer = ""
    elif verb == "put":
        store.rebuild_material(leaf(words[0], " ".join(words[1:]))); answer = ""
    elif verb == "put-many":
        for n in range(int(words[1])):
            store.rebuild_material(leaf(f"{words[0]}{n}", f"tick {words[0]} {n}"))
        answer = ""
    elif verb == "delete":
        answer = str(store.delete_materials(words))
    elif verb == "words":
        answer = " ".join(sorted(hit.item_id for hit in store.lexical(" ".join(words), 1000)))
    elif verb == "near":
        answer = " ".join(hit.item_id for hit in store.nearest(vector_of(" ".join(words)), 1))
    print(answer, flush=True)
"""


class Peer:
    """Another process with the same stores; `ask` sends one line and waits for the answer."""

    def __init__(self, root) -> None:
        command = [sys.executable, "-c", PEER, str(root)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def send(self, line: str) -> None:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        answer = self.process.stdout.readline()
        assert answer, "the peer died"
        return answer.strip()

    def ask(self, line: str) -> str:
        self.send(line)
        return self.answer()


@pytest.fixture
def new_peer(tmp_path):
    peers = []

    def make() -> Peer:
        peers.append(Peer(tmp_path))
        return peers[-1]

    yield make
    for peer in peers:
        peer.process.stdin.close()
        assert 0 == peer.process.wait(30)
        peer.process.stdout.close()


def test_commits_are_seen_across_processes(stores, new_peer):
    """Each sees what the other has written, at once, by words and by vectors, in both directions."""
    peer = new_peer()
    store = stores.create("shared", DIMENSIONS)
    peer.ask("open shared")

    for turn in range(5):
        peer.ask(f"put theirs{turn} petrel {turn}")
        assert f"theirs{turn}" in [hit.item_id for hit in store.lexical("petrel", 50)]
        assert f"theirs{turn}" == store.nearest(vector_of(f"petrel {turn}"), 1)[0].item_id
        store.rebuild_material(leaf(f"ours{turn}", f"gannet {turn}"))
        assert f"ours{turn}" in peer.ask("words gannet").split()
        assert f"ours{turn}" == peer.ask(f"near gannet {turn}")
    assert "2" == peer.ask("delete ours0 ours1")
    assert ["ours2", "ours3", "ours4"] == sorted(hit.item_id for hit in store.lexical("gannet", 50))


def test_codes_follow_another_process(stores, new_peer):
    """A reader whose codes are in memory finds vectors that another process adds, and no longer those it removes."""
    peer = new_peer()
    rows, _ = MAKERS["blended"](2000, 1, DIMENSIONS, 1)
    store = stores.create("codes", DIMENSIONS)
    store.rebuild_materials(materials(numbered_texts(2000), rows, units_each=20))
    store.nearest(vector_of("petrel"), 5)
    peer.ask("open codes")

    peer.ask("put new petrel")
    assert "new" == store.nearest(vector_of("petrel"), 1)[0].item_id
    peer.ask("put new gannet")
    assert "new" == store.nearest(vector_of("gannet"), 1)[0].item_id
    peer.ask("delete new")
    assert "new" not in [hit.item_id for hit in store.nearest(vector_of("gannet"), 100)]
    assert "98" == peer.ask("delete " + " ".join(f"item{n}" for n in range(98)))  # makes the peer renew all codes
    assert {"item98", "item99"} == {hit.item_id for hit in store.nearest(vector_of("gannet"), 100)}


def test_processes_that_write_at_once_all_succeed(stores, new_peer):
    """Writers of several processes wait for each other; nothing is lost and the tables agree."""
    store = stores.create("busy", DIMENSIONS)
    peers = [new_peer() for _ in range(3)]
    for peer in peers:
        peer.ask("open busy")
    for name, peer in zip("xyz", peers, strict=True):
        peer.send(f"put-many {name} 40")
    for n in range(40):
        store.rebuild_material(leaf(f"w{n}", f"tick w {n}"))
    for peer in peers:
        peer.answer()

    assert 160 == store.counts().materials == len(store.lexical("tick", 1000))
    assert_sound(store.path)


def test_processes_that_create_at_once_share_one_index(stores, new_peer):
    """Whoever lays the file out first, all use it."""
    peers = [new_peer() for _ in range(4)]
    for peer in peers:
        peer.send("create race")
    for peer in peers:
        peer.answer()
    for n, peer in enumerate(peers):
        peer.ask(f"put i{n} tick {n}")

    assert ["i0", "i1", "i2", "i3"] == sorted(hit.item_id for hit in stores.open("race", DIMENSIONS).lexical("tick", 10))


def test_dropped_and_remade_by_another_process(stores, new_peer):
    """Opening again notices that the file is another one."""
    store = stores.create("remade", DIMENSIONS)
    store.rebuild_material(leaf("a", "alpha"))
    for path in store.path.parent.iterdir():
        path.unlink()
    peer = new_peer()
    peer.ask("create remade")
    peer.ask("put b beta")

    assert ["b"] == list(stores.open("remade", DIMENSIONS).item_ids())


def in_child(work: Callable[[], str]) -> str:
    """What `work` answers in a forked child."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            answer = work()
        except BaseException as error:
            answer = repr(error)
        os.write(write, answer.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        answer = pipe.read()
    os.waitpid(pid, 0)
    return answer


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_child_uses_connections_of_its_own(stores):
    """Parent and child go on reading and writing after a fork, also with a store opened before it."""
    rows, _ = MAKERS["blended"](2000, 1, DIMENSIONS, 1)
    store = stores.create("fork", DIMENSIONS)
    store.rebuild_materials(materials(numbered_texts(2000), rows, units_each=20))
    store.nearest(vector_of("x"), 5)

    def work() -> str:
        store.rebuild_material(leaf("child", "petrel"))
        stores.open("fork", DIMENSIONS).rebuild_material(leaf("child2", "gannet"))
        return f"{store.nearest(vector_of('petrel'), 1)[0].item_id} {store.lexical('gannet', 1)[0].item_id}"

    assert "child child2" == in_child(work)
    assert "child" == store.nearest(vector_of("petrel"), 1)[0].item_id
    store.rebuild_material(leaf("parent", "fulmar"))
    assert "parent" == in_child(lambda: store.lexical("fulmar", 1)[0].item_id)
    assert_sound(store.path)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_fork_inside_a_call_leaves_no_lock_behind(stores):
    """A child forked while another thread searches is not stuck on that thread's lock."""
    store = stores.create("midcall", DIMENSIONS)
    store.rebuild_material(leaf("a", "alpha"))
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with store._memory().codes():
            entered.set()
            leave.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    assert entered.wait(30)
    try:
        assert "a" == in_child(lambda: store.nearest(vector_of("alpha"), 1)[0].item_id)
    finally:
        leave.set()
        holder.join(30)


def test_threads_share_a_store(stores):
    """Readers and writers of several threads see whole commits only, and no error."""
    store = stores.create("threads", DIMENSIONS)
    store.rebuild_material(leaf("pair", "left 0", "right 0"))
    done, faults = threading.Event(), []

    def guarded(work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                work()
            except (KnowledgeError, AssertionError) as error:
                faults.append(error)

        return run

    def write() -> None:
        for turn in range(1, 60):
            store.rebuild_material(leaf("pair", f"left {turn}", f"right {turn}"))
        done.set()

    def read() -> None:
        while not done.is_set():
            left, right = store.lexical("left right", 10)
            assert {"pair"} == {left.item_id, right.item_id}
            assert 2 == len(store.nearest(vector_of("left 1"), 10))
            first, second = store.units("pair")
            assert first.unit.text.split()[1] == second.unit.text.split()[1]

    threads = [threading.Thread(target=guarded(work)) for work in (write, read, read, read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert [] == faults
    assert_sound(store.path)
