"""The process that reads one file: budgets, hostile files, languages, and what becomes of it."""

import errno
import json
import os
import struct
import time
import zlib
from functools import partial

import psutil
import pytest
from PIL import Image

from knowledge.errors import ConversionFault, CorruptSource, EncryptedSource, ReaderBudgetExceeded, StorageFull
from knowledge.model.budget import Budget
from knowledge.model.documents import SourceFile
from knowledge.pipeline.conversion import artefact, ocr_child, pages, tesseract
from knowledge.pipeline.conversion.apart import StepFailed, apart
from knowledge.pipeline.conversion.ocr import OcrProcessor
from knowledge.pipeline.conversion.port import Converted, Lost, NoRoom, Order, Waiting
from knowledge.pipeline.readers.media_type import detect
from knowledge.process import began
from tests.contracts.processor_contract import ProcessorContract
from tests.processes import is_over
from tests.scans import picture, scan
from tests.waiting import eventually

FOG = "The fog signal sounds\nevery ninety seconds."
BUDGET = Budget(memory_bytes=512 << 20)


class TestContract(ProcessorContract):
    @pytest.fixture
    def processor(self, tmp_path):
        return OcrProcessor(slots=tmp_path / "slots", languages="eng")


@pytest.fixture
def processor(tmp_path):
    return OcrProcessor(slots=tmp_path / "slots", processes=1, budget=BUDGET, languages="eng")


@pytest.fixture
def read(processor, tmp_path):
    """What becomes of a file: the text of its pages, or an error."""

    def read(path, *, seconds=120.0):
        work = tmp_path / "work"
        work.mkdir()
        order = Order(SourceFile(path, path.name, detect(path, path.name)), work, seconds)
        ticket = processor.start(order)
        found = eventually(lambda: done(processor.poll(ticket, work)), "it is read", seconds=120)
        processor.cancel(ticket, work)
        return artefact.read(found.artefact)

    return read


def done(answer):
    return answer if isinstance(answer, Converted) else None


def words(result):
    return {document.page: " ".join(document.text.split()) for document in result.documents}


def test_count_of_pages_that_lies_costs_no_scan(tmp_path):
    """A damaged page tree may claim more pages than the budget has; its reader does not believe it either."""
    path = scan(tmp_path / "letter.pdf", FOG)
    assert b"/Count 1" in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(b"/Count 1", b"/Count 1000000"))
    pages.survey(SourceFile(path, path.name, "application/pdf"), BUDGET, tmp_path / "survey.json")

    assert [1] == json.loads((tmp_path / "survey.json").read_text()).get("lacking")


def test_scan_on_its_side_is_turned(read, tmp_path):
    """All four ways a page can lie on the glass."""
    text = "\n".join([FOG, "The keeper writes the log at midnight", "and lights the lamp at dusk."] * 5)
    sides = [picture(text).rotate(angle, expand=True).convert("RGB") for angle in (0, 90, 180, 270)]
    path = tmp_path / "turned.pdf"
    sides[0].save(path, save_all=True, append_images=sides[1:], resolution=210)

    assert 4 == sum("fog signal sounds every ninety seconds" in text for text in words(read(path)).values())


def test_page_of_outlines_is_read(read, tmp_path):
    """Letters drawn as shapes, without any picture, are no text either; they are drawn and read."""
    from pypdfium2 import PdfDocument, raw

    source = picture("The lamp is lit", size=(700, 280), points=70)
    document = PdfDocument.new()
    page = document.new_page(700, 280)
    for y in range(0, 280, 2):
        for x in range(0, 700, 2):
            if source.getpixel((x, y)) < 128:
                dot = raw.FPDFPageObj_CreateNewRect(x, 278 - y, 2.2, 2.2)
                raw.FPDFPath_SetDrawMode(dot, raw.FPDF_FILLMODE_ALTERNATE, False)
                raw.FPDFPage_InsertObject(page, dot)
    page.gen_content()
    document.save(tmp_path / "outlines.pdf")

    assert {1: "The lamp is lit"} == words(read(tmp_path / "outlines.pdf"))


def test_absurd_page_box_is_drawn_within_the_budget(tmp_path):
    """200,000 points a side would be 694 billion dots at 300 dpi."""
    from pypdfium2 import PdfDocument

    path = tmp_path / "huge.pdf"
    document = PdfDocument.new()
    document.new_page(200_000, 200_000)
    document.save(path)
    image = tmp_path / "page.tif"
    pages.draw(SourceFile(path, path.name, "application/pdf"), 1, BUDGET, image)

    with Image.open(image) as drawn:
        assert drawn.width * drawn.height <= pages.MAX_PIXELS


def test_picture_of_too_many_pixels_is_refused_before_it_is_unpacked(read, tmp_path):
    """50,000 × 50,000 dots in a file of a hundred bytes."""
    path = tmp_path / "bomb.png"
    path.write_bytes(png(50_000, 50_000))
    with pytest.raises(ReaderBudgetExceeded) as caught:
        read(path)

    assert 2_500_000_000 in caught.value.details.values()


def test_large_picture_is_read_smaller(read, tmp_path):
    """A photograph of a page with 48 million dots."""
    path = tmp_path / "photo.jpg"
    picture(FOG, size=(8000, 6000), points=260).save(path)

    assert "fog signal" in words(read(path))[None]


def test_letters_on_nothing_are_read(read, tmp_path):
    """A transparent ground is white, as people see it."""
    image = Image.new("RGBA", (900, 400), (0, 0, 0, 0))
    ink = picture(FOG, size=(900, 400)).point(lambda value: 255 - value)
    image.paste((0, 0, 0, 255), mask=ink)
    image.save(tmp_path / "clear.png")

    assert "fog signal" in words(read(tmp_path / "clear.png"))[None]


@pytest.mark.parametrize("mode", ["1", "P", "CMYK", "I;16"])
def test_every_depth_of_colour_is_read(read, tmp_path, mode):
    """Scanners and printers have their own."""
    grey = picture(FOG, size=(900, 400))
    image = grey.point(lambda value: value * 200).convert("I;16") if mode == "I;16" else grey.convert(mode)
    image.save(tmp_path / "deep.tif")

    assert "fog signal" in words(read(tmp_path / "deep.tif"))[None]


def test_fax_has_dots_that_are_not_square(read, tmp_path):
    """204 by 98 dots an inch: half the height is missing."""
    flat = picture(FOG, size=(1728, 1100), points=60).resize((1728, 528)).convert("1")
    flat.save(tmp_path / "fax.tif", dpi=(204, 98), compression="group4")

    assert "fog signal" in words(read(tmp_path / "fax.tif"))[None]


def test_film_is_read_by_its_first_picture(read, tmp_path):
    """Frames of a GIF are no pages."""
    first = picture(FOG, size=(600, 300), points=30)
    first.save(tmp_path / "film.gif", save_all=True, append_images=[first.rotate(1)] * 5)

    assert [None] == list(words(read(tmp_path / "film.gif")))


def test_encrypted_pdf_is_not_read(read, tmp_path):
    """The same code as from its reader."""
    path = tmp_path / "locked.pdf"
    path.write_bytes(LOCKED)

    with pytest.raises(EncryptedSource):
        read(path)


def test_truncated_picture_is_corrupt(read, tmp_path):
    """Its head is right, its dots are not there."""
    path = tmp_path / "half.png"
    picture(FOG, size=(900, 400)).save(path)
    path.write_bytes(path.read_bytes()[:200])

    with pytest.raises((CorruptSource, ConversionFault)):
        read(path)


def test_time_is_over(read, tmp_path):
    """The process looks at its own clock as well."""
    with pytest.raises(ConversionFault) as caught:
        read(scan(tmp_path / "long.pdf", *[FOG] * 40), seconds=1.5)

    assert "conversion_timeout" == caught.value.code


def test_no_more_than_the_host_may_run(processor, tmp_path):
    """The place of one that has died is free at once, however it died."""
    path = scan(tmp_path / "scan.pdf", *[FOG] * 30)
    works = [tmp_path / f"work-{number}" for number in range(2)]
    for work in works:
        work.mkdir()
    orders = [Order(SourceFile(path, path.name, "application/pdf"), work, 120) for work in works]
    first = processor.start(orders[0])
    with pytest.raises(NoRoom):
        processor.start(orders[1])
    os.kill(first["pid"], 9)
    eventually(lambda: is_over(first["pid"]), "it is gone")
    second = eventually(lambda: started(processor, orders[1]), "there is room")

    with pytest.raises(Lost):
        processor.poll(first, works[0])
    processor.cancel(second, works[1])


def started(processor, order):
    try:
        return processor.start(order)
    except NoRoom:
        return None


def test_cancel_ends_what_it_has_started(processor, tmp_path):
    """Tesseract as well, also if nobody kept the ticket; twice is fine."""
    path = scan(tmp_path / "scan.pdf", *[FOG] * 30)
    work = tmp_path / "work"
    work.mkdir()
    ticket = processor.start(Order(SourceFile(path, path.name, "application/pdf"), work, 120))
    child = psutil.Process(ticket["pid"])
    below = eventually(lambda: child.children(recursive=True), "a page is being read")
    for _ in range(2):
        processor.cancel({}, work)

    eventually(lambda: all(is_over(process.pid) for process in (child, *below)), "all of it is gone")


def test_process_ends_with_its_folder(processor, tmp_path):
    """Whoever removes the folder needs to do nothing else."""
    path = scan(tmp_path / "scan.pdf", *[FOG] * 30)
    work = tmp_path / "work"
    work.mkdir()
    ticket = processor.start(Order(SourceFile(path, path.name, "application/pdf"), work, 120))
    eventually(lambda: isinstance(processor.poll(ticket, work), Waiting) and (work / "survey.json").exists(), "it works")
    work.rename(tmp_path / "elsewhere")

    eventually(lambda: is_over(ticket["pid"]), "it is gone")


def test_another_process_with_the_same_number_is_left_alone(processor, tmp_path):
    """Numbers of processes are given out again."""
    me = psutil.Process()
    work = tmp_path / "work"
    work.mkdir()
    processor.cancel({"host": os.uname().nodename, "pid": me.pid, "started": began(me.pid) - 100}, work)

    assert me.is_running()


def test_step_that_crashes_or_hangs_or_grows():
    """None of it reaches the process that asked."""
    for step, seconds, reason in (
        (lambda: os.kill(os.getpid(), 15), 60, "signal 15"),
        (lambda: time.sleep(60), 0.4, "more than 0 s"),
        (lambda: bytearray(1 << 30), 60, "out of memory"),
        (lambda: 1 / 0, 60, "it cannot be read"),
    ):
        with pytest.raises(StepFailed) as caught:
            apart(step, seconds=seconds, memory_bytes=256 << 20)

        assert reason == str(caught.value)


@pytest.mark.parametrize(
    ("installed", "wanted", "used"),
    [
        (("deu", "eng", "osd"), None, ("eng", "deu")),
        (("deu", "osd"), None, ("deu",)),
        (("eng", *(f"l{number}" for number in range(99))), None, ("eng",)),
        (("eng",), "fra+eng", ("fra", "eng")),
        (("osd",), None, ()),
    ],
)
def test_languages(installed, wanted, used):
    """Those asked for; else those installed, English first; else English, if a whole world of them is."""
    assert used == tesseract.Tesseract("tesseract", "5", installed).languages(wanted)


def test_language_that_is_not_installed_is_named_with_its_package(tmp_path):
    """Instead of failing file by file."""
    complaint = OcrProcessor(slots=tmp_path, languages="eng+xyz_tra").missing()

    assert complaint.endswith("xyz_tra: sudo apt-get install -y tesseract-ocr-xyz-tra")


def test_nothing_that_is_read_is_logged(processor, tmp_path):
    """The order holds names and numbers; what is written is removed with the folder."""
    path = scan(tmp_path / "scan.pdf", FOG)
    work = tmp_path / "work"
    work.mkdir()
    ticket = processor.start(Order(SourceFile(path, path.name, "application/pdf"), work, 120))
    eventually(lambda: done(processor.poll(ticket, work)), "it is read")

    left = {entry.name for entry in work.iterdir()}
    assert {"order.json", "process.json", "progress.json", "result.md", "survey.json"} >= left
    assert "fog" not in json.dumps(json.loads((work / "order.json").read_text()))


def png(width, height):
    """A head that promises so many dots, and hardly any data."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")


#: a page behind a user password, RC4 with 40 bits; made by hand
LOCKED = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>endobj\n"
    b"4 0 obj<</Filter/Standard/V 1/R 2/O<" + b"41" * 32 + b">/U<" + b"42" * 32 + b">/P -4>>endobj\n"
    b"trailer<</Root 1 0 R/Encrypt 4 0 R/ID[<00><00>]/Size 5>>\n%%EOF\n"
)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_full_disk_is_waited_for_and_no_fault_of_the_file(tmp_path, monkeypatch, number):
    """The step is done again when there is room: here at the second time."""
    monkeypatch.setattr(ocr_child, "_SPACE_SECONDS", 0.01)
    tried = tmp_path / "tried"

    def step():
        if not tried.exists():
            tried.touch()
            raise OSError(number, "no room")
        (tmp_path / "done").touch()

    ocr_child.with_space(partial(apart, step, seconds=60, memory_bytes=256 << 20), time.monotonic() + 60)

    assert (tmp_path / "done").exists()


def test_disk_that_stays_full_is_told_as_such(monkeypatch):
    """In the step's own process and in ours; any other trouble is told at once."""
    monkeypatch.setattr(ocr_child, "_SPACE_SECONDS", 0.01)

    def fail(number):
        raise OSError(number, "x")

    full, broken = partial(fail, errno.ENOSPC), partial(fail, errno.EIO)
    for step in (full, partial(apart, full, seconds=60, memory_bytes=256 << 20)):
        with pytest.raises(StorageFull):
            ocr_child.with_space(step, time.monotonic())
    with pytest.raises(OSError, match="x"):
        ocr_child.with_space(broken, time.monotonic() + 60)
    with pytest.raises(StepFailed):
        ocr_child.with_space(partial(apart, broken, seconds=60, memory_bytes=256 << 20), time.monotonic() + 60)
