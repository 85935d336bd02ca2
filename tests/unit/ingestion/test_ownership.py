"""A run that has lost its job, or was asked to stop, at whatever moment: it writes nothing and pays for nothing more."""

from dataclasses import replace

import pytest

from knowledge.ingestion import index, prepare, recovery
from knowledge.ingestion.run import Run, perform
from knowledge.locks.file import FileLocks
from knowledge.model.documents import EmbedderSpec
from knowledge.model.inputs import DirectoryInput, NoteInput
from knowledge.model.jobs import JobStatus
from knowledge.model.status import ItemStatus
from tests.fakes.embedder_server import FakeEmbedderServer
from tests.house import DIMENSIONS, House

BATCH = 4
PARAGRAPHS = [f"Paragraph {number} tells of the lamp of lighthouse number {number}." for number in range(3 * BATCH)]
FINELY = {"chunk_size": 20, "chunk_overlap": 0, "chunk_strategy": "delimiter"}


@pytest.fixture
def provider():
    with FakeEmbedderServer(dimensions=DIMENSIONS) as server:
        yield server


@pytest.fixture
def house(tmp_path, provider):
    paid = EmbedderSpec(
        id="paid",
        kind="openai",
        dimensions=DIMENSIONS,
        endpoint=provider.endpoint,
        model="fake",
        max_batch_texts=BATCH,
        billed=True,
    )
    return House(tmp_path / "house", paid)


class Interfering:
    """A port that lets something happen after its first call of one method."""

    def __init__(self, real, method, event):
        self._real, self._method, self._event = real, method, event

    def __getattr__(self, name):
        call = getattr(self._real, name)
        if name != self._method:
            return call

        def interfered(*args, **options):
            answer = call(*args, **options)
            event, self._event = self._event, lambda: None
            event()
            return answer

        return interfered


def interfered(house, run, port, method, event):
    """The same run with a runtime whose port interferes."""
    return Run(replace(house.rt, **{port: Interfering(getattr(house.rt, port), method, event)}), run.job)


def steal(house, job):
    """What the sweep does to a run whose process stood still beyond its lease."""
    house.age(job.id, lease_until=1)
    assert recovery.settle_lost(house.rt, house.service.job(job.id), wait_seconds=0)


@pytest.mark.parametrize(
    ("port", "method", "sent"),
    [("files", "local", 0), ("readers", "read_snapshot", 0), ("indexes", "open", 0), ("cache", "put", BATCH)],
)
def test_index_run_that_has_lost_its_job_writes_nothing(house, provider, port, method, sent):
    """Whenever the row is taken, the item stays parked as it is, and no further text is sent."""
    base = house.base("paid", **FINELY)
    (note,) = house.add(base, NoteInput(content="\n\n".join(PARAGRAPHS)))
    claimed = house.claim(house.job_of(note))
    run = interfered(house, claimed, port, method, lambda: steal(house, claimed.job))
    perform(run, index.run)
    parked = house.item(note)

    assert (ItemStatus.FAILED, "indexing_interrupted") == (parked.status, parked.error)
    assert (JobStatus.CANCELLED, "job_abandoned") == (house.job_of(note).status, house.job_of(note).error)
    assert (sent, 0) == (len(provider.sent()), house.rt.index(base).counts().materials)


def test_prepare_run_that_has_lost_its_job_writes_nothing(house, tmp_path):
    """A directory whose expansion was taken away stays parked; no row, file or staged byte comes of what it went on with."""
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / "one.md").write_text("One page.")
    base = house.base()
    (root,) = house.add(base, DirectoryInput(path=folder))
    claimed = house.claim(house.job_of(root))

    run = interfered(house, claimed, "files", "stage_file", lambda: steal(house, claimed.job))
    perform(run, prepare.run)

    assert (ItemStatus.FAILED, "indexing_interrupted") == (house.item(root).status, house.item(root).error)
    assert ([root.id], [], 0) == ([item.id for item in house.items(base)], house.raw(base), house.staged(base))


def test_delete_is_seen_before_the_next_paid_request(house, provider):
    """A delete accepted while one answer is stored: that answer was the last one paid for."""
    base = house.base("paid", **FINELY)
    (note,) = house.add(base, NoteInput(content="\n\n".join(PARAGRAPHS)))
    claimed = house.claim(house.job_of(note))
    run = interfered(house, claimed, "cache", "put", lambda: house.service.delete_items(base.id, [note.id]))
    perform(run, index.run)

    assert BATCH == len(provider.sent())
    house.work(hurry=True)
    assert not house.exists(note)


def test_sweep_goes_on_after_a_step_that_breaks(monkeypatch, tmp_path):
    """An error of any kind in one step is told and does not keep the later steps from their work."""
    done = []

    def broken(rt):
        raise ZeroDivisionError

    class Rt:
        locks = FileLocks(tmp_path, 0)

    monkeypatch.setattr(recovery, "_STEPS", (broken, lambda rt: done.append(rt)))

    assert recovery.sweep(Rt()) is True
    assert 1 == len(done)
