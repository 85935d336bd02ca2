"""Case 111: work that is not wanted any more stops at the next edge of a batch, within seconds, also where leases are long."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from knowledge.model.documents import text_hash
from knowledge.model.inputs import NoteInput, Strategy
from knowledge.model.jobs import JobStatus, JobType
from tests.faults.gates import Moment
from tests.faults.promises import assert_promises
from tests.fleet import BATCH_TEXTS, paragraphs
from tests.waiting import eventually

SETTINGS = {"KNOWLEDGE_LEASE_SECONDS": "60", "KNOWLEDGE_SETTLE_SECONDS": "30"}  #: as delivered: a renewal every ten seconds
LATENCY_SECONDS = 5.0
BATCHES = 40  #: of half a second each: nothing here ends by itself in time
WAYS = ["its job is cancelled", "it is deleted", "its base is deleted", "it is replaced"]


def stop(fleet, base, note, title, way):
    match way:
        case "its job is cancelled":
            fleet.service.cancel_job(fleet.job_of(note).id)
        case "it is deleted":
            fleet.delete(base, note)
        case "its base is deleted":
            fleet.service.delete_base(base.id)
            fleet.bases.remove(base)
            fleet.texts.clear()
        case "it is replaced":
            again = NoteInput(content="another text", title=title)
            (new,) = fleet.service.add_items(base.id, [again], strategy=Strategy.REPLACE).items
            fleet.texts = {new.id: ["another text"]}


@pytest.mark.parametrize("way", WAYS)
def test_case_111_work_stops_within_seconds(fleet, base, way):
    """From the request to the end of the job's run; once that was heard, at most one batch more is paid for."""
    fleet.embedder.behave({"behaviour": "delay", "seconds": 0.5})
    texts = paragraphs(BATCHES * BATCH_TEXTS)
    note = fleet.add_note(base, *texts)
    fleet.embedder.wait_until_called(2)
    job, title = fleet.job_of(note), fleet.service.item(note).source

    began = time.monotonic()
    with ThreadPoolExecutor(1) as threads:
        stopping = threads.submit(stop, fleet, base, note, title, way)  # some ways take until the run has ended
        eventually(lambda: fleet.job(job).cancel_requested_at or stopping.done(), "the run is asked to stop")
        asked = fleet.embedder.requests()
        stopping.result()
    eventually(
        lambda: not [one for one in fleet.jobs(JobStatus.RUNNING) if one.id == job.id],
        "the run has ended",
        seconds=max(0.1, LATENCY_SECONDS - (time.monotonic() - began)),
    )

    paid = fleet.embedder.sent().keys() & {text_hash(text) for text in texts}
    assert len(paid) <= (asked + 1) * BATCH_TEXTS
    if way == "it is deleted":
        fleet.gone(note, seconds=LATENCY_SECONDS)
    if way == "its job is cancelled":
        assert "indexing_interrupted" == fleet.settled(note).error
    assert_promises(fleet)


def test_case_111_an_expansion_stops_within_seconds(fleet, base, tmp_path, gate):
    """Between two files of a folder; what had its row by then goes too."""
    for number in range(200):
        (tmp_path / f"{number:03}.md").write_text(f"Number {number} of the lighthouse.")
    gate(Moment.COPYING).arm()
    root = fleet.add_directory(base, tmp_path)
    gate(Moment.COPYING).wait()
    job = fleet.job_of(root, JobType.PREPARE_ROOT)

    fleet.delete(base, root)
    gate(Moment.COPYING).open()
    eventually(lambda: fleet.job(job).status is JobStatus.CANCELLED, "the expansion has ended", seconds=LATENCY_SECONDS)

    fleet.gone(root)
    assert_promises(fleet)
