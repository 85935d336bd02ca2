"""The whole machine goes at once, in the middle of everything."""

from tests.faults.gates import Moment
from tests.faults.promises import assert_promises
from tests.fleet import BATCH_TEXTS, Blow, paragraphs


def test_all_processes_killed_at_once(fleet, base, gate, tmp_path):
    """A note is being embedded, others wait, a delete is half done, a directory half expanded: each ends as it should.

    What waited is parked as well: the base is billed, and no worker lives on that could say it was asked for.
    """
    folder = tmp_path / "papers"
    folder.mkdir()
    for number, text in enumerate(paragraphs(20)):
        (folder / f"{number}.md").write_text(text)
    old = fleet.add_note(base, *paragraphs(2))
    fleet.settled(old)
    other = fleet.new_base("other")
    gate(Moment.REMOVING_FILES).arm()
    gate(Moment.COPYING).arm(skip=10)
    fleet.embedder.behave({"behaviour": "gate", "skip": 1})
    fleet.delete(base, old)
    note = fleet.add_note(other, *paragraphs(3 * BATCH_TEXTS))
    root = fleet.add_directory(other, folder)
    waiting = [fleet.add_note(other, *paragraphs(1)) for _ in range(8)]
    gate(Moment.REMOVING_FILES).wait()
    gate(Moment.COPYING).wait()
    fleet.wait_until_embedding(note)
    fleet.strike(Blow.KILL_ALL)
    fleet.let_go()

    fleet.gone(old)
    assert ["indexing_interrupted"] * 2 == [fleet.settled(item).error for item in (note, root)]
    assert {"indexing_interrupted"} == {fleet.settled(item).error for item in waiting}
    assert_promises(fleet)
