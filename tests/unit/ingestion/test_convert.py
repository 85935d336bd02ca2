"""Files that need OCR, through the flows: handing over, one look after the other, the result beside the file. By tesseract."""

import os
import signal
from pathlib import Path

import pytest

from knowledge.catalog import bases
from knowledge.errors import ConverterMissing, InvalidOperation, UnsupportedSource
from knowledge.ingestion import conversions, recovery
from knowledge.model.inputs import DirectoryInput, FileInput
from knowledge.model.jobs import JobStatus, JobType
from knowledge.model.status import ItemStatus, Notice
from knowledge.model.tools import INSTALL_TESSERACT
from knowledge.pipeline.conversion.ocr import OcrProcessor
from tests.processes import is_over
from tests.scans import mixed, picture, scan
from tests.waiting import eventually

FOG = "The fog signal sounds\nevery ninety seconds."
LOG = "The keeper writes the log\nat midnight."
TOWER = "The tower has two hundred and four steps, each worn in the middle."
CHECK = JobType.CHECK_FILE_PROCESSING_RESULT


@pytest.fixture
def make(make_house, tmp_path):
    """A house with OCR; a look follows the last one at once."""

    def make(*, processes=2, **options):
        options = {"conversion_poll_seconds": 0.05} | options
        return make_house(processors=[OcrProcessor(slots=tmp_path / "slots", processes=processes)], **options)

    return make


@pytest.fixture
def house(make):
    return make()


@pytest.fixture
def without_tesseract(monkeypatch, tmp_path):
    """A host on which no program can be found."""
    monkeypatch.setenv("PATH", str(tmp_path))


def begin(house, item):
    """Deliver one message after the other until the item is being converted; the job of the check is returned."""
    for _ in range(100):
        if (check := check_of(house, item)) is not None and "ticket" in check.progress:
            return check
        if not house.sender.waiting:
            house.rt.dispatch.publish_all_due()
        house.deliver(house.sender.waiting.popleft())
    raise AssertionError("no conversion begins")


def check_of(house, item):
    """The newest; None before there is one, or when the newest is over."""
    active = house.jobs(JobStatus.PENDING, JobStatus.RUNNING)
    return next((job for job in active if job.type is CHECK and item.id in job.item_ids), None)


def pages_found(house, base, query):
    return {(hit.item_id, hit.page) for hit in house.service.search(base.id, query, limit=1).hits}


def test_scan_is_found_on_its_page(house, tmp_path):
    """A PDF without a text layer is read by OCR; search says on which page."""
    base = house.base()
    (item,) = house.add(base, scan(tmp_path / "scan.pdf", FOG, LOG))

    done = house.settle(item)

    assert (ItemStatus.COMPLETED, "scan.md", ()) == (done.status, done.indexed_path, done.notices)
    assert {(item.id, 2)} == pages_found(house, base, "keeper midnight")
    assert (2, 2) == (done.quality.pages, done.quality.pages_with_text)
    assert done.quality.converter.startswith("tesseract ")
    assert ["scan.md", "scan.pdf"] == house.raw(base)
    assert [] == house.rt.files.work_folders(base.id)


def test_only_pages_without_text_are_read_by_ocr(house, tmp_path):
    """The text layer of the others stays as it is."""
    base = house.base()
    (item,) = house.add(base, mixed(tmp_path / "mixed.pdf", [(TOWER, True), (FOG, False), (TOWER, True)]))

    house.settle(item)

    chunks = {chunk.page: chunk.content for chunk in house.service.chunks(base.id, item.id)}
    assert (TOWER, TOWER) == (chunks[1], chunks[3])
    assert "fog signal" in chunks[2]


def test_pages_with_text_are_found_before_the_others_are_read(house, tmp_path):
    """What can be read at once is searchable at once, though the item is not done."""
    base = house.base()
    (item,) = house.add(base, mixed(tmp_path / "mixed.pdf", [(TOWER, True), (FOG, False)]))
    begin(house, item)

    assert {(item.id, 1)} == pages_found(house, base, "tower steps")
    assert ItemStatus.PROCESSING is house.item(item).status
    assert {(item.id, 2)} == (house.settle(item) and pages_found(house, base, "fog signal"))


def test_text_pdf_is_never_converted(house, tmp_path):
    """Where each page has its text there is no check."""
    base = house.base()
    (item,) = house.add(base, mixed(tmp_path / "text.pdf", [(TOWER, True), (TOWER, True)]))

    house.settle(item)

    assert [JobType.INDEX_DOCUMENTS] == [job.type for job in house.jobs()]
    assert house.item(item).indexed_path is None


@pytest.mark.parametrize("suffix", ["png", "jpg", "tif", "bmp", "gif", "webp"])
def test_picture_is_an_item(house, tmp_path, suffix):
    """Every kind of picture is read."""
    base = house.base()
    path = tmp_path / f"photo.{suffix}"
    picture(FOG, size=(900, 400)).save(path)
    (item,) = house.add(base, path)

    done = house.settle(item)

    assert (ItemStatus.COMPLETED, "photo.md", None) == (done.status, done.indexed_path, done.quality.pages)
    assert {(item.id, None)} == pages_found(house, base, "fog signal")


def test_pages_of_a_tiff_are_pages(house, tmp_path):
    """A fax of two pages says on which one something stands."""
    base = house.base()
    path = tmp_path / "fax.tif"
    picture(FOG, size=(900, 400)).save(path, save_all=True, append_images=[picture(LOG, size=(900, 400))])
    (item,) = house.add(base, path)

    assert (2, 2) == (house.settle(item).quality.pages, house.item(item).quality.pages_with_text)
    assert {(item.id, 2)} == pages_found(house, base, "keeper midnight")


def test_picture_by_its_bytes_not_by_its_name(house, tmp_path):
    """A PNG that is called .jpg, and one without a name for it."""
    base = house.base()
    paths = [tmp_path / "photo.jpg", tmp_path / "photo"]
    for path in paths:
        picture(FOG, size=(900, 400)).save(path, format="PNG")
    found = house.add(base, *paths)

    house.settle(*found)

    assert [ItemStatus.COMPLETED] * 2 == [house.item(item).status for item in found]


def test_picture_without_words_is_empty(house, tmp_path):
    """It is completed, and says that it gave no text."""
    base = house.base()
    path = tmp_path / "white.png"
    picture("", size=(300, 300)).save(path)
    (item,) = house.add(base, path)

    done = house.settle(item)

    assert (ItemStatus.COMPLETED, (Notice.NO_TEXT_EXTRACTED,)) == (done.status, done.notices)


def test_damaged_picture_is_corrupt(house, tmp_path):
    """Half a file fails with the code of damaged files."""
    base = house.base()
    path = tmp_path / "half.png"
    picture(FOG, size=(900, 400)).save(path)
    path.write_bytes(path.read_bytes()[:40])
    (item,) = house.add(base, path)

    assert (ItemStatus.FAILED, "corrupt") == (house.settle(item).status, house.item(item).error)
    assert [] == house.rt.files.work_folders(base.id)


def test_directory_takes_pictures(house, tmp_path):
    """Scans lie in folders."""
    base = house.base()
    (tmp_path / "docs").mkdir()
    picture(FOG, size=(900, 400)).save(tmp_path / "docs" / "photo.png")
    (folder,) = house.add(base, DirectoryInput(path=tmp_path / "docs"))

    assert ItemStatus.COMPLETED is house.settle(folder).status
    assert ["docs/photo.md", "docs/photo.png"] == house.raw(base)


def test_result_gets_a_name_that_is_free(house, tmp_path):
    """Neither another item's file nor another's result is overwritten, whatever the case of its letters."""
    base = house.base()
    (tmp_path / "SCAN.md").write_text("words of my own")
    (note, item) = house.add(base, tmp_path / "SCAN.md", scan(tmp_path / "scan.pdf", FOG))
    path = tmp_path / "scan.png"
    picture(LOG, size=(900, 400)).save(path)
    (other,) = house.add(base, path)

    house.settle(note, item, other)

    assert ["SCAN.md", "scan.pdf", "scan.png", "scan_1.md", "scan_2.md"] == house.raw(base)
    assert "words of my own" == house.service.preview(note.id).text
    (late,) = house.add(base, FileInput(path=tmp_path / "SCAN.md"))
    assert "SCAN_3.md" == late.relative_path


def test_file_of_a_folder_does_not_take_the_place_of_a_result(house, tmp_path):
    """`a.md` comes into a folder whose `a.png` was converted to `a.md` before."""
    base = house.base()
    docs = tmp_path / "docs"
    docs.mkdir()
    picture(FOG, size=(900, 400)).save(docs / "a.png")
    (folder,) = house.add(base, DirectoryInput(path=docs))
    house.settle(folder)
    (docs / "a.md").write_text("words of my own")
    house.service.reindex_items(base.id, [folder.id])
    house.work()

    house.settle(folder)

    assert ["docs/a.md", "docs/a.png", "docs/a_1.md"] == house.raw(base)
    assert {"words of my own"} == {
        house.service.preview(item.id).text for item in house.items(base) if item.source.endswith("a.md")
    }


def test_deleting_an_item_deletes_its_result(house, tmp_path):
    """Nothing of it is left, and its names are free again."""
    base = house.base()
    path = scan(tmp_path / "scan.pdf", FOG)
    (item,) = house.add(base, path)
    house.settle(item)
    house.service.delete_items(base.id, [item.id])
    house.work()

    assert [] == house.raw(base)
    (again,) = house.add(base, path)
    assert "scan.md" == house.settle(again).indexed_path


def test_reindex_converts_again_onto_the_same_name(house, tmp_path):
    """The new bytes are read; the old text is found until then."""
    base = house.base()
    path = scan(tmp_path / "scan.pdf", FOG)
    (item,) = house.add(base, path)
    house.settle(item)
    scan(path, LOG)
    house.service.reindex_items(base.id, [item.id])
    begin(house, item)

    assert {(item.id, 1)} == pages_found(house, base, "fog signal")
    assert "scan.md" == house.settle(item).indexed_path
    assert {(item.id, 1)} == pages_found(house, base, "keeper midnight")
    assert set() == {hit.item_id for hit in house.service.search(base.id, "ninety").hits if "ninety" in hit.text}


def test_first_embedder_does_not_read_the_scans_again(house, tmp_path):
    """The text is there, and what it was made of has not changed; a scan that has changed is read."""
    base = house.base(embedder=None)
    same, changed = house.add(base, scan(tmp_path / "same.pdf", FOG), scan(tmp_path / "changed.pdf", FOG))
    house.settle(same, changed)
    scan(tmp_path / "changed.pdf", LOG)
    house.service.enable_embedder(base.id, "hashing")
    house.work()

    house.settle(same, changed)

    checks = [job.item_ids for job in house.jobs() if job.type is CHECK]
    assert [1, 2] == [checks.count((item.id,)) for item in (same, changed)]
    assert {(changed.id, 1)} == pages_found(house, base, "keeper midnight")


def test_result_goes_when_the_file_is_read_itself(house, tmp_path):
    """A scan that becomes a PDF with text needs its Markdown no more; the name is free."""
    base = house.base()
    path = scan(tmp_path / "scan.pdf", FOG)
    (item,) = house.add(base, path)
    house.settle(item)
    mixed(path, [(TOWER, True)])
    house.service.reindex_items(base.id, [item.id])
    house.work()

    done = house.settle(item)

    assert (None, "scan.pdf") == (done.indexed_path, done.concept_id)
    assert ["scan.pdf"] == house.raw(base)
    (tmp_path / "scan.md").write_text("words")
    assert "scan.md" == house.add(base, tmp_path / "scan.md")[0].relative_path


def test_lost_process_is_parked_and_not_started_again(house, tmp_path):
    """kill -9 of the process that reads: a visible failure that `--interrupted` finishes."""
    base = house.base()
    (item,) = house.add(base, scan(tmp_path / "scan.pdf", *[FOG] * 20))
    pid = begin(house, item).progress["ticket"]["pid"]
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: is_over(pid), "it is gone")

    done = house.settle(item)

    assert (ItemStatus.FAILED, "indexing_interrupted") == (done.status, done.error)
    assert 1 == sum(job.type is CHECK for job in house.jobs())
    assert {JobStatus.COMPLETED, JobStatus.CANCELLED} == {job.status for job in house.jobs()}
    assert [] == house.rt.files.work_folders(base.id)
    assert [item.id] == list(house.service.reindex_interrupted(base.id).root_ids)


def test_conversion_ends_at_its_deadline(make, tmp_path):
    """It is stopped, and the item says why."""
    house = make(conversion_seconds=0.2)
    base = house.base()
    (item,) = house.add(base, scan(tmp_path / "scan.pdf", *[FOG] * 30))
    pid = begin(house, item).progress["ticket"]["pid"]

    done = house.settle(item)

    assert (ItemStatus.FAILED, "conversion_timeout") == (done.status, done.error)
    assert is_over(pid)
    assert [] == house.rt.files.work_folders(base.id)


@pytest.mark.parametrize("end", ["delete", "cancel the check", "cancel the index job", "delete base"])
def test_nobody_waits_any_more(house, tmp_path, end):
    """However the consumer goes, the process is ended and its files are removed."""
    base = house.base()
    (item,) = house.add(base, scan(tmp_path / "scan.pdf", *[FOG] * 30))
    check = begin(house, item)
    pid = check.progress["ticket"]["pid"]
    match end:
        case "delete":
            house.service.delete_items(base.id, [item.id])
        case "cancel the check":
            house.service.cancel_job(check.id)
        case "cancel the index job":
            house.service.cancel_job(next(job.id for job in house.jobs() if job.after == check.id))
        case "delete base":
            house.service.delete_base(base.id)
    house.work(hurry=True)
    recovery.sweep(house.rt)

    assert is_over(pid)
    assert [] == house.rt.files.work_folders(base.id)
    assert [] == house.jobs(JobStatus.PENDING, JobStatus.RUNNING)


def test_sweep_ends_what_nobody_waits_for_and_nothing_else(house, tmp_path):
    """A conversion whose check died with its worker is ended; one that is waited for goes on."""
    base = house.base()
    lost, kept = house.add(base, scan(tmp_path / "a.pdf", *[FOG] * 30), scan(tmp_path / "b.pdf", FOG, LOG))
    checks = [begin(house, item) for item in (lost, kept)]
    house.work()
    eventually(lambda: house.hasten() or True, "due")
    run = house.claim(checks[0])
    house.age(run.job.id, lease_until=1)

    recovery.sweep(house.rt)

    assert is_over(checks[0].progress["ticket"]["pid"])
    assert "indexing_interrupted" == house.item(lost).error
    assert ItemStatus.COMPLETED is house.settle(kept).status


def test_window_of_checks_is_kept_between_looks(make, tmp_path):
    """No more conversions are begun than the window has places, though a check that waits has no message."""
    house = make(processes=8, window=2, conversion_poll_seconds=60)
    base = house.base()
    found = house.add(base, *(scan(tmp_path / f"{number}.pdf", FOG) for number in range(5)))
    house.work()

    assert 2 == len([check for item in found if (check := check_of(house, item)) and "ticket" in check.progress])


def test_one_process_at_a_time(make, tmp_path):
    """A host reads no more files at once than it may; the others wait for their turn."""
    house = make(processes=1)
    base = house.base()
    found = house.add(base, *(scan(tmp_path / f"{number}.pdf", FOG) for number in range(3)))
    begin(house, found[0])
    house.work()

    assert 1 == len([check for item in found if (check := check_of(house, item)) and "ticket" in check.progress])
    assert "converts as many files as it may" in house.service.why(found[2].id).explanation
    assert ItemStatus.COMPLETED is house.settle(*found).status


def test_others_go_on_while_one_converts(make, tmp_path):
    """A file that takes for ever keeps neither notes nor other scans waiting."""
    house = make(conversion_seconds=600)
    base = house.base()
    (endless,) = house.add(base, scan(tmp_path / "endless.pdf", *[FOG] * 60))
    begin(house, endless)
    others = [*house.notes(base, "words"), *house.add(base, scan(tmp_path / "short.pdf", LOG))]

    house.settle(*others)

    assert [ItemStatus.COMPLETED] * 2 == [house.item(item).status for item in others]
    assert ItemStatus.PROCESSING is house.item(endless).status
    house.service.delete_base(base.id)


def test_job_that_follows_a_check_cannot_be_hurried(house, tmp_path):
    """It starts when the check has ended; the refusal names that, and nothing has changed."""
    (item,) = house.add(house.base(file_processor="ocr"), scan(tmp_path / "log.pdf", LOG))
    check = begin(house, item)
    (follower,) = [job for job in house.jobs(JobStatus.PENDING) if job.after == check.id]

    with pytest.raises(InvalidOperation, match=check.id):
        house.service.requeue_job(follower.id)

    assert follower == house.service.job(follower.id)
    house.settle(item)


def test_why_tells_of_the_conversion(house, tmp_path):
    """Who converts, since when, and how far it is."""
    base = house.base()
    (item,) = house.add(base, scan(tmp_path / "scan.pdf", *[FOG] * 20))
    begin(house, item)
    eventually(lambda: house.work() is not None and "of" in check_of(house, item).progress, "it tells of its pages")

    told = house.service.why(item.id)

    assert CHECK is told.job.type
    assert "It is being converted by ocr since " in told.explanation
    assert " of 20; looked at again at " in told.explanation
    house.service.delete_base(base.id)


@pytest.mark.usefixtures("without_tesseract")
class TestWithoutTesseract:
    def test_scan_is_completed_and_says_what_is_missing(self, house, tmp_path):
        """It holds no text, and says why."""
        base = house.base()
        (item,) = house.add(base, scan(tmp_path / "scan.pdf", FOG))

        done = house.settle(item)

        assert ItemStatus.COMPLETED is done.status
        assert {Notice.NO_TEXT_EXTRACTED, Notice.OCR_MISSING} == set(done.notices)

    def test_picture_is_refused_with_the_command(self, house, tmp_path):
        """Nothing is added."""
        base = house.base()
        path = tmp_path / "photo.png"
        picture(FOG, size=(90, 40)).save(path)
        with pytest.raises(UnsupportedSource) as caught:
            house.add(base, path)

        assert INSTALL_TESSERACT in str(caught.value)
        assert [] == house.items(base)

    def test_picture_that_loses_its_converter_fails_with_the_command(self, house, tmp_path, monkeypatch):
        """Accepted while tesseract was there."""
        base = house.base()
        path = tmp_path / "photo.png"
        picture(FOG, size=(90, 40)).save(path)
        with monkeypatch.context() as there:
            there.setenv("PATH", os.defpath)
            (item,) = house.add(base, path)

        done = house.settle(item)

        assert "unsupported" == done.error
        assert INSTALL_TESSERACT in str(done.error_detail["message"])

    def test_chosen_processor_that_is_not_there_is_an_error(self, house, tmp_path):
        """Whoever chose it is told; nothing is indexed without it."""
        base = house.base(file_processor="ocr")
        (item,) = house.add(base, scan(tmp_path / "scan.pdf", FOG))

        assert ConverterMissing.code == house.settle(item).error


def uninstalled(house):
    """A base whose file processor is not installed any more."""
    base = house.base()
    with house.db.write() as tx:
        return bases.change(tx, base.id, {"file_processor_id": "magic"})


def test_unknown_processor_is_named(house, tmp_path):
    """A base may name one that this installation does not have any more."""
    base = uninstalled(house)
    (item,) = house.add(base, scan(tmp_path / "scan.pdf", FOG))

    done = house.settle(item)

    assert ConverterMissing.code == done.error
    assert "'magic'; there is: ocr" in str(done.error_detail["message"])


def test_text_needs_no_processor(house, tmp_path):
    """A base that names an unknown one still reads what needs none."""
    base = uninstalled(house)
    (tmp_path / "a.txt").write_text("words")
    (item,) = house.add(base, tmp_path / "a.txt")

    assert ItemStatus.COMPLETED is house.settle(item).status


def test_failed_conversion_leaves_nothing_in_the_way(make, tmp_path):
    """The same file can be added again, and indexed again as often as one likes."""
    house = make(conversion_seconds=0.001)
    base = house.base()
    path = scan(tmp_path / "scan.pdf", *[FOG] * 5)
    (item,) = house.add(base, path)
    for _ in range(3):
        assert "conversion_timeout" == house.settle(item).error
        house.service.reindex_items(base.id, [item.id])
        house.work()
    house.settle(item)
    patient = make(conversion_seconds=600)
    (again,) = patient.add(base, path)

    assert (ItemStatus.COMPLETED, "scan_1.md") == (patient.settle(again).status, patient.item(again).indexed_path)


def test_work_folder_holds_the_bytes_as_they_were(house, tmp_path):
    """The file may be replaced under its name while it is read."""
    base = house.base()
    (item,) = house.add(base, scan(tmp_path / "scan.pdf", *[FOG] * 20))
    check = begin(house, item)
    linked = conversions.place(house.rt, base.id, check.id) / conversions.SOURCE

    assert (tmp_path / "scan.pdf").read_bytes() == Path(linked).read_bytes()
    house.service.delete_base(base.id)
