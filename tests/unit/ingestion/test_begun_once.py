"""A conversion that may have begun is not begun again by itself, wherever the disk or the catalogue fails around its begin."""

import pytest

from knowledge.errors import ConverterUnavailable, DatabaseBusy, StorageFull
from knowledge.ingestion import conversions
from knowledge.ingestion.run import Run
from knowledge.model.jobs import JobStatus
from knowledge.model.status import ItemStatus
from knowledge.pipeline.conversion.docling import DoclingProcessor
from knowledge.pipeline.conversion.ocr import OcrProcessor
from tests.fakes.docling_server import FakeDocling
from tests.scans import scan

BOTH = pytest.mark.parametrize("billed", [True, False], ids=["billed", "free"])
TROUBLE = pytest.mark.parametrize("trouble", [DatabaseBusy, StorageFull])


@pytest.fixture
def docling():
    with FakeDocling() as server:
        yield server


@pytest.fixture
def make(make_house, docling):
    def make(kind=DoclingProcessor, **options):
        return make_house(processors=[kind(url=docling.url, **options)], conversion_poll_seconds=0.02)

    return make


@pytest.fixture
def row_refuses(monkeypatch):
    """What looks write down of a conversion is refused: `row_refuses(what, error, times)`; returns what was refused."""

    def refuse(what, error, times):
        keep, refused = Run.keep, []

        def failing(run, progress, **how):
            is_ticket = "ticket" in progress
            if is_ticket == (what == "ticket") and len(refused) < times:
                refused.append(progress)
                raise error
            keep(run, progress, **how)

        monkeypatch.setattr(Run, "keep", failing)
        return refused

    return refuse


@pytest.fixture
def folder_refuses(monkeypatch):
    """No ticket can be kept in its folder."""
    keep = conversions.keep_ticket

    def failing(work, processor, ticket):
        if ticket is not None:
            raise OSError(28, "No space left on device")
        keep(work, processor, ticket)

    monkeypatch.setattr(conversions, "keep_ticket", failing)


def add(house, tmp_path, processor="docling"):
    (item,) = house.add(house.base(file_processor=processor), scan(tmp_path / "scan.pdf", "Ring the bell."))
    return item


def assert_parked(house, item):
    done = house.settle(item, hurry=True)
    assert (ItemStatus.FAILED, "indexing_interrupted") == (done.status, done.error)
    assert "Whether its conversion began is not known." == done.error_detail["message"]
    assert [] == house.rt.files.work_folders(item.base_id)
    assert [] == house.jobs(JobStatus.PENDING, JobStatus.RUNNING)
    assert [item.id] == list(house.service.reindex_interrupted(item.base_id).root_ids)


@BOTH
@TROUBLE
def test_ticket_that_the_row_does_not_take_is_found_in_the_folder(make, docling, tmp_path, row_refuses, trouble, billed):
    """The next look goes on with it."""
    house = make(billed=billed)
    item = add(house, tmp_path)
    refused = row_refuses("ticket", trouble(), 2)

    assert ItemStatus.COMPLETED is house.settle(item, hurry=True).status
    assert (2, 1) == (len(refused), docling.stats()["submitted"])


@BOTH
def test_ticket_that_the_folder_does_not_take_is_found_in_the_row(make, docling, tmp_path, folder_refuses, billed):
    """A disk that is full elsewhere than where the catalogue is."""
    house = make(billed=billed)
    item = add(house, tmp_path)

    assert ItemStatus.COMPLETED is house.settle(item, hurry=True).status
    assert 1 == docling.stats()["submitted"]


@BOTH
@TROUBLE
def test_conversion_whose_ticket_is_lost_is_parked(make, docling, tmp_path, row_refuses, folder_refuses, trouble, billed):
    """Nobody can ask for it; whether it is begun again is for a person to say."""
    house = make(billed=billed)
    item = add(house, tmp_path)
    row_refuses("ticket", trouble(), 1)

    assert_parked(house, item)
    assert 1 == docling.stats()["submitted"]


@BOTH
def test_begin_that_breaks_after_it_was_sent_is_parked(make, docling, tmp_path, billed):
    """An error that no processor should raise says nothing of what has begun."""

    class Breaking(DoclingProcessor):
        def start(self, order):
            super().start(order)
            raise ZeroDivisionError

    house = make(Breaking, billed=billed)
    item = add(house, tmp_path)

    assert_parked(house, item)
    assert 1 == docling.stats()["submitted"]


@TROUBLE
def test_nothing_begins_that_the_row_does_not_tell_of(make, docling, tmp_path, row_refuses, trouble):
    """It is begun once, by the first look that could write it down."""
    house = make(billed=True)
    item = add(house, tmp_path)
    row_refuses("begin", trouble(), 2)
    submitted = []
    for _ in range(2):
        house.work()
        house.hasten()
        submitted.append(docling.stats()["submitted"])

    assert [0, 0] == submitted
    assert ItemStatus.COMPLETED is house.settle(item, hurry=True).status
    assert 1 == docling.stats()["submitted"]


def test_begin_that_has_not_begun_is_tried_again(make, docling, tmp_path):
    """A processor that says so is believed, as often as it does."""

    class Hesitating(DoclingProcessor):
        left = 5

        def start(self, order):
            if self.left:
                self.left -= 1
                raise ConverterUnavailable
            return super().start(order)

    house = make(Hesitating, billed=True)
    item = add(house, tmp_path)

    assert ItemStatus.COMPLETED is house.settle(item, hurry=True).status
    assert 1 == docling.stats()["submitted"]


def test_ocr_that_cannot_be_started_is_started_later(make_house, tmp_path):
    """It costs nothing, and nothing has begun."""
    slots = tmp_path / "slots"
    slots.write_text("in the way")
    house = make_house(processors=[OcrProcessor(slots=slots)], conversion_poll_seconds=0.02)
    item = add(house, tmp_path, "ocr")
    for _ in range(5):
        house.work()
        house.hasten()

    assert "OCR could not be started." in house.service.why(item.id).explanation
    slots.unlink()
    assert ItemStatus.COMPLETED is house.settle(item, hurry=True).status
