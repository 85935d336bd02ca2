"""Deleting: hidden at once, gone for good in the end, in any status and whatever is running."""

import pytest

from knowledge.catalog import jobs
from knowledge.catalog.rows import BASE, ITEM
from knowledge.errors import IndexFault, ItemNotFound, ItemNotInBase, StorageFailed
from knowledge.files.local import LocalRawFiles
from knowledge.ingestion import delete, index
from knowledge.ingestion.run import perform
from knowledge.model.inputs import NoteInput
from knowledge.model.jobs import JobSpec, JobStatus, JobType
from knowledge.model.status import BaseStatus, ItemStatus, ItemType
from knowledge.pipeline.vectorstore.sqlite.store import SqliteIndexStore

DELETING = ItemStatus.DELETING


def is_gone(house, base):
    counts = house.rt.index(base).counts()
    return ([], [], (0, 0, 0, 0)) == (
        house.items(base),
        house.raw(base),
        (counts.materials, counts.units, counts.vectors, counts.contents),
    )


def holding(root, *words):
    """(file, word) for every file below that shows one of these words."""
    files = [path for path in root.rglob("*") if path.is_file()]
    return [(path, word) for path in files for word in words if word in path.read_bytes()]


def test_hidden_from_the_commit_on_and_gone_in_the_end(house, base, docs):
    """Search and lists lose it before a worker has moved; then vectors, bytes and rows go, and the folders with them."""
    (root,) = house.add(base, docs)
    house.work()
    receipt = house.service.delete_items(base.id, [root.id])

    assert [root.id] == receipt.root_ids
    assert [] == house.service.search(base.id, "lighthouse").hits
    assert 0 == house.service.list_items(base.id).total
    assert DELETING is house.item(root).status
    house.work()
    assert is_gone(house, base)
    assert not (house.root / "bases" / base.id / "raw" / "docs").exists()


def test_what_lies_in_a_deleted_folder_is_explained_by_its_delete(house, base, docs):
    """The job names only the folder."""
    (root,) = house.add(base, docs)
    house.work()
    leaf = next(item for item in house.items(base) if item.title == "c.md")
    house.service.delete_items(base.id, [root.id])

    told = house.service.why(leaf.id)
    assert (house.job_of(root), "It waits for a worker.") == (told.job, told.explanation)


def test_no_deleted_word_is_left_on_the_disk(house, base, docs):
    """Neither in free pages, nor in word lists, nor in a log: nothing to find when the delete has settled, and later."""
    for number in range(40):
        (docs / f"{number}.md").write_text(f"zqword{number}x " * 400)
    note, kept, folder = house.add(base, NoteInput(content="zqnote secret"), NoteInput(content="a keeper"), docs)
    house.work()
    before = {path.name for path, _ in holding(house.root, b"zqword", b"zqnote")}
    house.service.delete_items(base.id, [note.id, folder.id])
    house.work()
    settled = holding(house.root, b"zqword", b"zqnote")
    house.rt.close()

    assert {"catalogue.sqlite", "index.sqlite"} <= {name.removesuffix("-wal") for name in before}, "it can be found at all"
    assert [] == settled
    assert [] == holding(house.root, b"zqword", b"zqnote")
    assert [kept.id] == [hit.item_id for hit in house.service.search(base.id, "keeper").hits]


@pytest.mark.parametrize("before", sorted(ItemStatus))
@pytest.mark.parametrize("kind", [ItemType.NOTE, ItemType.DIRECTORY])
def test_every_status_can_be_deleted(house, base, docs, before, kind):
    """Failed, stuck or half done: nothing refuses to go, and the same can be added again."""
    if before in ({ItemStatus.PREPARING} if kind is ItemType.NOTE else {ItemStatus.READING, ItemStatus.EMBEDDING}):
        before = ItemStatus.PROCESSING
    (item,) = house.add(base, docs if kind is ItemType.DIRECTORY else NoteInput(content="lighthouse"))
    house.work()
    error = "x" if before is ItemStatus.FAILED else None
    with house.db.write() as tx:
        tx.execute(ITEM.update().where(ITEM.c.id == item.id).values(status=before, error=error))
    house.service.delete_items(base.id, [item.id])
    house.work(hurry=True)

    assert is_gone(house, base)
    (again,) = house.add(base, docs if kind is ItemType.DIRECTORY else NoteInput(content="lighthouse"))
    house.work()
    assert (ItemStatus.COMPLETED, item.title) == (house.item(again).status, again.title)


def test_nested_and_doubled_picks_are_one_job_of_the_outermost(house, base, docs):
    """The folder, its child twice, and a neighbour: two roots."""
    (root,) = house.add(base, docs)
    (note,) = house.notes(base, "a note")
    house.work()
    child = next(item for item in house.items(base) if item.title == "b.md")
    receipt = house.service.delete_items(base.id, [child.id, root.id, note.id, child.id])
    (job,) = [job for job in house.jobs() if job.type is JobType.DELETE_SUBTREE]

    assert [root.id, note.id] == receipt.root_ids
    assert {root.id, note.id} == set(job.item_ids)
    house.work()
    assert is_gone(house, base)


def test_deleting_twice_is_one_job_and_no_error(house, base, docs):
    """While the first is under way, and again afterwards when the ids are gone."""
    (root,) = house.add(base, docs)
    house.work()
    house.service.delete_items(base.id, [root.id])
    house.service.delete_items(base.id, [root.id])

    assert 1 == len([job for job in house.jobs() if job.type is JobType.DELETE_SUBTREE])
    house.work()
    with pytest.raises(ItemNotFound):
        house.service.delete_items(base.id, [root.id])


def test_overlapping_deletes_both_complete(house, base, docs):
    """First a child, then its folder: neither cancels the other."""
    (root,) = house.add(base, docs)
    house.work()
    child = next(item for item in house.items(base) if item.title == "inner")
    house.service.delete_items(base.id, [child.id])
    house.service.delete_items(base.id, [root.id])
    house.work(hurry=True)

    assert is_gone(house, base)
    assert {JobStatus.COMPLETED} == {job.status for job in house.jobs() if job.type is JobType.DELETE_SUBTREE}


@pytest.mark.parametrize("kind", ["unknown", "foreign"])
def test_one_wrong_id_changes_nothing(house, base, kind):
    """All ids are checked first; the error names those that are wrong."""
    (mine,) = house.notes(base, "mine")
    (other,) = house.notes(house.base(), "other")
    wrong = other.id if kind == "foreign" else "nobody"

    with pytest.raises(ItemNotInBase if kind == "foreign" else ItemNotFound) as refused:
        house.service.delete_items(base.id, [mine.id, wrong])
    assert [wrong] == refused.value.details["item_ids"]
    assert ItemStatus.PROCESSING is house.item(mine).status
    assert [] == [job for job in house.jobs() if job.type is JobType.DELETE_SUBTREE]


def test_nothing_chosen_is_nothing_done(house, base):
    """No job, no error."""
    assert [] == house.service.delete_items(base.id, []).root_ids
    assert [] == house.jobs()


def test_a_failed_enqueue_leaves_every_status_as_it_was(house, base, docs, monkeypatch):
    """Mark and job are one commit."""
    (root,) = house.add(base, docs)
    house.work()
    before = {item.id: item.status for item in house.items(base)}

    def breaks(*_args, **_more):
        raise StorageFailed

    monkeypatch.setattr(jobs, "enqueue", breaks)
    with pytest.raises(StorageFailed):
        house.service.delete_items(base.id, [root.id])
    assert before == {item.id: item.status for item in house.items(base)}


def test_a_neighbours_job_is_left_alone(house, base):
    """Only what touches the subtree is stopped."""
    gone, kept = house.notes(base, "gone", "kept")
    house.service.delete_items(base.id, [gone.id])
    house.work()

    assert [kept.id] == [item.id for item in house.items(base)]
    assert ItemStatus.COMPLETED is house.item(kept).status


def test_vectors_then_files_then_rows(house, base, docs, monkeypatch):
    """While a row is there, a repeated delete finds what is left of it."""
    (item,) = house.add(base, docs / "a.md")
    house.work()
    order = []
    for owner, name in ((SqliteIndexStore, "delete_materials"), (LocalRawFiles, "remove")):
        call = getattr(owner, name)

        def told(self, *arguments, _call=call, _name=name):
            order.append((_name, house.exists(item)))
            return _call(self, *arguments)

        monkeypatch.setattr(owner, name, told)
    house.service.delete_items(base.id, [item.id])
    house.work()

    assert [("delete_materials", True), ("remove", True)] == order


@pytest.mark.parametrize(
    ("owner", "name", "error"), [(SqliteIndexStore, "delete_materials", IndexFault), (LocalRawFiles, "remove", StorageFailed)]
)
def test_a_step_that_fails_leaves_deleting_and_is_tried_until_it_works(house, base, docs, monkeypatch, owner, name, error):
    """Never `failed`, never given up, hidden all the time."""
    (item,) = house.add(base, docs / "a.md")
    house.work()
    call = getattr(owner, name)
    tries = []

    def breaks(self, *arguments):
        tries.append(1)
        if len(tries) <= 12:
            raise error
        return call(self, *arguments)

    monkeypatch.setattr(owner, name, breaks)
    house.service.delete_items(base.id, [item.id])
    for _ in range(9):
        house.hasten()
        house.deliver(house.job_of(item).id)
    stuck = house.job_of(item)

    assert (DELETING, None) == (house.item(item).status, house.item(item).error)
    assert (JobStatus.PENDING, 9, True) == (stuck.status, stuck.attempt, stuck.is_stuck)
    house.work(hurry=True)
    assert is_gone(house, base)


def test_a_running_job_is_waited_for_and_then_revoked(make_house):
    """The delete comes back every second; after the settle time it takes the row, and the late run can write nothing."""
    house = make_house(settle_seconds=5.0)
    base = house.base()
    (item,) = house.notes(base, "lighthouse")
    run = house.claim(house.job_of(item))
    house.service.delete_items(base.id, [item.id])
    (job,) = [job for job in house.jobs() if job.type is JobType.DELETE_SUBTREE]
    house.deliver(job.id)
    waiting = house.service.job(job.id)
    house.age(run.job.id, cancel_requested_at=6)
    house.work(hurry=True)

    assert (JobStatus.PENDING, 0) == (waiting.status, waiting.attempt)
    assert (JobStatus.CANCELLED, jobs.LEASE_REVOKED) == (
        house.service.job(run.job.id).status,
        house.service.job(run.job.id).error,
    )
    assert is_gone(house, base)
    perform(run, index.run)
    assert is_gone(house, base)


def test_a_large_delete_makes_room_for_others_and_goes_on(house, base, monkeypatch):
    """After its time the job puts itself back without an attempt; sections are bounded."""
    monkeypatch.setattr(delete, "SECTION", 2)
    monkeypatch.setattr(delete, "DELIVERY_SECONDS", 0.0)
    notes = house.notes(base, *(f"note {number}" for number in range(7)))
    house.work()
    house.service.delete_items(base.id, [note.id for note in notes])
    deliveries = house.work(hurry=True)
    (job,) = [job for job in house.jobs() if job.type is JobType.DELETE_SUBTREE]

    assert is_gone(house, base)
    assert deliveries == 5
    assert (JobStatus.COMPLETED, 0) == (job.status, job.attempt)


def test_rows_that_are_not_deleting_are_never_touched(house, base):
    """A stale job over visible rows does nothing."""
    (item,) = house.notes(base, "lighthouse")
    house.work()
    with house.db.write() as tx:
        jobs.enqueue(tx, JobSpec.delete_subtree(base.id, [item.id]), shard="main")
    house.work()

    assert ItemStatus.COMPLETED is house.item(item).status
    assert 1 == house.rt.index(base).counts().materials


def test_deleting_the_last_failed_child_completes_its_folders(house, base, docs):
    """Parents say what is left, all the way up, in one commit."""
    (docs / "inner" / "deep" / "bad.pdf").write_bytes(b"%PDF-1.4 and nothing more")
    (root,) = house.add(base, docs)
    house.work(hurry=True)
    bad = next(item for item in house.items(base) if item.title == "bad.pdf")
    failed = house.item(root).status
    house.service.delete_items(base.id, [bad.id, next(item.id for item in house.items(base) if item.title == "a.md")])
    house.work()

    assert ItemStatus.FAILED is failed
    assert {ItemStatus.COMPLETED} == {item.status for item in house.items(base)}


def test_a_base_without_an_index_file_can_still_lose_its_items(house, base):
    """Somebody removed the index: nothing is left to delete there, and the base gets a new one."""
    (item,) = house.notes(base, "lighthouse")
    house.work()
    house.rt.indexes.drop(base.id)
    house.service.delete_items(base.id, [item.id])
    house.work()

    assert is_gone(house, base)


def test_a_failed_base_can_lose_its_items(house, base):
    """Deleting is always allowed."""
    (item,) = house.notes(base, "lighthouse")
    house.work()
    with house.db.write() as tx:
        tx.execute(BASE.update().values(status=BaseStatus.FAILED, error="missing_embedding_model"))
    house.service.delete_items(base.id, [item.id])
    house.work()

    assert ([], [], False) == (house.items(base), house.raw(base), house.rt.indexes.exists(base.id))
