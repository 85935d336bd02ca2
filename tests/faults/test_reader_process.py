"""The process in which a slot reads files: it lives and dies with its slot."""

from contextlib import suppress

import psutil
import pytest

from knowledge.model.inputs import FileInput
from knowledge.model.status import ItemStatus
from tests.faults.promises import assert_promises
from tests.waiting import PATIENCE_SECONDS, eventually


def readers_of(pid):
    """The reader of a pool child and all that it has started."""
    return psutil.Process(pid).children(recursive=True)


@pytest.fixture
def page(tmp_path):
    """Makes a page, which no slot reads itself."""

    def page(name, text):
        path = tmp_path / f"{name}.html"
        path.write_text(f"<h1>{name}</h1><p>{text}</p>")
        return FileInput(path=path)

    return page


@pytest.fixture
def reading_slot(fleet, base, page):
    """A pool child that has a reader."""

    def found():
        return next((pid for pid in fleet.children("index") if readers_of(pid)), None)

    (item,) = fleet.add(base, page("first", "The keeper lit the lamp."))
    assert ItemStatus.COMPLETED == fleet.settled(item).status
    return eventually(found, "a slot with a reader")


@pytest.mark.parametrize("blow", ["slot", "worker"])
def test_nothing_of_a_reader_outlives_its_slot(fleet, base, page, reading_slot, blow):
    """kill -9 of a pool child, or of the whole worker: the reader and its guard are gone, and the next file is read."""
    readers = readers_of(reading_slot)
    if blow == "slot":
        psutil.Process(reading_slot).kill()
        fleet.killed += 1
        eventually(lambda: reading_slot not in fleet.children("index"), "its worker knows, and gives it no job any more")
    else:
        fleet.kill_worker("index")

    gone, alive = psutil.wait_procs(readers, timeout=PATIENCE_SECONDS)
    assert ([], 2) == (alive, len(gone))
    if blow == "worker":
        fleet.launch("index")
        fleet.wait_until_ready("index")
    (item,) = fleet.add(base, page("second", "The boat came late."))
    assert ItemStatus.COMPLETED == fleet.settled(item).status
    assert_promises(fleet)


def test_slot_outlives_its_reader(fleet, base, page, reading_slot):
    """A reader that is killed between two files is replaced, and nothing shows."""
    for reader in readers_of(reading_slot):
        with suppress(psutil.NoSuchProcess):  # the guard ends with its reader
            reader.kill()
    items = fleet.add(base, *(page(f"page {number}", f"Boat number {number}.") for number in range(6)))

    assert {ItemStatus.COMPLETED} == {fleet.settled(item).status for item in items}
    assert psutil.pid_exists(reading_slot)
    assert_promises(fleet)
