"""Files that need OCR, through the flows: handing over, one look after the other, the result beside the file. By tesseract."""

import pytest

from knowledge.model.jobs import JobType
from knowledge.model.status import ItemStatus
from knowledge.pipeline.conversion.ocr import OcrProcessor
from tests.scans import mixed, scan
from tests.waiting import eventually

FOG = "The fog signal sounds\nevery ninety seconds."
LOG = "The keeper writes the log\nat midnight."
TOWER = "The tower has two hundred and four steps, each worn in the middle."


@pytest.fixture
def house(make_house, tmp_path):
    return make_house(processors=[OcrProcessor(slots=tmp_path / "slots", processes=2)], conversion_poll_seconds=0.05)


def settle(house, item):
    """Deliver messages until the item is at rest; what waits for its next look is looked at again."""

    def at_rest():
        house.work()
        found = house.item(item)
        return found if found.status in (ItemStatus.COMPLETED, ItemStatus.FAILED) else None

    return eventually(at_rest, "the item is completed or failed", seconds=60)


def pages_found(house, base, query):
    return {(hit.item_id, hit.page) for hit in house.service.search(base.id, query).hits}


def test_scan_is_found_on_its_page(house, tmp_path):
    """A PDF without a text layer is read by OCR; search says on which page."""
    base = house.base()
    (item,) = house.add(base, scan(tmp_path / "scan.pdf", FOG, LOG))

    done = settle(house, item)

    assert (ItemStatus.COMPLETED, "scan.md", ()) == (done.status, done.indexed_path, done.notices)
    assert {(item.id, 2)} == {found for found in pages_found(house, base, "keeper midnight") if found[1] == 2}
    assert (2, 2) == (done.quality.pages, done.quality.pages_with_text)
    assert done.quality.converter.startswith("tesseract ")
    assert ["scan.md", "scan.pdf"] == house.raw(base)


def test_only_pages_without_text_are_read_by_ocr(house, tmp_path):
    """The text layer of the others stays as it is."""
    base = house.base()
    (item,) = house.add(base, mixed(tmp_path / "mixed.pdf", [(TOWER, True), (FOG, False), (LOG, True)]))

    settle(house, item)

    chunks = {chunk.page: chunk.content for chunk in house.service.chunks(base.id, item.id)}
    assert TOWER == chunks[1]
    assert "fog signal" in chunks[2]
    assert LOG.replace("\n", " ") == " ".join(chunks[3].split())


def test_text_pdf_is_never_converted(house, tmp_path):
    """Where each page has its text there is no check."""
    base = house.base()
    (item,) = house.add(base, mixed(tmp_path / "text.pdf", [(TOWER, True), (TOWER, True)]))

    settle(house, item)

    assert [JobType.INDEX_DOCUMENTS] == [job.type for job in house.jobs()]
    assert house.item(item).indexed_path is None
