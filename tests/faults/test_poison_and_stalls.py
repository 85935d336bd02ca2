"""Files that kill whoever reads them, and jobs that hang: bounded, visible, and other work goes on."""

import pytest

from knowledge.model.inputs import FileInput
from knowledge.model.jobs import JobStatus
from knowledge.model.status import ItemStatus
from tests.faults.gates import Moment
from tests.faults.promises import assert_promises
from tests.fleet import BATCH_TEXTS, paragraphs

SETTINGS = {"KNOWLEDGE_STALL_SECONDS": "2.5"}


@pytest.mark.parametrize("death", ["SIGSEGV", "SIGKILL"])
def test_poison_file_is_tried_once_and_others_are_done(fleet, base, tmp_path, death):
    """Three poison files among notes: each kills one process, is a visible failure, and stops nobody."""
    poison = []
    for number in range(3):
        path = tmp_path / f"poison-{number}.md"
        path.write_text(f"{paragraphs(1)[0]}\n\ndie: {death}\n")
        poison += fleet.add(base, FileInput(path=path))
        fleet.killed += 1
    notes = [fleet.add_note(base, *paragraphs(2)) for _ in range(6)]

    assert {"indexing_interrupted"} == {fleet.settled(item).error for item in poison}
    assert {ItemStatus.COMPLETED} == {fleet.settled(note).status for note in notes}
    for item in poison:
        job = fleet.job_of(item)
        fleet.deliver(job)  # a broker that hands it out again finds a closed row
        assert (JobStatus.CANCELLED, "job_abandoned", 1) == (job.status, job.error, len(fleet.job_ids(item)))
    assert_promises(fleet)


@pytest.mark.parametrize("moment", [Moment.READING, Moment.EMBEDDING])
def test_hanging_job_is_failed_and_its_slot_is_free_again(fleet, base, gate, moment):
    """A stage without progress fails as `stalled`, and its process is replaced."""
    if moment is Moment.EMBEDDING:
        fleet.embedder.behave({"behaviour": "gate", "times": 1})
    else:
        gate(moment).arm()
    note = fleet.add_note(base, *paragraphs(2))
    pid = fleet.wait_until_embedding(note) if moment is Moment.EMBEDDING else gate(moment).wait()
    fleet.killed += 1
    other = fleet.add_note(base, *paragraphs(2))

    assert ItemStatus.COMPLETED == fleet.settled(other).status
    assert ("failed", "stalled") == (fleet.settled(note).status, fleet.settled(note).error)
    fleet.ended(pid)
    assert_promises(fleet)


def test_job_that_hangs_with_the_base_lock_gives_it_up(fleet, base, gate):
    """A commit that hangs ends with its process, the lock is free at once, the item is parked."""
    gate(Moment.INSIDE_COMMIT).arm()
    note = fleet.add_note(base, *paragraphs(2))
    pid = gate(Moment.INSIDE_COMMIT).wait()
    fleet.killed += 1
    fleet.ended(pid)

    assert ItemStatus.FAILED == fleet.settled(note).status
    assert_promises(fleet)


def test_slow_job_that_makes_progress_is_left_alone(fleet, base):
    """Six requests of 0.6 s each last longer than the stall time together; the job completes."""
    fleet.embedder.behave({"behaviour": "delay", "seconds": 0.6})
    note = fleet.add_note(base, *paragraphs(6 * BATCH_TEXTS))

    assert ItemStatus.COMPLETED == fleet.settled(note).status
    assert {1} == set(fleet.embedder.sent().values())
    assert_promises(fleet)
