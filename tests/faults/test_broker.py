"""The broker is killed, loses its data, loses messages, or cuts its connections: idle, busy, and with a backlog."""

import time

import pytest

from config.consumer import PAUSE_SECONDS
from knowledge.model.inputs import NoteInput
from knowledge.model.jobs import JobType
from knowledge.model.status import ItemStatus
from tests.faults.promises import assert_promises
from tests.fleet import WORKERS, Blow, paragraphs
from tests.waiting import eventually

BLOWS = (Blow.KILL_BROKER, Blow.WIPE_BROKER, Blow.LOSE_MESSAGES, Blow.RESET_CONNECTIONS)
BACKLOG = 20


@pytest.mark.parametrize("blow", BLOWS)
def test_idle_fleet_goes_on(fleet, base, blow):
    """Workers that waited for work find the broker again and take new work."""
    fleet.strike(blow)

    assert_promises(fleet)


@pytest.mark.parametrize("running", [1, 2])  # with one slot free, or none
@pytest.mark.parametrize("blow", BLOWS)
def test_running_jobs_end_well_and_are_run_once(fleet, base, blow, running):
    """A broker has no say in what runs: every job completes, each text is sent once, whatever is delivered again."""
    fleet.embedder.behave({"behaviour": "gate"})
    notes = [fleet.add_note(base, *paragraphs(3)) for _ in range(running)]
    fleet.embedder.wait_until_held(running)
    fleet.strike(blow)
    probe = fleet.new_base("probe", paid=False)
    fleet.delete(probe, fleet.add_note(probe, *paragraphs(1)))  # the control worker is there again
    fleet.gone(*fleet.deleted[probe.id])
    fleet.let_go()

    assert [ItemStatus.COMPLETED] * running == [fleet.settled(note).status for note in notes]
    assert {1} == set(fleet.embedder.sent().values())
    assert_promises(fleet)


@pytest.mark.parametrize("blow", BLOWS)
def test_backlog_is_worked_off(fleet, base, blow):
    """Jobs that wait in queue and ledger are all done, once each, although their messages may be gone."""
    other = fleet.new_base("other")
    fleet.embedder.behave({"behaviour": "gate"})
    notes = [fleet.add_note(one, *paragraphs(2)) for one in (base, other) for _ in range(BACKLOG // 2)]
    fleet.embedder.wait_until_held(2)
    fleet.strike(blow)
    fleet.let_go()

    assert [ItemStatus.COMPLETED] * BACKLOG == [fleet.settled(note).status for note in notes]
    assert {1} == set(fleet.embedder.sent().values())
    assert_promises(fleet)


@pytest.mark.parametrize("blow", [Blow.WIPE_BROKER, Blow.LOSE_MESSAGES])
def test_delete_survives_the_loss_of_its_message(fleet, base, blow):
    """A delete whose message vanished before anybody saw it is sent again by the sweep."""
    note = fleet.add_note(base, *paragraphs(2))
    fleet.settled(note)
    fleet.kill_worker("control")
    fleet.delete(base, note)
    fleet.strike(blow)
    fleet.launch("control")

    fleet.gone(note)
    assert_promises(fleet)


def test_broker_that_refuses_ends_no_worker(fleet, base):
    """It lives and takes no write, as with a full disk: workers wait until it does, and go on by themselves."""
    before = {name: fleet.pid(name) for name in WORKERS}
    with fleet.redis() as broker:
        broker.config_set("min-replicas-to-write", 1)
        try:
            for name in WORKERS:
                eventually(lambda name=name: "NOREPLICAS" in fleet.log(name), f"{name} is refused")
            began, seen = time.monotonic(), refusals(fleet)
            eventually(lambda: refusals(fleet) >= seen + 2, "it is asked again")
            asked_again = time.monotonic() - began
            note = fleet.add_note(base, *paragraphs(2))
        finally:
            broker.config_set("min-replicas-to-write", 0)

    assert ItemStatus.COMPLETED == fleet.settled(note, seconds=60).status
    assert PAUSE_SECONDS * 0.9 <= asked_again, "it is asked again and again, and each time is told of at length"
    assert before == {name: fleet.pid(name) for name in WORKERS}
    assert all(map(fleet.lives, WORKERS))
    assert_promises(fleet)


def refusals(fleet):
    return fleet.log("index").count("NOREPLICAS")


def test_work_is_accepted_while_the_broker_is_away(fleet, base):
    """The receipt says that nothing was sent; it is sent and done when the broker is back."""
    fleet.kill_broker()
    note = fleet.add_note(base, *paragraphs(2))
    assert fleet.job_of(note, JobType.INDEX_DOCUMENTS).is_unpublished
    fleet.start_broker()

    assert ItemStatus.COMPLETED == fleet.settled(note).status
    assert_promises(fleet)


def test_broker_that_hangs_delays_nobody_for_long(fleet, base):
    """An add returns although the broker answers nothing, says so, and is done when the broker answers again."""
    with fleet.frozen_broker():
        receipt = fleet.service.add_items(base.id, [NoteInput(content=paragraphs(1)[0])])
        assert receipt.published is False

    assert ItemStatus.COMPLETED == fleet.settled(receipt.items[0].id).status
    assert_promises(fleet)
