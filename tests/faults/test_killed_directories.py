"""kill -9 of a process while it expands a directory: in the middle of a batch, between two, and while one is put in place."""

import shutil
from pathlib import Path

import pytest

from knowledge.ingestion.prepare import BATCH
from knowledge.model.documents import text_hash
from knowledge.model.inputs import FileInput
from knowledge.model.status import ItemStatus
from tests.faults.gates import Moment
from tests.faults.promises import assert_promises
from tests.fleet import Blow, paragraphs
from tests.waiting import eventually

FILES = BATCH + 16


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """More files than one batch, in three folders, each with a text of its own."""
    root = tmp_path / "papers"
    for number, text in enumerate(paragraphs(FILES)):
        place = root / ("", "keepers", "keepers/logs")[number % 3]
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number:03}.md").write_text(text)
    return root


@pytest.mark.parametrize("blow", [Blow.KILL_CHILD, Blow.KILL_WORKER])
@pytest.mark.parametrize(
    ("moment", "skip", "kept"),
    [
        (Moment.COPYING, BATCH // 2, 0),  # in the middle of the first batch
        (Moment.COPYING, BATCH, BATCH),  # between two batches
        (Moment.PLACING, BATCH // 2, 0),  # half of the first batch is renamed, its transaction is open
        (Moment.PLACED, 1, BATCH),  # all of the second batch is renamed, its transaction is open
    ],
)
def test_killed_expansion_is_parked_and_can_be_asked_for_again(fleet, base, gate, folder, moment, skip, kept, blow):
    """The directory is a visible failure, leaves that had their job are done; delete and add give the whole directory."""
    gate(moment).arm(skip=skip)
    root = fleet.add_directory(base, folder)
    fleet.strike(blow, gate(moment).wait())

    assert ("failed", "indexing_interrupted") == (fleet.settled(root).status, fleet.settled(root).error)
    assert_promises(fleet)
    assert kept == len(leaves(fleet, base, root))
    fleet.delete(base, root)
    fleet.gone(root)
    eventually(lambda: not fleet.service.rt.files.leftovers(base.id, -1), "no copy of what was deleted is left")
    again = fleet.add_directory(base, folder)
    assert (ItemStatus.COMPLETED, FILES) == (fleet.settled(again).status, len(leaves(fleet, base, again)))
    assert_promises(fleet)


@pytest.mark.parametrize("blow", [Blow.KILL_CHILD, Blow.KILL_WORKER])
@pytest.mark.parametrize(("moment", "skip", "kept"), [(Moment.COPYING, BATCH + 3, BATCH), (Moment.PLACED, 1, BATCH)])
def test_killed_expansion_of_an_archive_is_finished_by_asking_again(fleet, base, gate, folder, moment, skip, kept, blow):
    """It is a visible failure with what it had; one command brings the rest, and nothing is there, or paid for, twice."""
    packed = folder.with_suffix(".zip")
    shutil.make_archive(str(folder), "zip", folder)
    gate(moment).arm(skip=skip)
    (root,) = fleet.add(base, FileInput(path=packed))
    fleet.strike(blow, gate(moment).wait())

    assert ("failed", "indexing_interrupted") == (fleet.settled(root).status, fleet.settled(root).error)
    assert_promises(fleet)
    assert kept == len(leaves(fleet, base, root))
    fleet.service.reindex_interrupted(base.id)
    eventually(lambda: FILES == len(leaves(fleet, base, root)), "every member has its item")
    assert ItemStatus.COMPLETED == fleet.settled(root).status
    stored = [path for path, _ in fleet.service.rt.files.listing(base.id) if path.startswith("papers.zip/")]
    assert sorted(stored) == sorted(leaf.relative_path for leaf in leaves(fleet, base, root))
    fleet.delete(base, root)
    fleet.gone(root)
    assert_promises(fleet)


def test_leaves_go_on_while_their_directory_is_held(fleet, base, gate, folder):
    """The first batch is indexed and found although the second has not begun; each text is paid for once."""
    gate(Moment.COPYING).arm(skip=BATCH)
    root = fleet.add_directory(base, folder)
    gate(Moment.COPYING).wait()
    first = [leaf.id for leaf in leaves(fleet, base, root)]
    assert {ItemStatus.COMPLETED} == {fleet.settled(leaf).status for leaf in first}

    assert ItemStatus.PREPARING == fleet.service.item(root).status
    gate(Moment.COPYING).open()
    assert ItemStatus.COMPLETED == fleet.settled(root).status
    sent = fleet.embedder.sent()
    assert [1] * FILES == [sent[text_hash(file.read_text())] for file in folder.rglob("*.md")]
    assert_promises(fleet)


def test_directory_deleted_while_it_is_expanded_leaves_nothing(fleet, base, gate, folder):
    """The delete stops the expansion and its leaves, and removes what they had made."""
    gate(Moment.COPYING).arm(skip=BATCH + 2)
    root = fleet.add_directory(base, folder)
    gate(Moment.COPYING).wait()
    fleet.delete(base, root)
    gate(Moment.COPYING).open()
    fleet.gone(root)

    assert_promises(fleet)
    assert [] == [path for path, _ in fleet.service.rt.files.listing(base.id) if "papers" in path]


def leaves(fleet, base, root):
    return [item for item in fleet.below(base, root) if item.type == "file"]
