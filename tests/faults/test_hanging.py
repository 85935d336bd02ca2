"""A provider, or pages, that hang hold every index process once, and then one: other bases go on meanwhile."""

from contextlib import ExitStack

from knowledge.catalog import rate
from knowledge.ingestion.hanging import embedder_scope
from knowledge.model.inputs import UrlInput
from knowledge.model.status import ItemStatus
from tests.fakes.web_server import WebServer
from tests.faults.promises import assert_promises
from tests.fleet import paragraphs
from tests.waiting import eventually

SETTINGS = {"KNOWLEDGE_HTTP_ALLOW": '["127.0.0.1"]', "KNOWLEDGE_HTTP_SECONDS": "3"}
EMBEDDER_SECONDS = 3.0
SLOTS = 2


def test_other_bases_go_on_while_a_provider_hangs(fleet, base):
    """Its jobs wait in the ledger and not in the processes; when it answers again, they are done without being asked for."""
    fleet.embedder.behave({"behaviour": "gate"})
    waiting = [fleet.add_note(base, *paragraphs(1)) for _ in range(12)]
    fleet.embedder.wait_until_held(SLOTS)
    eventually(lambda: hangs(fleet, embedder_scope("fake/paid")), "its silence is noted", seconds=60)
    other = fleet.new_base("other", paid=False)
    notes = [fleet.add_note(other, *paragraphs(1)) for _ in range(3)]

    assert [ItemStatus.COMPLETED] * 3 == [fleet.settled(note, seconds=60).status for note in notes]
    assert hangs(fleet, embedder_scope("fake/paid"))
    assert any(fleet.item(note).status is ItemStatus.PROCESSING for note in waiting), "those that wait have not begun"
    fleet.let_go()
    done = {fleet.settled(note, seconds=60).status for note in waiting}
    assert ItemStatus.COMPLETED in done
    assert not hangs(fleet, embedder_scope("fake/paid"))


def test_other_bases_go_on_while_pages_hang(fleet, base):
    """Each of another host that says nothing."""
    with ExitStack() as stack:
        silent = [stack.enter_context(WebServer()) for _ in range(12)]
        for server in silent:
            server.silent("/slow")
        slow = fleet.add(base, *(UrlInput(url=server.url("/slow")) for server in silent))
        eventually(lambda: hangs(fleet, f"pages:{base.id}"), "their silence is noted")
        other = fleet.new_base("other", paid=False)
        notes = [fleet.add_note(other, *paragraphs(1)) for _ in range(3)]

        assert [ItemStatus.COMPLETED] * 3 == [fleet.settled(note).status for note in notes]
        assert any(fleet.item(item).status is ItemStatus.PROCESSING for item in slow), "those that wait have not begun"
        fleet.delete(base, *slow)
        fleet.gone(*slow)
    assert_promises(fleet)


def hangs(fleet, scope):
    with fleet.service.rt.db.read() as tx:
        return rate.hangs(tx, scope)
