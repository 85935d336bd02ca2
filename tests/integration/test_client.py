"""The thin client and a real fleet: real broker, real workers, killed and stopped for real."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis
from celery import Celery

from config import broker, flower
from config.settings import Settings, load
from deploy.run import stack
from deploy.run.procfile import parse
from knowledge import BaseInput, DirectoryInput, FileInput, KnowledgeClient, NoteInput
from knowledge.errors import BrokerUnavailable, CommandTimeout, ItemNotFound, PathNotAllowed
from knowledge.locks.file import FileLocks
from knowledge.model.status import ItemStatus
from tests.fleet import FLOWER, START_SECONDS
from tests.waiting import PATIENCE_SECONDS, wait_until

ROOT = Path(__file__).parents[2]
UNSPEAKABLE = "zzyzx"


@dataclass(frozen=True)
class Fleet:
    """One data directory with everything running on it."""

    environ: dict[str, str]
    inbox: Path

    @property
    def settings(self) -> Settings:
        return load(self.environ)

    @property
    def url(self) -> str:
        return broker.endpoint(self.settings)

    def client(self, timeout_seconds: float = 60.0) -> KnowledgeClient:
        return KnowledgeClient(self.url, timeout_seconds=timeout_seconds)

    def pid(self, name: str) -> int:
        """Of this line's process; 0 while there is none."""
        return int(stack.state(self.settings)["processes"][name]["pid"] or 0)

    def kill(self, name: str) -> None:
        """End one line at once, children included, and wait until the supervisor has started it again."""
        before = self.pid(name)
        os.killpg(before, signal.SIGKILL)
        wait_until(lambda: self.pid(name) not in (before, 0))

    @contextmanager
    def holding(self, base_id: str) -> Iterator[None]:
        """Another process changes this base meanwhile."""
        with FileLocks(self.settings.data_dir / "locks", 30).base(base_id):
            yield


def new_fleet(folder: Path, **more: str) -> Fleet:
    inbox = folder / "inbox"
    inbox.mkdir(parents=True)
    roots = json.dumps([str(inbox)])
    environ = {
        "KNOWLEDGE_DATA_DIR": str(folder / "data"),
        "KNOWLEDGE_DRAIN_SECONDS": "2",
        "KNOWLEDGE_LOCK_SECONDS": "200",  # longer than any test holds a base, also on a busy machine
        "KNOWLEDGE_IMPORT_ROOTS": roots,
    }
    return Fleet({**os.environ, **FLOWER, **environ, **more}, inbox)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    fleet = new_fleet(tmp_path_factory.mktemp("fleet"))
    stack.up(fleet.environ, wait_seconds=START_SECONDS)
    yield fleet
    stack.down(fleet.environ)


@pytest.fixture
def client(fleet: Fleet) -> Iterator[KnowledgeClient]:
    with fleet.client() as client:
        yield client


def answers_kept(fleet: Fleet) -> list[bytes]:
    with redis.Redis.from_url(fleet.url) as looking:
        return looking.keys("celery-task-meta-*")


def test_from_nothing_to_a_hit_and_away(fleet, client):
    """A whole life through the broker, with nothing but its address; progress is told while waiting."""
    (fleet.inbox / "docs").mkdir()
    (fleet.inbox / "docs" / "keeper.md").write_text("The keeper winds the clockwork.")
    base = client.create_base(BaseInput(name="whole", embedder="local/hashing"))
    told = []

    added = client.add_items(base.id, [DirectoryInput(path=fleet.inbox / "docs"), NoteInput(content="A goat.")])
    assert {ItemStatus.COMPLETED: 2} == client.wait(added, told.append, timeout_seconds=200).counts.leaves
    assert told
    assert "docs/keeper.md" == client.search(base.id, "clockwork").hits[0].concept_id

    (fleet.inbox / "docs" / "new.md").write_text("The fog signal sounds twice.")
    waited = client.wait(client.reindex_items(base.id, [added.items[0].id]), timeout_seconds=200)
    assert ("completed", {ItemStatus.COMPLETED: 2}) == (waited.job.status, waited.counts.leaves)
    assert "docs/new.md" == client.search(base.id, "fog signal").hits[0].concept_id

    client.wait(client.delete_items(base.id, [item.id for item in added.items]), timeout_seconds=200)
    with pytest.raises(ItemNotFound) as gone:
        client.item(added.items[0].id)
    assert (404, [added.items[0].id]) == (gone.value.http_status, [gone.value.details["item_id"]])
    client.delete_base(base.id)


def test_nothing_of_it_stays_in_the_broker(fleet, client):
    """Answers are removed when they are read, and jobs leave none: the result store is empty after work and commands."""
    base = client.create_base(BaseInput(name="forgotten", embedder="local/hashing"))
    client.wait(client.add_items(base.id, [NoteInput(content=f"note {number}") for number in range(20)]), timeout_seconds=200)

    assert [] == answers_kept(fleet)


def test_nobody_who_watches_sees_what_was_said(fleet, client):
    """Events, Flower and logs show operations and ids; no content, path, title, query, nor any part of an answer."""
    (fleet.inbox / f"{UNSPEAKABLE}.txt").write_text(f"It says {UNSPEAKABLE}.")
    seen: list[dict[str, object]] = []
    watcher = Celery("watcher", broker=fleet.url, set_as_current=False)
    with watcher.connection_for_read() as connection:
        receiver = watcher.events.Receiver(connection, handlers={"*": seen.append})
        watching = threading.Thread(target=lambda: receiver.capture(limit=None, timeout=None, wakeup=True), daemon=True)
        watching.start()
        wait_until(lambda: bool(seen))

        base = client.create_base(BaseInput(name=UNSPEAKABLE))
        receipt = client.add_items(
            base.id,
            [NoteInput(content=UNSPEAKABLE), FileInput(path=fleet.inbox / f"{UNSPEAKABLE}.txt")],
            idempotency_key=UNSPEAKABLE,
        )
        client.wait(receipt, timeout_seconds=200)
        assert client.search(base.id, UNSPEAKABLE).hits
        with pytest.raises(PathNotAllowed):
            client.add_items(base.id, [FileInput(path=Path(f"/{UNSPEAKABLE}"))])
        client.list_items(base.id)
        done = client.preview(receipt.items[0].id)
        wait_until(lambda: sum(event["type"] == "task-succeeded" for event in seen) > 5)
        heard = {event["uuid"] for event in seen if event["type"] == "task-succeeded"}
        wait_until(lambda: heard <= flower_tasks(fleet).keys())
        receiver.should_stop = True
        watching.join(PATIENCE_SECONDS)
    watcher.close()

    assert UNSPEAKABLE in done.text
    assert any("add_items" in str(event.get("args")) for event in seen)
    assert UNSPEAKABLE not in json.dumps(seen, default=str)
    told = json.dumps(flower_tasks(fleet))
    assert "add_items" in told
    assert UNSPEAKABLE not in told
    logs = {path.name: path.read_text() for path in (fleet.settings.run_dir / "logs").iterdir()}
    assert "knowledge.command" in logs["commands.log"]
    assert [] == [name for name, text in logs.items() if UNSPEAKABLE in text]


def flower_tasks(fleet: Fleet) -> dict[str, object]:
    """What Flower tells of every task that it has seen."""
    login = f"{fleet.settings.flower_user}:{flower.password(fleet.settings)}"
    request = urllib.request.Request(f"{flower.address(fleet.settings)}/api/tasks?limit=10000")
    request.add_header("Authorization", "Basic " + b64encode(login.encode()).decode())
    with urllib.request.urlopen(request, timeout=30) as answer:
        tasks: dict[str, object] = json.load(answer)
    return tasks


def test_one_client_serves_many_threads(fleet, client):
    """Answers reach the thread that asked, and no other."""
    base = client.create_base(BaseInput(name="threads"))

    def add(number: int) -> tuple[int, str]:
        (item,) = client.add_items(base.id, [NoteInput(content="text", title=f"note {number}")]).items
        assert client.item(item.id).source == item.source
        return number, item.source

    with ThreadPoolExecutor(24) as pool:
        added = list(pool.map(add, range(96)))

    assert [(number, f"note {number}") for number in range(96)] == added
    assert 96 == client.status_counts(base.id).total
    assert [] == answers_kept(fleet)


def test_operations_that_wait_hold_back_neither_questions_nor_deletes(fleet, client):
    """While more operations wait for one base than there are threads, questions are answered and another base's delete ends."""
    busy, other = client.create_base(BaseInput(name="busy")), client.create_base(BaseInput(name="other"))
    gone = client.add_items(other.id, [NoteInput(content="two")])
    client.wait(gone, timeout_seconds=200)
    number = fleet.settings.commands_concurrency + 8
    with ThreadPoolExecutor(number) as pool, fleet.client(timeout_seconds=250) as patient:
        with fleet.holding(busy.id):
            wanted = [NoteInput(content="one")]
            waiting = [pool.submit(patient.add_items, busy.id, wanted, idempotency_key="k") for _ in range(number)]
            with fleet.client(timeout_seconds=20) as asking:
                for _ in range(10):
                    assert 0 == asking.status_counts(busy.id).total
            house = ["item", "delete", other.id, "--all", "--wait", "--timeout", "150"]
            done = subprocess.run(
                [sys.executable, "-m", "knowledge.interfaces.cli", *house],
                cwd=ROOT, env=fleet.environ, capture_output=True, text=True, check=False, timeout=250,
            )  # fmt: skip
            assert 0 == done.returncode, done
        receipts = [future.result(timeout=250) for future in waiting]

    assert 1 == len({receipt.items[0].id for receipt in receipts}) == client.status_counts(busy.id).total


def test_add_whose_answer_was_lost_is_asked_again(fleet, client):
    """The fleet's command process dies in the middle: the client hears of it in time, and the same key adds once."""
    base = client.create_base(BaseInput(name="lost"))
    wanted = [NoteInput(content="only once")]
    with fleet.client(timeout_seconds=4) as hasty, ThreadPoolExecutor(1) as pool, fleet.holding(base.id):
        log = fleet.settings.run_dir / "logs" / "commands.log"
        before = log.read_text().count("received")
        adding = pool.submit(hasty.add_items, base.id, wanted, idempotency_key="k")
        wait_until(lambda: log.read_text().count("received") > before)
        fleet.kill("commands")
        with pytest.raises(CommandTimeout):
            adding.result(timeout=200)

    first = client.add_items(base.id, wanted, idempotency_key="k")
    second = client.add_items(base.id, wanted, idempotency_key="k")
    assert [item.id for item in first.items] == [item.id for item in second.items]
    assert 1 == client.list_items(base.id).total


def test_broker_that_is_killed_is_told_and_found_again(fleet, client):
    """A client outlives the broker's death: an error of its own meanwhile, answers afterwards."""
    base = client.create_base(BaseInput(name="survivor"))
    os.killpg(fleet.pid("broker"), signal.SIGKILL)

    deadline = time.monotonic() + 120
    while True:
        try:
            with fleet.client(timeout_seconds=5) as patient:
                assert "survivor" == patient.base(base.id).name
            break
        except (BrokerUnavailable, CommandTimeout):
            assert time.monotonic() < deadline
    assert "survivor" == client.base(base.id).name


# a broker and nobody behind it -----------------------------------------------------------------------------------------------


@pytest.fixture
def lonely(tmp_path: Path) -> Iterator[tuple[Fleet, subprocess.Popen[bytes]]]:
    """A fleet without workers: only its broker runs."""
    fleet = new_fleet(tmp_path)
    running = subprocess.Popen([sys.executable, "-m", "config.broker"], cwd=ROOT, env=fleet.environ, stderr=subprocess.DEVNULL)
    wait_until(lambda: broker.ping(fleet.settings))
    yield fleet, running
    running.send_signal(signal.SIGCONT)
    running.terminate()
    running.wait(PATIENCE_SECONDS)


def test_without_workers_a_command_times_out_and_is_not_run_later(lonely):
    """The time is over when it was said to be, and workers that come later leave alone what nobody waits for any more."""
    fleet, _ = lonely
    with fleet.client(timeout_seconds=1) as hasty, pytest.raises(CommandTimeout) as late:
        hasty.create_base(BaseInput(name="too late"))
    assert "create_base" == late.value.details["operation"]

    line = parse(ROOT / "Procfile")["commands"].command
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    worker = subprocess.Popen(
        ["/bin/sh", "-c", f"exec {line}"], cwd=ROOT, env={**fleet.environ, "PATH": path}, stderr=subprocess.DEVNULL
    )
    try:
        with fleet.client(timeout_seconds=120) as client:
            assert [] == client.find_bases().bases
            assert "in time" == client.create_base(BaseInput(name="in time")).name
    finally:
        worker.terminate()
        worker.wait(60)


def test_broker_that_freezes_in_the_middle_is_noticed(lonely):
    """Stopped while a command waits for its answer: an error within seconds, not at the end of a long timeout."""
    fleet, running = lonely
    with fleet.client(timeout_seconds=600) as client, ThreadPoolExecutor(1) as pool:
        asking = pool.submit(client.workers)
        with redis.Redis.from_url(fleet.url) as looking:
            wait_until(lambda: looking.llen("knowledge.main.commands") == 1)
        running.send_signal(signal.SIGSTOP)
        with pytest.raises(BrokerUnavailable):
            asking.result(timeout=200)
        running.send_signal(signal.SIGCONT)
