"""A provider that hangs holds every index process once, and then one: other bases go on meanwhile."""

from knowledge.catalog import rate
from knowledge.ingestion.hanging import embedder_scope
from knowledge.model.status import ItemStatus
from tests.fleet import paragraphs
from tests.waiting import eventually

EMBEDDER_SECONDS = 3.0
SLOTS = 2


def test_other_bases_go_on_while_a_provider_hangs(fleet, base):
    """Its jobs wait in the ledger and not in the processes; when it answers again, they are done without being asked for."""
    fleet.embedder.behave({"behaviour": "gate"})
    waiting = [fleet.add_note(base, *paragraphs(1)) for _ in range(12)]
    fleet.embedder.wait_until_held(SLOTS)
    eventually(lambda: hangs(fleet), "its silence is noted", seconds=60)
    other = fleet.new_base("other", paid=False)
    notes = [fleet.add_note(other, *paragraphs(1)) for _ in range(3)]

    assert [ItemStatus.COMPLETED] * 3 == [fleet.settled(note, seconds=60).status for note in notes]
    assert hangs(fleet)
    assert any(fleet.item(note).status is ItemStatus.PROCESSING for note in waiting), "those that wait have not begun"
    fleet.let_go()
    done = {fleet.settled(note, seconds=60).status for note in waiting}
    assert ItemStatus.COMPLETED in done
    assert not hangs(fleet)


def hangs(fleet):
    with fleet.service.rt.db.read() as tx:
        return rate.hangs(tx, embedder_scope("fake/paid"))
