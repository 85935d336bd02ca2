"""kill -9 of a process while it indexes one note, at every moment of the work."""

import pytest

from knowledge.model.documents import text_hash
from knowledge.model.status import ItemStatus
from tests.faults.gates import Moment
from tests.faults.promises import assert_promises
from tests.fleet import BATCH_TEXTS, Blow, paragraphs

HELD_BY_THE_FLEET = (
    Moment.READING,
    Moment.READ,
    Moment.BEFORE_COMMIT,
    Moment.INSIDE_COMMIT,
    Moment.BETWEEN_COMMITS,
)
TEXTS = 2 * BATCH_TEXTS + 1  #: three requests to the embedder


@pytest.mark.parametrize("blow", [Blow.KILL_CHILD, Blow.KILL_WORKER])
@pytest.mark.parametrize("moment", HELD_BY_THE_FLEET)
def test_killed_job_is_parked_and_nothing_is_paid_twice(fleet, base, gate, moment, blow):
    """The item is a visible failure; adding the same text again pays for nothing that was paid for before."""
    gate(moment).arm()
    texts = paragraphs(TEXTS)
    note = fleet.add_note(base, *texts)
    fleet.strike(blow, gate(moment).wait())

    assert ("failed", "indexing_interrupted") == (fleet.settled(note).status, fleet.settled(note).error)
    assert_promises(fleet)
    assert [1] * TEXTS == asked_again(fleet, base, note, texts)


@pytest.mark.parametrize("blow", [Blow.KILL_CHILD, Blow.KILL_WORKER])
def test_killed_while_embedding_pays_again_for_the_answer_in_flight_only(fleet, base, blow):
    """The first answer was stored before the second request left: only the second is asked for twice."""
    fleet.embedder.behave({"behaviour": "gate", "skip": 1})
    texts = paragraphs(TEXTS)
    note = fleet.add_note(base, *texts)
    fleet.strike(blow, fleet.wait_until_embedding(note))

    assert ("failed", "indexing_interrupted") == (fleet.settled(note).status, fleet.settled(note).error)
    assert_promises(fleet)
    assert [1] * BATCH_TEXTS + [2] * BATCH_TEXTS + [1] == asked_again(fleet, base, note, texts)


def test_two_children_killed_together_are_both_settled(fleet, base, gate):
    """A worker that loses all its processes at once parks each item and goes on with new ones."""
    fleet.embedder.behave({"behaviour": "gate"})
    notes = [fleet.add_note(base, *paragraphs(2)) for _ in range(2)]
    fleet.embedder.wait_until_held(2)
    for note in notes:
        owner = fleet.job_of(note).owner
        fleet.strike(Blow.KILL_CHILD, owner.pid)

    assert ["indexing_interrupted"] * 2 == [fleet.settled(note).error for note in notes]
    assert_promises(fleet)


def test_waiting_jobs_survive_the_loss_of_the_worker(fleet, base):
    """Only what had begun is parked; what waited in the ledger or the queue is done when a worker is back."""
    fleet.embedder.behave({"behaviour": "gate"})
    notes = [fleet.add_note(base, *paragraphs(1)) for _ in range(12)]
    fleet.embedder.wait_until_held(2)
    fleet.strike(Blow.KILL_WORKER)
    fleet.let_go()
    found = [fleet.settled(note).status for note in notes]

    assert (2, 10) == (found.count(ItemStatus.FAILED), found.count(ItemStatus.COMPLETED))
    assert_promises(fleet)


def asked_again(fleet, base, note, texts):
    """Delete and add the same note once more; how often each of its texts has been sent in all."""
    fleet.delete(base, note)
    fleet.gone(note)
    again = fleet.settled(fleet.add_note(base, *texts))
    assert (ItemStatus.COMPLETED, TEXTS) == (again.status, again.chunk_count)
    sent = fleet.embedder.sent()
    return [sent.get(text_hash(text), 0) for text in texts]
