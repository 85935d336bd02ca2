"""From ledger rows to messages: what is sent, what is taken back, and that nothing is lost on the way."""

import pytest
from celery import Celery

from knowledge.catalog import jobs
from knowledge.dispatch import CelerySender, Dispatch
from knowledge.errors import DatabaseBusy, StorageFailed, StorageFull
from knowledge.ingestion.window import LedgerWindow
from knowledge.model.inputs import NoteInput
from knowledge.model.jobs import JobSpec, JobStatus, JobType
from knowledge.topology import queue_for
from tests.fakes.sender import ListSender


@pytest.fixture
def base(house):
    return house.base()


def test_each_job_is_sent_once(house, base):
    """Asking again sends nothing that has a message."""
    house.notes(base, *(f"note {number}" for number in range(3)))
    house.rt.dispatch.publish_due(base.id)
    house.rt.dispatch.publish_all_due()

    assert 3 == len(house.sender.sent) == len({job.id for job in house.sender.sent})


def test_what_the_broker_did_not_take_is_taken_back(house, base):
    """The sent ones keep their mark; the rest waits unpublished, in order."""
    house.sender.takes_only = 1
    house.notes(base, *(f"note {number}" for number in range(3)))
    marks = [job.published_at is not None for job in house.jobs(JobStatus.PENDING)]

    assert [True, False, False] == marks
    house.sender.takes_only = None
    assert house.rt.dispatch.publish_due(base.id)
    assert [job.id for job in house.jobs()] == list(house.sender.waiting)


def test_the_round_over_all_bases_ends_at_the_first_silence(house):
    """A broker that is away is not asked once for every base."""
    tries = []
    for _ in range(4):
        house.notes(house.base(), "lighthouse")
    with house.db.write() as tx:
        jobs.clear_all_published(tx)

    class Away(ListSender):
        def send(self, job):
            tries.append(job)
            super().send(job)

    away = Away()
    away.is_away = True

    assert not Dispatch(house.rt.dispatch._ledger, away).publish_all_due()
    assert 1 == len(tries)
    assert not away.answers()


@pytest.mark.parametrize("error", [DatabaseBusy, StorageFull, StorageFailed])
@pytest.mark.parametrize("method", ["take_due", "clear_published"])
def test_a_catalogue_that_cannot_be_written_is_a_reason_to_wait_not_to_fail(house, base, monkeypatch, method, error):
    """An add still gives its receipt, also when the marks cannot be taken back: the sweep finds them."""
    house.sender.is_away = True

    def fail(self, given):
        raise error

    monkeypatch.setattr(LedgerWindow, method, fail)
    receipt = house.service.add_items(base.id, [NoteInput(content="lighthouse")])

    assert (1, False) == (len(receipt.items), receipt.published)
    assert (method == "clear_published") == (house.jobs()[0].published_at is not None)


def test_a_silent_broker_has_no_empty_queue(house, base):
    """No answer is no permission to send again."""
    house.notes(base, "lighthouse")
    (job,) = house.jobs()
    house.sender.waiting.clear()
    empty = house.rt.dispatch.is_queue_empty(job)
    house.sender.is_away = True

    assert (True, False, None) == (empty, house.rt.dispatch.is_queue_empty(job), house.rt.dispatch.broker_run_id())


def test_a_check_is_sent_as_a_chain_with_the_job_that_waits_for_it(house, base):
    """Its message brings the index job's along; the ledger alone says when that may run."""
    (note,) = house.notes(base, "lighthouse")
    (first,) = house.jobs()
    with house.db.write() as tx:
        check = JobSpec.check_file_processing_result(base.id, note.id, first.id, processor="ocr", media_type="application/pdf")
        index = JobSpec.index_documents(base.id, note.id, first.id, converted=True)
        check_id, index_id = jobs.enqueue_chain(tx, [check, index], shard="main")
    house.rt.dispatch.publish_due(base.id)
    (sent,) = [job for job in house.sender.sent if job.id == check_id]
    with Celery("chain", broker="memory://", set_as_current=False) as app:
        CelerySender(lambda: app).send(sent)
        with app.connection_for_read() as connection:
            message = queue_for(sent)(connection.default_channel).get()
    _, _, embed = message.payload
    (link,) = embed["chain"]

    assert (index_id, JobType.INDEX_DOCUMENTS) == sent.then
    assert ([index_id], True, index_id) == (link["args"], link["immutable"], link["options"]["task_id"])
    assert f"base.main.{base.id}.index" == link["options"]["routing_key"]
    assert index_id not in house.sender.waiting
