"""Limits hold over processes: two that share a catalogue ask a host no more than one may."""

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from knowledge.model.inputs import UrlInput
from knowledge.model.status import ItemStatus
from knowledge.pipeline.http.address import AllowList
from knowledge.pipeline.http.client import WebClient
from knowledge.pipeline.sources.robots import Robots
from knowledge.pipeline.sources.url import Web
from tests.fakes.web_server import WebServer
from tests.house import House
from tests.waiting import eventually

ROOT = Path(__file__).parents[3]
#: What each of the two processes runs until the file says stop: whatever job is due and free.
WORKER = """
import sys, time
from pathlib import Path
from knowledge.model.jobs import JobStatus
from tests.unit.ingestion.test_capture_limits import house_at
house = house_at(Path(sys.argv[1]), at_once=int(sys.argv[2]), per_minute=int(sys.argv[3]))
print("ready", flush=True)
while not (house.root / "stop").exists():
    for job in house.jobs(JobStatus.PENDING):
        house.deliver(job.id)
    time.sleep(0.05)
"""


def house_at(root: Path, *, at_once: int, per_minute: int) -> House:
    client = WebClient(allow=AllowList.of(["127.0.0.1"]))
    return House(root, window=20, web=Web(client, Robots(client), host_at_once=at_once, host_per_minute=per_minute))


@pytest.fixture
def web():
    with WebServer() as web:
        yield web


@pytest.fixture
def workers(tmp_path):
    """Starts two processes on the house; they end with the test."""
    started = []

    def start(at_once, per_minute):
        for _ in range(2):
            command = [sys.executable, "-c", WORKER, str(tmp_path), str(at_once), str(per_minute)]
            started.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, env=dict(os.environ)))
        assert [b"ready\n"] * 2 == [process.stdout.readline() for process in started]

    yield start
    (tmp_path / "stop").touch()
    for process in started:
        process.communicate(timeout=250)


def pages(house, web, count, seconds):
    for number in range(count):
        web.page(f"/{number}", f"<h1>Page {number}</h1><p>It says {number} things, and no more.</p>", seconds=seconds)
    base = house.base(None)
    return house.add(base, *(UrlInput(url=web.url(f"/{number}")) for number in range(count)))


def wait_until_completed(house, items, count):
    def completed():
        return sum(house.item(item).status is ItemStatus.COMPLETED for item in items) >= count

    eventually(completed, f"{count} pages are indexed")


def test_two_processes_together_ask_a_host_so_many_at_once(tmp_path, web, workers):
    """Six slow pages of one host, one at once; without the limit each process would fetch on its own."""
    house = house_at(tmp_path, at_once=1, per_minute=600)
    items = pages(house, web, 6, seconds=0.3)

    workers(1, 600)
    wait_until_completed(house, items, 6)

    assert (1, 6) == (web.most_at_once, len(web.asked))


def test_two_processes_together_start_so_many_a_minute(tmp_path, web, workers):
    """Of eight pages three are asked for; the others wait in the ledger."""
    house = house_at(tmp_path, at_once=8, per_minute=3)
    items = pages(house, web, 8, seconds=0.0)

    workers(8, 3)
    wait_until_completed(house, items, 3)

    assert 3 == len(web.asked)
    assert all(later.at - earlier.at < 60 for earlier, later in pairwise(web.asked))
