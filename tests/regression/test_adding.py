"""Behaviours 38 to 53: adding, and what is in the way."""

import os
import signal
import threading

import pytest

from knowledge.errors import BaseFailed, BinarySource, InvalidInput, LeaseLost, StorageFull, UnsupportedSource
from knowledge.ingestion import index
from knowledge.ingestion.run import perform
from knowledge.ingestion.tidy import tidy
from knowledge.model.inputs import DirectoryInput, FileInput, NoteInput, Strategy
from knowledge.model.jobs import JobStatus, JobType
from knowledge.model.quality import Quality
from knowledge.model.results import Conflict
from knowledge.model.status import INDEXING_INTERRUPTED, ItemStatus, ItemType
from tests.regression.failed import fail_base
from tests.regression.faults import Refused, hooked, raising, refusing
from tests.waiting import eventually


def _titles(items):
    """What they are called in the base, by which two roots are told apart."""
    return [item.stored_name for item in items]


def _texts(house, base, query):
    return [hit.text for hit in house.service.search(base.id, query).hits]


@pytest.fixture
def untouched(house, base):
    """Rows, files, jobs and messages of the base, to compare before with after."""

    def state():
        rows = [(item.id, item.status, item.updated_at) for item in house.items(base)]
        return rows, house.raw(base), house.staged(base), [job.id for job in house.jobs()], len(house.sender.sent)

    return state


def test_038_nothing_is_added_to_a_failed_base(house, base):
    """A failed base refuses, and says why; adding nothing is an error in any base."""
    with pytest.raises(InvalidInput):
        house.service.add_items(base.id, [])
    fail_base(house, base)

    with pytest.raises(BaseFailed) as refusal:
        house.notes(base, "one")

    assert (422, {"base_id": base.id, "reason": "missing_embedding_model"}) == (
        refusal.value.http_status,
        refusal.value.details,
    )
    assert [] == house.items(base)


def test_039_one_name_twice_gets_a_number(house, base, write):
    """In one call as well as in two."""
    added = house.add(base, write("a/x.md", "one"), write("b/x.md", "two"))
    again = house.add(base, write("c/x.md", "three"))

    assert ["x.md", "x_1.md", "x_2.md"] == _titles([*added, *again])
    assert ["x.md", "x_1.md", "x_2.md"] == house.raw(base)


def test_040_a_snapshot_holds_its_name(house, base, write):
    """A file does not take the name of a note."""
    (note,) = house.add(base, NoteInput(title="n", content="text"))
    (file,) = house.add(base, write("n.md", "text"))

    assert ("n.md", "n_1.md") == (note.relative_path, file.relative_path)


def test_042_a_file_that_nobody_reads_is_refused_before_any_copy(house, base, write, untouched):
    """Together with everything that came with it."""
    before = untouched()
    for bad, kind in (
        (write("setup.exe", "MZ\x90\x00\x03\x00"), UnsupportedSource),
        (write("not.txt", "\x00\x01" * 99), BinarySource),
    ):
        with hooked(house, files={"stage_file": raising(AssertionError("copied"))}), pytest.raises(kind) as refusal:
            house.add(base, write("good.md", "good"), bad)

        assert str(bad) == refusal.value.details["path"]
        assert before == untouched()


def test_043_detect_writes_nothing_if_anything_is_in_the_way(house, base, write, untouched):
    """The conflicts are told; neither rows, nor files, nor jobs, nor messages change."""
    house.add(base, write("a/x.md", "one"))
    before = untouched()

    receipt = house.service.add_items(
        base.id,
        [FileInput(path=write("b/X.md", "two")), NoteInput(title="new", content="new")],
        strategy=Strategy.DETECT,
        idempotency_key="k",
    )

    assert [Conflict(ItemType.FILE, "x.md")] == receipt.conflicts
    assert before == untouched()
    assert [] == receipt.items


def test_043_two_inputs_of_one_call_are_in_each_others_way(house, base, write, untouched):
    """Although nothing of that name was there; told once."""
    before = untouched()

    receipt = house.service.add_items(
        base.id, [FileInput(path=write(f"{folder}/x.md", folder)) for folder in "abc"], strategy=Strategy.DETECT
    )

    assert ([Conflict(ItemType.FILE, "x.md")], []) == (receipt.conflicts, receipt.items)
    assert before == untouched()


def test_044_detect_adds_if_nothing_is_in_the_way(house, base, write):
    """As `rename` would."""
    receipt = house.service.add_items(base.id, [FileInput(path=write("x.md", "one"))], strategy=Strategy.DETECT)

    assert ((), ["x.md"]) == (receipt.conflicts, _titles(receipt.items))


def _replace(house, base, path):
    return house.service.add_items(base.id, [FileInput(path=path)], strategy=Strategy.REPLACE).items


def test_045_replace_stops_the_old_items_job_first(house, base, write):
    """Outside the lock; then the new item gets the plain name, and nothing of the old one is left."""
    (old,) = house.add(base, write("a/x.md", "the old lighthouse"))
    run = house.claim(house.sender.waiting.popleft())
    added = []
    replacing = threading.Thread(target=lambda: added.extend(_replace(house, base, write("b/x.md", "the new lighthouse"))))
    replacing.start()
    eventually(lambda: house.job_of(old).cancel_requested_at, "the old item's job is asked to stop")
    with house.rt.locks.base(base.id, wait_seconds=1):  # whoever waits for the job does not hold the base
        pass
    perform(run, index.run)
    replacing.join()
    house.work()

    assert ["x.md"] == _titles(added) == house.raw(base)
    assert not house.exists(old)
    assert ["the new lighthouse"] == _texts(house, base, "lighthouse")


def test_046_a_job_that_does_not_stop_loses_its_lease(make_house, write):
    """The new item comes all the same; whatever the old job still writes is refused."""
    house = make_house(settle_seconds=0.1)
    base = house.base()
    (old,) = house.add(base, write("a/x.md", "the old lighthouse"))
    stubborn = house.claim(house.sender.waiting.popleft())

    (new,) = _replace(house, base, write("b/x.md", "the new lighthouse"))
    house.work()
    with pytest.raises(LeaseLost):
        index._commit(house.rt, stubborn, base, None, frozenset(), Quality(), None, is_converted=False)

    assert ("x.md", ItemStatus.COMPLETED) == (new.title, house.item(new).status)
    assert not house.exists(old)
    assert ["the new lighthouse"] == _texts(house, base, "lighthouse")


@pytest.mark.parametrize("is_claimed", [False, True])
def test_046_a_replacement_that_fails_leaves_no_item_without_a_job(make_house, write, is_claimed):
    """The old item, whose job was stopped for it, is parked and can be finished; its bytes are there."""
    house = make_house(settle_seconds=0.1)
    base = house.base()
    (old,) = house.add(base, write("a/x.md", "the old lighthouse"))
    if is_claimed:
        house.claim(house.sender.waiting.popleft())

    with refusing(house, "INSERT ON knowledge_job"), pytest.raises(Refused):
        _replace(house, base, write("b/x.md", "new"))

    assert (ItemStatus.FAILED, INDEXING_INTERRUPTED) == (house.item(old).status, house.item(old).error)
    assert ["x.md"] == house.raw(base)


def test_046_a_source_that_fails_costs_the_old_item_nothing(house, base, write):
    """Bytes are fetched before anything is stopped."""
    (old,) = house.add(base, write("a/x.md", "the old lighthouse"))

    with hooked(house, files={"stage_file": raising(StorageFull())}), pytest.raises(StorageFull):
        _replace(house, base, write("b/x.md", "new"))
    house.work()

    assert ItemStatus.COMPLETED is house.item(old).status


@pytest.mark.parametrize(
    ("kind", "port", "method"),
    [
        ("file", "files", "publish"),
        ("file", "files", "sync"),
        ("file", "indexes", "open"),
        ("file", "files", "link"),
        ("file", "files", "remove"),
        ("directory", "indexes", "open"),
        ("directory", "files", "remove"),
    ],
)
def test_046_a_caller_that_dies_leaves_the_old_item_or_the_new_one(house, base, write, docs, kind, port, method):
    """Whenever it dies: one of the two is there in the end, indexed, and nothing is left of the other."""
    (path, place) = (docs, docs / "a.md") if kind == "directory" else (write("a/x.md", ""),) * 2
    place.write_text("the old lighthouse")
    (old,) = house.add(base, path)
    house.work()
    place.write_text("the new lighthouse")
    if (child := os.fork()) == 0:
        with hooked(house, **{port: {method: lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)}}):
            given = DirectoryInput(path=path) if path.is_dir() else FileInput(path=path)
            house.service.add_items(base.id, [given], strategy=Strategy.REPLACE)
        os._exit(0)
    assert -signal.SIGKILL == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    house.work(hurry=True)
    for stray in (house.root / "bases" / base.id / "raw").rglob("*"):
        os.utime(stray, (0, 0))
    tidy(house.rt)

    (root,) = [item for item in house.items(base) if item.group_id is None]
    expected = "the old lighthouse" if root.id == old.id else "the new lighthouse"
    assert ItemStatus.COMPLETED is root.status
    assert expected in {hit.text for hit in house.service.search(base.id, "lighthouse", limit=9).hits}
    assert len(house.raw(base)) == house.rt.index(base).counts().materials == (3 if kind == "directory" else 1)


def test_047_of_two_inputs_with_one_name_the_last_replaces(house, base, write):
    """Only its bytes are stored."""
    receipt = house.service.add_items(
        base.id,
        [FileInput(path=write("a/x.md", "one")), NoteInput(title="x", content="note"), FileInput(path=write("b/X.md", "two"))],
        strategy=Strategy.REPLACE,
    )
    house.work()

    assert ["X.md", "x_1.md"] == sorted(_titles(receipt.items))
    assert {"two", "note"} == set(_texts(house, base, "one two"))


def test_049_types_are_never_in_each_others_way(house, base, write, docs):
    """A file, a note and a directory of one name are no conflict."""
    (docs.parent / "n.md").mkdir()
    house.add(base, write("a/n.md", "file"))

    receipt = house.service.add_items(
        base.id,
        [NoteInput(title="n", content="note"), DirectoryInput(path=docs.parent / "n.md")],
        strategy=Strategy.DETECT,
    )

    assert () == receipt.conflicts
    assert ["n_1.md", "n.md_1"] == _titles(receipt.items)


def test_049_a_name_of_which_nothing_is_left_is_in_its_own_way(house, base, write):
    """It gets one, so that no key is empty."""
    blank = [NoteInput(content=" "), FileInput(path=write("a/  ", "text"))]
    added = house.add(base, *blank)

    receipt = house.service.add_items(base.id, blank, strategy=Strategy.DETECT)

    assert ["note.md", "file"] == _titles(added)
    assert [ItemType.NOTE, ItemType.FILE] == [conflict.type for conflict in receipt.conflicts]


@pytest.mark.parametrize("title", ["A" * 300, "𠀀" * 90, "x\ny"])
def test_049_a_title_of_any_length_is_in_its_own_way(house, base, title):
    """Names are cut to what a disk takes; the cut name is what counts, with every strategy."""
    note = NoteInput(title=title, content="text")
    house.add(base, note)

    detected = house.service.add_items(base.id, [note], strategy=Strategy.DETECT)
    replaced = house.service.add_items(base.id, [note], strategy=Strategy.REPLACE)

    assert 1 == len(detected.conflicts)
    assert 1 == len(replaced.items) == len(house.raw(base))


def test_050_a_row_that_is_refused_takes_the_others_along(house, base, untouched):
    """Nothing of the call is left, nothing is enqueued, and the error is the one that was raised."""
    before = untouched()

    with refusing(house, "INSERT ON knowledge_item WHEN NEW.source = 'two'"), pytest.raises(Refused):
        house.notes(base, "one", "two")

    assert before == untouched()


@pytest.mark.parametrize("cleanup", [{}, {"remove": raising(StorageFull("no cleanup either"))}])
def test_051_bytes_do_not_outlive_a_refused_row(house, base, write, untouched, cleanup):
    """A removal that fails does not hide the error; recovery tidies up later."""
    before = untouched()

    with (
        refusing(house, "INSERT ON knowledge_job"),
        hooked(house, files=cleanup),
        pytest.raises(Refused),
    ):
        house.add(base, write("x.md", "one"), NoteInput(content="two"))

    if not cleanup:
        assert before == untouched()
    assert [] == house.items(base)


def test_052_jobs_are_all_there_or_none(house, base, untouched):
    """A job that is refused takes the whole call along: no item is accepted without one."""
    before = untouched()

    with refusing(house, "INSERT ON knowledge_job WHEN (SELECT count(*) FROM knowledge_job) = 1"), pytest.raises(Refused):
        house.notes(base, "one", "two")

    assert before == untouched()


def test_053_each_kind_gets_its_status_and_its_job(house, base, docs):
    """A directory is prepared, a note indexed; the row and its job are one commit."""
    directory, note = house.add(base, docs, NoteInput(content="text"))

    assert (ItemStatus.PREPARING, JobType.PREPARE_ROOT) == (directory.status, house.job_of(directory).type)
    assert (ItemStatus.PROCESSING, JobType.INDEX_DOCUMENTS) == (note.status, house.job_of(note).type)
    assert [JobStatus.PENDING] * 2 == [job.status for job in house.jobs()]
