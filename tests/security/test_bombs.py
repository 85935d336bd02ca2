"""Bombs: each is refused with its code, or read, within its budget; and the process that asked goes on with the next file."""

from dataclasses import replace

import psutil
import pytest

from knowledge.errors import KnowledgeError, SourceFault
from knowledge.model.budget import MIB, Budget
from knowledge.model.status import ItemStatus
from knowledge.pipeline.readers.process import ReaderProcess
from knowledge.pipeline.readers.registry import ReaderRegistry
from tests.house import House
from tests.security import bombs

BUDGET = Budget(inflated_bytes=64 * MIB, seconds=60, memory_bytes=512 * MIB)


@pytest.fixture(scope="module")
def process():
    process = ReaderProcess(BUDGET)
    yield process
    process.close()


@pytest.fixture
def read(process, tmp_path):
    """Reads a file of this name and content; the result, and the most memory that the reader was seen to hold."""
    registry = ReaderRegistry.installed(BUDGET, process)

    def read(name, data):
        path = tmp_path / name
        path.write_bytes(data)
        most = 0

        def checkpoint():
            nonlocal most
            if process.pid is not None and psutil.pid_exists(process.pid):
                most = max(most, psutil.Process(process.pid).memory_info().rss)

        try:
            return registry.read(path, name, checkpoint), most
        except KnowledgeError as error:
            return error, most

    return read


@pytest.mark.parametrize("name", bombs.REFUSED)
def test_bomb_is_refused_with_its_code(read, name):
    """Never for want of time, and far below what it would take; the next file is read."""
    make, code, figure = bombs.REFUSED[name]

    error, most = read(name, make())

    assert code == error.code
    assert figure in ("", error.details.get("figure"))
    assert "seconds" != error.details.get("figure")
    assert most < BUDGET.memory_bytes
    result, _ = read("after.html", b"<p>the lamp")
    assert ["the lamp"] == [document.text for document in result.documents]


@pytest.mark.parametrize("name", bombs.ANYHOW)
def test_bomb_is_read_or_refused_within_its_budget(read, name):
    """What stands for a great deal is neither written out nor worked on for long."""
    found, most = read(name, bombs.ANYHOW[name]())

    assert most < BUDGET.memory_bytes
    if isinstance(found, KnowledgeError):
        assert isinstance(found, SourceFault)
        assert found.details.get("figure") not in ("seconds", "memory_bytes")
    else:
        assert found.quality.characters < 64 * MIB
        assert "lighthouse lighthouse lighthouse" not in found.documents[0].text


@pytest.mark.parametrize("name", ["sheet.xlsx", "slides.pptx"])
def test_defaults_stop_what_was_seen_in_the_world(tmp_path, name):
    """Cases 25 and 27: a workbook of a megabyte that unpacks to 512, 200 slides of which none is large."""
    path = tmp_path / name
    path.write_bytes(bombs.REFUSED[name][0]())
    process = ReaderProcess()

    with pytest.raises(SourceFault) as caught:
        ReaderRegistry.installed(process=process).read(path, name, lambda: None)

    process.close()
    assert "reader_budget_exceeded" == caught.value.code
    assert caught.value.details["found"] > caught.value.details["limit"]


def test_worker_goes_on_after_bombs(tmp_path):
    """The items say why they could not be read; the documents beside them are found."""
    (tmp_path / "data").mkdir()
    house = House(tmp_path / "data")
    process = ReaderProcess(replace(BUDGET, seconds=30))
    object.__setattr__(house.rt, "readers", ReaderRegistry.installed(BUDGET, process))
    base = house.base()
    paths = []
    for name, data in (
        ("sheet.xlsx", bombs.xlsx_of_many_rows()),
        ("a.html", b"<p>the lamp"),
        ("drawing.pdf", bombs.pdf_large()),
        ("b.html", b"<p>the boat"),
    ):
        paths.append(tmp_path / name)
        paths[-1].write_bytes(data)

    sheet, lamp, drawing, boat = house.add(base, *paths)
    house.work()

    for bomb in (sheet, drawing):
        assert (ItemStatus.FAILED, "reader_budget_exceeded") == (house.item(bomb).status, house.item(bomb).error)
        assert house.item(bomb).error_detail["found"] > 0
    assert {lamp.id, boat.id} == {hit.item_id for hit in house.service.search(base.id, "lamp boat").hits}
    process.close()
