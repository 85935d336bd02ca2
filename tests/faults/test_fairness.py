"""Nobody waits behind somebody else's backlog, and the clock's messages do not pile up."""

import json
import math

from knowledge.model.jobs import ACTIVE_JOB, JobStatus, JobType
from knowledge.model.status import ItemStatus
from knowledge.topology import UPKEEP_QUEUE
from tasks.job import CHAIN_SECONDS
from tests.faults.promises import assert_promises
from tests.fleet import paragraphs
from tests.waiting import eventually

MANY = 100
JOB_SECONDS = 0.4
WINDOW = 5
SLOTS = 2


def test_one_note_does_not_wait_behind_the_backlog_of_another_base(fleet, base):
    """When the single note of base B is done, base A has done little more than what was in flight before it."""
    fleet.embedder.behave({"behaviour": "gate"})
    folder = fleet.root / "many"
    folder.mkdir()
    for number, text in enumerate(paragraphs(MANY)):
        (folder / f"{number:03}.md").write_text(text)
    fleet.add_directory(base, folder)
    eventually(lambda: len(fleet.jobs(*ACTIVE_JOB, type=JobType.INDEX_DOCUMENTS, base=base)) == MANY, "all of A waits")
    fleet.embedder.wait_until_held(SLOTS)
    other = fleet.new_base("B")
    note = fleet.add_note(other, *paragraphs(1))
    fleet.embedder.behave({"behaviour": "delay", "seconds": JOB_SECONDS})
    fleet.embedder.release()
    fleet.settled(note)
    finished = fleet.job_of(note).finished_at
    before = [job for job in fleet.jobs(JobStatus.COMPLETED, base=base) if job.finished_at <= finished]

    a_delivery = math.ceil(CHAIN_SECONDS / JOB_SECONDS)  # jobs that one message may lead to, one after the other
    assert len(before) <= WINDOW * a_delivery + SLOTS
    assert_promises(fleet)


def test_delete_starts_although_fifty_long_jobs_hold_every_index_slot(fleet, base):
    """Control work has a worker of its own: a delete is done while no index job can move."""
    old = fleet.add_note(base, *paragraphs(2))
    fleet.settled(old)
    fleet.embedder.behave({"behaviour": "gate"})
    notes = [fleet.add_note(base, *paragraphs(1)) for _ in range(50)]
    fleet.embedder.wait_until_held(SLOTS)
    fleet.delete(base, old)
    fleet.gone(old)

    assert SLOTS == len(fleet.jobs(JobStatus.RUNNING, type=JobType.INDEX_DOCUMENTS, base=base))
    fleet.delete(base, *notes[10:])
    fleet.gone(*notes[10:])
    fleet.let_go()
    assert {ItemStatus.COMPLETED} == {fleet.settled(note).status for note in notes[:10]}
    assert_promises(fleet)


def test_beats_of_stopped_workers_are_thrown_away(fleet, base):
    """The control worker comes back to a heap of old beats, and runs next to none of them."""
    fleet.kill_worker("control")
    eventually(lambda: fleet.waiting_messages(UPKEEP_QUEUE) >= 20, "beats pile up")
    old = waiting_ids(fleet)
    fleet.launch("control")
    fleet.wait_until_ready("control")
    eventually(lambda: not old & waiting_ids(fleet), "every old beat has been taken")
    ran = [beat for beat in old if f"[{beat}] succeeded" in fleet.log("control")]

    assert len(ran) <= 4
    assert_promises(fleet)


def waiting_ids(fleet):
    with fleet.redis() as client:
        return {json.loads(message)["headers"]["id"] for message in client.lrange(UPKEEP_QUEUE, 0, -1)}
