"""docling-serve as its protocol says, and as it must not be, through the flows: a house, and a server that we own."""

import pytest

from knowledge.ingestion import recovery
from knowledge.model.jobs import JobStatus, JobType
from knowledge.model.status import ItemStatus, Notice
from knowledge.pipeline.conversion.docling import PAGE_BREAK, DoclingProcessor
from tests.contracts.processor_contract import ProcessorContract
from tests.fakes.docling_server import FakeDocling
from tests.scans import mixed, scan
from tests.waiting import eventually


class TestContract(ProcessorContract):
    @pytest.fixture
    def processor(self, docling):
        docling.behave(pages=["The fog signal sounds", "every ninety seconds."], after=2)
        return DoclingProcessor(url=docling.url, api_key="right")


WORDS = "The tower has two hundred and four steps."


@pytest.fixture
def docling():
    with FakeDocling(key="right") as server:
        yield server


@pytest.fixture
def make(make_house, docling):
    def make(*, billed=False, url=None, key="right", **options):
        processor = DoclingProcessor(url=url or docling.url, api_key=key, billed=billed)
        return make_house(processors=[processor], **({"conversion_poll_seconds": 0.02} | options))

    return make


@pytest.fixture
def house(make):
    return make()


def add(house, path, **options):
    """A PDF in a base that has chosen docling."""
    base = house.base(file_processor="docling", **options)
    (item,) = house.add(base, path)
    return base, item


def test_converted_on_its_pages(house, docling, tmp_path):
    """Text of the result is found on the page it stands on, empty pages counted."""
    docling.behave(pages=["# Rules\n\nRing the bell.", "", "| lamp | hours |\n| --- | --- |\n| red | 12 |"], after=3)
    base, item = add(house, scan(tmp_path / "scan.pdf", "Ring", "", "lamp"))

    done = house.settle(item)

    assert (ItemStatus.COMPLETED, "docling", 3, 2) == (
        done.status, done.quality.converter, done.quality.pages, done.quality.pages_with_text
    )  # fmt: skip
    assert [1, 3] == [chunk.page for chunk in house.service.chunks(base.id, item.id)]
    assert {"submitted": 1, "fetched": 1, "names": ["scan.pdf"]}.items() <= docling.stats().items()


def test_what_is_asked_for(house, docling, tmp_path):
    """Markdown and pages, without pictures inside; a text layer is not read again from its picture."""
    _, item = add(house, scan(tmp_path / "scan.pdf", "Ring"))
    house.settle(item)

    form = docling.stats()["forms"][0]

    assert ["md", "json"] == form["to_formats"]
    assert {
        "image_export_mode": ["placeholder"],
        "force_ocr": ["false"],
        "md_page_break_placeholder": [PAGE_BREAK],
    }.items() <= (form.items())


def test_text_pdf_goes_to_the_chosen_processor(house, docling, tmp_path):
    """Whoever chooses it wants its tables; what a reader finds is there until it answers."""
    docling.behave({"at": "poll", "behaviour": "never", "times": 3})
    base, item = add(house, mixed(tmp_path / "text.pdf", [(WORDS, True)]))
    house.work()

    assert {WORDS} == {hit.text for hit in house.service.search(base.id, "tower").hits}
    assert "docling" == house.settle(item).quality.converter


def test_name_says_what_the_bytes_are(house, docling, tmp_path):
    """docling goes by the suffix; a PDF that is called otherwise is sent under a name that fits."""
    paths = [scan(tmp_path / "a.pdf", "Ring"), scan(tmp_path / "b.pdf", "Ring").rename(tmp_path / "b.dat")]
    base = house.base(file_processor="docling")
    for item in house.add(base, *paths):
        house.settle(item)

    assert ["a.pdf", "b.dat.pdf"] == sorted(docling.stats()["names"])


@pytest.mark.parametrize("at", ["poll", "result"])
def test_unknown_task_is_final(house, docling, tmp_path, at):
    """404 for a task that was accepted: it fails at once, instead of waiting for ever; nothing is submitted again."""
    docling.behave({"at": at, "behaviour": "unknown"})
    _, item = add(house, scan(tmp_path / "scan.pdf", "Ring"))

    done = house.settle(item)

    assert (ItemStatus.FAILED, "conversion_lost") == (done.status, done.error)
    assert 1 == docling.stats()["submitted"]
    assert [] == house.rt.files.work_folders(item.base_id)


def test_result_that_cannot_be_placed_is_not_lost(make, docling, tmp_path):
    """The base is busy when the result is there; the server gives it once."""
    house = make(lock_seconds=0.05)
    base, item = add(house, scan(tmp_path / "scan.pdf", "Ring"))
    with house.rt.locks.base(base.id):
        eventually(lambda: house.work() >= 0 and docling.stats()["fetched"], "it was fetched")

    assert ItemStatus.COMPLETED is house.settle(item).status
    assert 1 == docling.stats()["fetched"]


def test_others_go_on_after_a_lost_task(house, docling, tmp_path):
    """One missing task keeps nothing else from being converted."""
    docling.behave({"at": "poll", "behaviour": "unknown", "times": 1})
    base, first = add(house, scan(tmp_path / "a.pdf", "Ring"))
    house.settle(first)
    (second,) = house.add(base, scan(tmp_path / "b.pdf", "Ring"))

    assert ["failed", "completed"] == [house.item(first).status, house.settle(second).status]


def test_converter_that_never_finishes(make, docling, tmp_path):
    """The item's own deadline ends it."""
    house = make(conversion_seconds=0.3)
    docling.behave({"at": "poll", "behaviour": "never"})
    _, item = add(house, scan(tmp_path / "scan.pdf", "Ring"))

    assert "conversion_timeout" == house.settle(item).error


def test_converter_that_answers_late_is_waited_for(make, docling, tmp_path):
    """However many looks it takes, it is submitted once."""
    house = make(conversion_seconds=600)
    docling.behave(after=40)
    _, item = add(house, scan(tmp_path / "scan.pdf", "Ring"))

    assert ItemStatus.COMPLETED is house.settle(item).status
    assert 1 == docling.stats()["submitted"]


@pytest.mark.parametrize(
    "trouble",
    [
        {"behaviour": "status", "status": 500},
        {"behaviour": "status", "status": 504},
        {"behaviour": "status", "status": 429},
        {"behaviour": "close"},
        {"behaviour": "short"},
    ],
    ids=str,
)
@pytest.mark.parametrize("at", ["submit", "poll", "result"])
def test_trouble_that_passes(house, docling, tmp_path, at, trouble):
    """It is asked again, and the item is completed."""
    docling.behave({"at": at, "times": 4, **trouble})
    _, item = add(house, scan(tmp_path / "scan.pdf", "Ring"))

    assert ItemStatus.COMPLETED is house.settle(item).status


@pytest.mark.parametrize("at", ["submit", "poll", "result"])
@pytest.mark.parametrize("behaviour", ["cut", "html", "zip", "nothing"])
def test_answer_that_is_not_of_the_protocol(house, docling, tmp_path, at, behaviour):
    """A truncated body, a page, a zip, an empty object: a failure with a code, nothing stored."""
    docling.behave({"at": at, "behaviour": behaviour})
    base, item = add(house, scan(tmp_path / "scan.pdf", "Ring"))

    done = house.settle(item)

    assert "nothing" == behaviour or "converter_bad_answer" == done.error
    assert done.error in ("converter_bad_answer", "conversion_failed")
    assert ["scan.pdf"] == house.raw(base)


@pytest.mark.parametrize(
    ("status", "code"), [(401, "converter_refused"), (403, "converter_refused"), (422, "converter_refused")]
)
def test_refusal_is_final(house, docling, tmp_path, status, code):
    """Asking again would not help."""
    docling.behave({"at": "submit", "behaviour": "status", "status": status})
    _, item = add(house, scan(tmp_path / "scan.pdf", "Ring"))

    assert code == house.settle(item).error


def test_key_is_sent_and_a_wrong_one_is_refused(make, docling, tmp_path):
    """The answer does not show it."""
    house = make(key="wrong-key")
    _, item = add(house, scan(tmp_path / "scan.pdf", "Ring"))

    done = house.settle(item)

    assert "converter_refused" == done.error
    assert "wrong-key" not in str(done.error_detail)


def test_redirect_is_not_followed(house, docling, tmp_path):
    """The file is sent to the server that was named, and to no other."""
    docling.behave({"at": "submit", "behaviour": "redirect", "to": "http://127.0.0.1:9/"})
    _, item = add(house, scan(tmp_path / "scan.pdf", "Ring"))

    assert "converter_refused" == house.settle(item).error


@pytest.mark.parametrize(("at", "behaviour"), [("poll", "failure"), ("result", "failed")])
def test_conversion_that_failed(house, docling, tmp_path, at, behaviour):
    """The server's own verdict, with its reason where it gives one."""
    docling.behave({"at": at, "behaviour": behaviour})
    _, item = add(house, scan(tmp_path / "scan.pdf", "Ring"))

    done = house.settle(item)

    assert "conversion_failed" == done.error
    assert behaviour == "failure" or "the model ran away" in str(done.error_detail)


def test_partial_result_says_so(house, docling, tmp_path):
    """The text is there, and that it is not all of it."""
    docling.behave({"at": "result", "behaviour": "partial"})
    _, item = add(house, scan(tmp_path / "scan.pdf", "Ring"))

    done = house.settle(item)

    assert (ItemStatus.COMPLETED, (Notice.PARTIAL_TEXT,)) == (done.status, done.notices)


def test_server_that_is_away_is_waited_for(make, tmp_path):
    """Nothing has begun, so it may be tried until the deadline; `why` says what is waited for."""
    house = make(url="http://127.0.0.1:9", conversion_seconds=0.5)
    _, item = add(house, scan(tmp_path / "scan.pdf", "Ring"))
    house.work()

    assert "It waits for docling, which is not reached" in house.service.why(item.id).explanation
    assert "converter_unavailable" == house.settle(item).error


def test_billed_submission_is_not_repeated(make, docling, tmp_path):
    """Where a submission may have arrived, a person decides whether to pay again."""
    house = make(billed=True)
    docling.behave({"at": "submit", "behaviour": "close"})
    _, item = add(house, scan(tmp_path / "scan.pdf", "Ring"))

    done = house.settle(item)

    assert "conversion_lost" == done.error
    assert "not known" in str(done.error_detail["message"])


def test_without_a_server_the_item_says_how_to_name_one(make_house, tmp_path):
    """The setting is named."""
    house = make_house(processors=[DoclingProcessor()])
    _, item = add(house, scan(tmp_path / "scan.pdf", "Ring"))

    done = house.settle(item)

    assert "converter_missing" == done.error
    assert "KNOWLEDGE_DOCLING_URL" in str(done.error_detail["message"])


def test_delete_while_it_converts(house, docling, tmp_path):
    """Its result is never fetched; nothing of it is left."""
    docling.behave({"at": "poll", "behaviour": "never"})
    base, item = add(house, scan(tmp_path / "scan.pdf", "Ring"))
    house.work()
    house.service.delete_items(base.id, [item.id])
    house.work(hurry=True)
    recovery.sweep(house.rt)

    assert not house.exists(item)
    assert ([], []) == (house.raw(base), house.rt.files.work_folders(base.id))
    assert [] == house.jobs(JobStatus.PENDING, JobStatus.RUNNING)
    assert 1 == sum(job.type is JobType.CHECK_FILE_PROCESSING_RESULT for job in house.jobs())
