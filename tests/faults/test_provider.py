"""The paid embedder slows down, fails or goes away in the middle of a document: what it was paid for is kept."""

import pytest

from knowledge.model.documents import text_hash
from knowledge.model.status import ItemStatus
from tests.faults.promises import assert_promises
from tests.fleet import BATCH_TEXTS, Blow, paragraphs

BATCHES = 5
RULES = {
    "rate limit": {"behaviour": "status", "status": 429, "headers": {"Retry-After": "1"}},
    "error": {"behaviour": "status", "status": 500},
    "cut connection": {"behaviour": "close"},
    "nonsense": {"behaviour": "short"},
}


@pytest.mark.parametrize("trouble", RULES)
def test_document_goes_on_after_the_last_answer_that_was_stored(fleet, base, trouble):
    """The fourth of five requests fails once: the next execution asks for the fourth and fifth batch, nothing else."""
    fleet.embedder.behave({**RULES[trouble], "skip": BATCHES - 2, "times": 1})
    texts = paragraphs(BATCHES * BATCH_TEXTS)
    note = fleet.add_note(base, *texts)

    assert ItemStatus.COMPLETED == fleet.settled(note).status
    sent = fleet.embedder.sent()
    fourth = slice((BATCHES - 2) * BATCH_TEXTS, (BATCHES - 1) * BATCH_TEXTS)
    expected = [1] * len(texts)
    expected[fourth] = [2] * BATCH_TEXTS
    assert expected == [sent[text_hash(text)] for text in texts]
    fleet.refused += BATCH_TEXTS
    assert_promises(fleet)


def test_slow_down_uses_up_no_attempt(fleet, base):
    """A provider that asks to wait six times is waited for six times."""
    fleet.embedder.behave({"behaviour": "status", "status": 429, "headers": {"Retry-After": "0.2"}, "times": 6})
    note = fleet.add_note(base, *paragraphs(1))

    assert ItemStatus.COMPLETED == fleet.settled(note).status
    assert (0, 7) == (fleet.job_of(note).attempt, fleet.embedder.requests())
    fleet.refused += 6
    assert_promises(fleet)


def test_kill_while_a_job_waits_for_its_provider_loses_nothing(fleet, base):
    """A job that was put back is nobody's: it outlives the worker and goes on where it was."""
    fleet.embedder.behave(  # to wait for so long that the worker is dead before the time has come
        {"behaviour": "status", "status": 429, "headers": {"Retry-After": "5"}, "skip": 1, "times": 1},
    )
    texts = paragraphs(2 * BATCH_TEXTS)
    note = fleet.add_note(base, *texts)
    fleet.embedder.wait_until_called(2)
    fleet.put_back(note)
    fleet.strike(Blow.KILL_WORKER)

    assert ItemStatus.COMPLETED == fleet.settled(note).status
    assert [1] * BATCH_TEXTS + [2] * BATCH_TEXTS == [fleet.embedder.sent()[text_hash(text)] for text in texts]
    fleet.refused += BATCH_TEXTS
    assert_promises(fleet)
