"""Files that something else makes text of: 41, 54–56, 63, 76, 90, 112–114. By a docling-serve that we own."""

import pytest

from knowledge.ingestion import conversions, convert
from knowledge.ingestion.run import perform
from knowledge.model.inputs import BasePatch
from knowledge.model.jobs import JobStatus, JobType
from knowledge.model.status import ItemStatus
from knowledge.pipeline.conversion.docling import DoclingProcessor
from tests.fakes.docling_server import FakeDocling
from tests.regression import faults
from tests.scans import mixed, scan
from tests.waiting import eventually

CHECK, INDEX = JobType.CHECK_FILE_PROCESSING_RESULT, JobType.INDEX_DOCUMENTS
WORDS = "The tower has two hundred and four steps."


@pytest.fixture
def docling():
    with FakeDocling() as server:
        server.behave(pages=["The fog signal."])
        yield server


@pytest.fixture
def house(make_house, docling):
    return make_house(processors=[DoclingProcessor(url=docling.url)], conversion_poll_seconds=0.02)


@pytest.fixture
def base(house):
    return house.base(file_processor="docling")


def settle(house, item):
    def at_rest():
        house.work()
        found = house.item(item)
        return found if found.status in (ItemStatus.COMPLETED, ItemStatus.FAILED) else None

    return eventually(at_rest, "the item is completed or failed", seconds=60)


def test_041_the_markdown_has_a_name_of_its_own(house, base, tmp_path, write):
    """Beside the file, and reserved like any other: what comes later gets a number."""
    (item,) = house.add(base, scan(tmp_path / "report.pdf", "Ring"))
    settle(house, item)
    (late,) = house.add(base, write("report.md", "words"))

    assert ("report.md", "report_1.md") == (house.item(item).indexed_path, late.relative_path)


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
    assert ItemStatus.COMPLETED is settle(house, item).status


def test_056_no_other_item_is_written_over(house, base, tmp_path, write):
    """Neither a file nor the Markdown of another."""
    (note,) = house.add(base, write("report.md", "words"))
    (tmp_path / "a").mkdir()
    found = house.add(base, scan(tmp_path / "report.pdf", "Ring"), scan(tmp_path / "a" / "report.pdf", "Ring"))
    for item in found:
        settle(house, item)

    assert "words" == house.service.preview(note.id).text
    assert ["report_1.md", "report_1_1.md"] == sorted(house.item(item).indexed_path for item in found)


def test_063_a_delete_ends_the_conversion(house, base, docling, tmp_path):
    """And takes its folder along."""
    docling.behave({"at": "poll", "behaviour": "never"})
    (item,) = house.add(base, scan(tmp_path / "report.pdf", "Ring"))
    house.work()
    begun = house.rt.files.work_folders(base.id)
    house.service.delete_items(base.id, [item.id])
    house.work(hurry=True)

    assert (1, []) == (len(begun), house.rt.files.work_folders(base.id))
    assert not house.exists(item)


def test_076_a_restore_carries_the_markdown_along(house, base, docling, tmp_path):
    """Nothing is converted again; a reindex would."""
    (item,) = house.add(base, scan(tmp_path / "report.pdf", "Ring"))
    settle(house, item)
    restored = house.service.restore_base(base.id, "again", "hashing")
    (again,) = restored.items

    assert (ItemStatus.COMPLETED, "report.md") == (settle(house, again).status, house.item(again).indexed_path)
    assert 1 == docling.stats()["submitted"]
    assert {again.id} == {hit.item_id for hit in house.service.search(restored.base.id, "fog signal").hits}


def test_090_a_file_that_is_read_itself_loses_its_markdown(house, base, tmp_path):
    """Its converter was taken from the base."""
    (item,) = house.add(base, mixed(tmp_path / "report.pdf", [(WORDS, True)]))
    assert "report.md" == settle(house, item).indexed_path
    house.service.patch_base(base.id, BasePatch(file_processor=None))
    house.service.reindex_items(base.id, [item.id])
    house.work()

    assert (None, ["report.pdf"]) == (settle(house, item).indexed_path, house.raw(base))
    assert {WORDS} == {hit.text for hit in house.service.search(base.id, "tower").hits}


def test_112_an_unfinished_conversion_is_looked_at_again(house, base, docling, tmp_path):
    """By the same row, which knows when it began; given up in the end."""
    docling.behave(after=5)
    (item,) = house.add(base, scan(tmp_path / "report.pdf", "Ring"))
    settle(house, item)

    (check,) = [job for job in house.jobs() if job.type is CHECK]
    assert (JobStatus.COMPLETED, 5) == (check.status, check.progress["looks"])
    assert 1 == docling.stats()["submitted"]


def test_112_it_is_given_up_in_the_end(make_house, docling, tmp_path):
    """After the time that one item may take."""
    docling.behave({"at": "poll", "behaviour": "never"})
    house = make_house(processors=[DoclingProcessor(url=docling.url)], conversion_poll_seconds=0.02, conversion_seconds=0.2)
    (item,) = house.add(house.base(file_processor="docling"), scan(tmp_path / "report.pdf", "Ring"))

    assert "conversion_timeout" == settle(house, item).error
    assert [] == house.rt.files.work_folders(item.base_id)


@pytest.mark.parametrize("rule", [{"at": "poll", "behaviour": "unknown"}, {"at": "result", "behaviour": "nothing"}], ids=str)
def test_113_a_result_that_is_not_there_fails_the_item(house, base, docling, tmp_path, rule):
    """The index job behind it is closed with it."""
    docling.behave(rule)
    (item,) = house.add(base, scan(tmp_path / "report.pdf", "Ring"))

    assert settle(house, item).error in ("conversion_lost", "conversion_failed")
    assert [] == house.jobs(JobStatus.PENDING, JobStatus.RUNNING)


def test_114_an_item_that_is_gone_ends_its_conversion(house, base, docling, tmp_path):
    """The look that finds it so, and every other way it may have gone."""
    docling.behave({"at": "poll", "behaviour": "never"})
    (item,) = house.add(base, scan(tmp_path / "report.pdf", "Ring"))
    house.work()
    (check,) = [job for job in house.jobs() if job.type is CHECK]
    house.hasten()
    run = house.claim(check)
    house.service.delete_items(base.id, [item.id])
    perform(run, convert.run)

    assert JobStatus.CANCELLED is house.service.job(check.id).status
    house.work(hurry=True)
    assert [] == house.rt.files.work_folders(base.id)
    assert conversions.stop_unwanted(house.rt, base.id) == 0
