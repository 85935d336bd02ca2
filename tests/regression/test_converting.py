"""Files that something else makes text of: 41, 54–56, 63, 76, 90, 97, 112–114. By a docling-serve that we own."""

import pytest

from knowledge.ingestion import convert
from knowledge.ingestion.run import perform
from knowledge.model.inputs import BasePatch
from knowledge.model.jobs import JobStatus, JobType
from knowledge.model.status import INDEXING_INTERRUPTED, ItemStatus
from knowledge.pipeline.conversion.docling import DoclingProcessor
from knowledge.pipeline.conversion.port import Lost
from tests.fakes.docling_server import FakeDocling
from tests.regression import faults
from tests.scans import mixed, scan

CHECK, INDEX = JobType.CHECK_FILE_PROCESSING_RESULT, JobType.INDEX_DOCUMENTS
WORDS = "The tower has two hundred and four steps."


@pytest.fixture
def docling():
    with FakeDocling() as server:
        server.behave(pages=["The fog signal."])
        yield server


@pytest.fixture
def cancelled():
    """The tickets of the conversions that somebody has ended."""
    return []


@pytest.fixture
def processor(docling, cancelled):
    return faults.Hooked(DoclingProcessor(url=docling.url), cancel=lambda ticket, work: cancelled.append(ticket))


@pytest.fixture
def house(make_house, processor):
    return make_house(processors=[processor], conversion_poll_seconds=0.02)


@pytest.fixture
def base(house):
    return house.base(file_processor="docling")


def check_of(house):
    (check,) = [job for job in house.jobs() if job.type is CHECK]
    return check


def test_041_the_markdown_has_a_name_of_its_own(house, base, tmp_path, write):
    """Beside the file, taken when it is placed: what comes later gets a number, what was there keeps its name."""
    (item,) = house.add(base, scan(tmp_path / "report.pdf", "Ring"))
    house.settle(item)
    early, late, other = house.add(
        base, write("brief.md", "words"), write("report.md", "words"), scan(tmp_path / "brief.pdf", "Ring")
    )
    house.settle(other)

    assert ("report.pdf", "report.md", "report_1.md") == (item.relative_path, house.item(item).indexed_path, late.relative_path)
    assert ("brief.pdf", "brief_1.md", "brief.md") == (other.relative_path, house.item(other).indexed_path, early.relative_path)


def test_054_check_and_index_job_are_a_chain(house, base, tmp_path):
    """The first index job has handed over: nothing but the check may run, and its message brings the other's along."""
    (item,) = house.add(base, scan(tmp_path / "report.pdf", "Ring"))
    first = house.job_of(item)
    house.deliver(house.sender.waiting.popleft())
    done, check, index = house.jobs()

    assert (first.id, JobStatus.COMPLETED) == (done.id, done.status)
    assert (CHECK, first.id, None) == (check.type, check.parent_id, check.after)
    assert (INDEX, first.id, check.id) == (index.type, index.parent_id, index.after)
    assert [(check.id, (index.id, INDEX))] == [(job.id, job.then) for job in house.sender.sent if job.id != first.id]
    assert house.deliver(index.id) is None


def test_055_nothing_is_begun_without_its_rows(house, base, docling, tmp_path):
    """If they cannot be written, the index job tries again later."""
    (item,) = house.add(base, scan(tmp_path / "report.pdf", "Ring"))
    with faults.refusing(house, f"INSERT ON knowledge_job WHEN NEW.type = '{CHECK}'"):
        house.work()

        assert (0, [INDEX]) == (docling.stats()["submitted"], [job.type for job in house.jobs()])
    house.hasten()
    assert ItemStatus.COMPLETED is house.settle(item).status


def test_056_no_other_item_is_written_over(house, base, tmp_path, write):
    """Neither a file nor the Markdown of another."""
    (note,) = house.add(base, write("report.md", "words"))
    (tmp_path / "a").mkdir()
    found = house.add(base, scan(tmp_path / "report.pdf", "Ring"), scan(tmp_path / "a" / "report.pdf", "Ring"))
    for item in found:
        house.settle(item)

    assert "words" == house.service.preview(note.id).text
    assert ["report_1.md", "report_1_1.md"] == sorted(house.item(item).indexed_path for item in found)


def test_063_a_delete_ends_the_conversion(house, base, docling, tmp_path, cancelled):
    """Its processor is told, and its folder goes."""
    docling.behave({"at": "poll", "behaviour": "never"})
    (item,) = house.add(base, scan(tmp_path / "report.pdf", "Ring"))
    house.work()
    begun = house.rt.files.work_folders(base.id)
    ticket = check_of(house).progress["ticket"]
    house.service.delete_items(base.id, [item.id])
    house.work(hurry=True)

    assert (1, []) == (len(begun), house.rt.files.work_folders(base.id))
    assert [ticket] == cancelled
    assert not house.exists(item)


def test_076_a_restore_carries_the_markdown_along(house, base, docling, tmp_path):
    """Nothing is converted again; a reindex would."""
    (item,) = house.add(base, scan(tmp_path / "report.pdf", "Ring"))
    house.settle(item)
    restored = house.service.restore_base(base.id, "again", "hashing")
    (again,) = restored.items

    assert (ItemStatus.COMPLETED, "report.md") == (house.settle(again).status, house.item(again).indexed_path)
    assert 1 == docling.stats()["submitted"]
    assert {again.id} == {hit.item_id for hit in house.service.search(restored.base.id, "fog signal").hits}


def test_090_a_file_that_is_read_itself_loses_its_markdown(house, base, tmp_path):
    """Its converter was taken from the base."""
    (item,) = house.add(base, mixed(tmp_path / "report.pdf", [(WORDS, True)]))
    assert "report.md" == house.settle(item).indexed_path
    house.service.patch_base(base.id, BasePatch(file_processor=None))
    house.service.reindex_items(base.id, [item.id])
    house.work()

    assert (None, ["report.pdf"]) == (house.settle(item).indexed_path, house.raw(base))
    assert {WORDS} == {hit.text for hit in house.service.search(base.id, "tower").hits}


def test_097_the_path_of_a_converted_file_is_its_own(house, base, tmp_path):
    """Never that of its Markdown."""
    (item,) = house.add(base, scan(tmp_path / "report.pdf", "Ring"))

    assert "report.md" == house.settle(item).indexed_path
    assert (tmp_path / "report.pdf").read_bytes() == house.service.file_path(item.id).read_bytes()


def test_112_an_unfinished_conversion_is_looked_at_again(make_house, docling, processor, tmp_path):
    """By the same row, after 1, 2, 4 and then every 5 seconds; it knows since when."""
    docling.behave(after=5)
    house = make_house(processors=[processor])
    (item,) = house.add(house.base(file_processor="docling"), scan(tmp_path / "report.pdf", "Ring"))
    waits, begun = [], set()
    house.work()
    while (check := check_of(house)).status is JobStatus.PENDING:
        waits.append(round(house.wait_of(check)))
        begun.add(check.progress["began"])
        house.hasten()
        house.deliver(check.id)
    house.work()

    assert ([1, 2, 4, 5, 5, 5], 1) == (waits, len(begun))
    assert (ItemStatus.COMPLETED, 1) == (house.item(item).status, docling.stats()["submitted"])


def test_112_it_is_given_up_in_the_end(make_house, docling, processor, tmp_path, cancelled):
    """After the time that one item may take it is ended, and the item fails."""
    docling.behave({"at": "poll", "behaviour": "never"})
    house = make_house(processors=[processor], conversion_poll_seconds=0.02, conversion_seconds=0.2)
    (item,) = house.add(house.base(file_processor="docling"), scan(tmp_path / "report.pdf", "Ring"))

    assert "conversion_timeout" == house.settle(item).error
    assert [check_of(house).progress["ticket"]] == cancelled
    assert [] == house.rt.files.work_folders(item.base_id)


@pytest.mark.parametrize(
    ("at", "behaviour", "code"),
    [
        ("poll", "unknown", "conversion_lost"),
        ("poll", "failure", "conversion_failed"),
        ("result", "failed", "conversion_failed"),
        ("result", "nothing", "conversion_failed"),
    ],
)
def test_113_a_result_that_is_not_there_fails_the_item(house, base, docling, tmp_path, at, behaviour, code):
    """And the check with it; the index job behind it is closed."""
    docling.behave({"at": at, "behaviour": behaviour})
    (item,) = house.add(base, scan(tmp_path / "report.pdf", "Ring"))

    assert (ItemStatus.FAILED, code) == (house.settle(item).status, house.item(item).error)
    assert (JobStatus.FAILED, code) == (check_of(house).status, check_of(house).error)
    assert [] == house.jobs(JobStatus.PENDING, JobStatus.RUNNING)


def test_113_a_conversion_whose_process_is_gone_is_parked(make_house, processor, tmp_path):
    """Whether it is begun again is for a person to say."""
    house = make_house(processors=[faults.Hooked(processor, poll=faults.raising(Lost()))], conversion_poll_seconds=0.02)
    (item,) = house.add(house.base(file_processor="docling"), scan(tmp_path / "report.pdf", "Ring"))

    assert (ItemStatus.FAILED, INDEXING_INTERRUPTED) == (house.settle(item).status, house.item(item).error)
    assert (JobStatus.CANCELLED, "job_abandoned") == (check_of(house).status, check_of(house).error)
    assert [] == house.jobs(JobStatus.PENDING, JobStatus.RUNNING)


def test_114_an_item_that_is_gone_ends_its_conversion(house, base, docling, tmp_path, cancelled):
    """The look that finds it so tells the processor, and ends as cancelled."""
    docling.behave({"at": "poll", "behaviour": "never"})
    (item,) = house.add(base, scan(tmp_path / "report.pdf", "Ring"))
    house.work()
    check = check_of(house)
    house.hasten()
    run = house.claim(check)
    house.service.delete_items(base.id, [item.id])
    perform(run, convert.run)

    assert ([check.progress["ticket"]], []) == (cancelled, house.rt.files.work_folders(base.id))
    assert JobStatus.CANCELLED is house.service.job(check.id).status
    house.work(hurry=True)
    assert [] == house.items(base)
