"""Behaviours 79 to 95: reindexing, and the first embedder of a base."""

import shutil

import pytest

from knowledge.errors import (
    BaseFailed,
    DimensionMismatch,
    InvalidInput,
    InvalidOperation,
    ItemsUnfinished,
    ModelNotFound,
    SourcesMissing,
    SourcesUnverifiable,
    StorageFull,
)
from knowledge.ingestion import reindex
from knowledge.ingestion.run import perform
from knowledge.model.inputs import NoteInput
from knowledge.model.jobs import JobStatus, JobType
from knowledge.model.status import ItemStatus
from tests.regression.failed import fail_base
from tests.regression.faults import Refused, hooked, raising, refusing
from tests.rows import new_folder, new_item


def _texts(house, base_id, query):
    return [hit.text for hit in house.service.search(base_id, query).hits]


def _state(house, base_id):
    return [(item.id, item.status, item.updated_at, item.chunk_count) for item in house.items(base_id)]


@pytest.fixture
def files(house, base, write):
    """one.md and two.md, completely indexed."""
    added = house.add(base, write("one.md", "the first lighthouse"), write("two.md", "the second lighthouse"))
    house.work()
    return added


@pytest.mark.parametrize("status", [ItemStatus.PROCESSING, ItemStatus.IDLE, ItemStatus.DELETING, ItemStatus.EMBEDDING])
def test_079_one_unfinished_row_refuses_the_whole_batch(house, files, status):
    """Wherever in the subtrees it is; how many of which status are told, and which rows; nothing changes."""
    base_id = files[0].base_id
    with house.db.write() as tx:
        folder = new_folder(tx, base_id, status=ItemStatus.COMPLETED, source=str(house.root.parent))
        busy = new_item(tx, base_id, folder, status=status)
    before = _state(house, base_id)

    with pytest.raises(ItemsUnfinished) as refusal:
        house.service.reindex_items(base_id, [files[0].id, folder])

    assert {"base_id": base_id, "statuses": {status.value: 1}, "item_ids": [busy]} == refusal.value.details
    assert 422 == refusal.value.http_status
    assert before == _state(house, base_id)
    assert [] == house.jobs(JobStatus.PENDING)


def test_080_a_missing_source_is_told_first(house, files, write):
    """Then what cannot be looked at, then what is not finished; all such items are named."""
    base_id = files[0].base_id
    gone, hidden = files
    (busy,) = house.add(house.service.base(base_id), write("three.md", "three"))
    write("one.md", "").unlink()
    write("two.md", "").unlink()
    write("two.md", "").with_name("two.md").unlink()
    loop = write("x", "").with_name("two.md")
    loop.symlink_to(loop)

    with pytest.raises(SourcesMissing) as missing:
        house.service.reindex_items(base_id, [gone.id, hidden.id, busy.id])
    with pytest.raises(SourcesUnverifiable) as unverifiable:
        house.service.reindex_items(base_id, [hidden.id, busy.id])
    with pytest.raises(ItemsUnfinished):
        house.service.reindex_items(base_id, [busy.id])

    assert ([gone.id], [gone.source]) == (missing.value.details["item_ids"], missing.value.details["sources"])
    assert [hidden.id] == unverifiable.value.details["item_ids"]
    assert "later" in str(unverifiable.value)


def test_081_accepting_writes_no_status(house, files):
    """One job, whatever the order of the ids; asked again while it is active, it is the same."""
    base_id = files[0].base_id
    before = _state(house, base_id)

    first = house.service.reindex_items(base_id, [files[0].id, files[1].id])
    again = house.service.reindex_items(base_id, [files[1].id, files[0].id, files[1].id])

    assert first.job_id == again.job_id
    assert before == _state(house, base_id)
    assert 1 == len(house.jobs(JobStatus.PENDING))


@pytest.mark.parametrize("moment", ["before the run", "just before its lock"])
def test_082_a_delete_wins(house, files, moment):
    """Nothing of the item is put back to work; its row goes."""
    one, two = files
    house.service.reindex_items(one.base_id, [one.id])
    plain = house.service

    deleted = []

    def delete(*_, **__):
        if not deleted:
            deleted.append(plain.delete_items(one.base_id, [one.id]))

    if moment == "before the run":
        delete()
        house.work(hurry=True)
    else:
        with hooked(house, locks={"base": delete}):
            house.deliver(house.sender.waiting.popleft())
        house.work(hurry=True)

    assert not house.exists(one)
    assert ["two.md"] == house.raw(house.service.base(two.base_id))
    assert [] == [job for job in house.jobs() if job.type is JobType.INDEX_DOCUMENTS and job.parent_id]


def test_083_a_source_that_vanished_after_admission_is_skipped(house, files, root, docs, write):
    """File or directory, the item keeps status and material; the others are rebuilt, and the job says how many it left out."""
    one, two = files
    write("two.md", "the changed lighthouse")
    receipt = house.service.reindex_items(one.base_id, [one.id, two.id, root.id])
    write("one.md", "").unlink()
    shutil.rmtree(docs)
    house.work()

    job = house.service.job(receipt.job_id)
    assert (JobStatus.COMPLETED, 2) == (job.status, job.progress["skipped_missing_sources"])
    assert {ItemStatus.COMPLETED} == {item.status for item in house.items(one.base_id)}
    found = set(_texts(house, one.base_id, "lighthouse"))
    assert {"the first lighthouse", "the changed lighthouse", "The lighthouse stands on the northern rock."} <= found
    assert "the second lighthouse" not in found


def test_084_a_file_comes_back_onto_its_stored_path(house, files, write):
    """The old material is found until the new one replaces it."""
    one, _ = files
    write("one.md", "a rewritten lighthouse")
    house.service.reindex_items(one.base_id, [one.id])
    house.deliver(house.sender.waiting.popleft())

    assert "a rewritten lighthouse" == (house.root / "bases" / one.base_id / "raw" / "one.md").read_text()
    assert "the first lighthouse" in _texts(house, one.base_id, "lighthouse")
    assert 1 == house.service.search(one.base_id, "lighthouse").stale
    house.work()
    assert {"a rewritten lighthouse", "the second lighthouse"} == set(_texts(house, one.base_id, "lighthouse"))
    assert one.relative_path == house.item(one).relative_path


@pytest.mark.parametrize("method", ["stage_file", "publish"])
def test_086_a_copy_that_fails_leaves_the_old_index(house, files, method):
    """After three executions the item shows the failure; its last good material is still found."""
    one, _ = files
    house.service.reindex_items(one.base_id, [one.id])
    with hooked(house, files={method: raising(StorageFull())}):
        house.work(hurry=True)

    assert (ItemStatus.FAILED, "storage_full") == (house.item(one).status, house.item(one).error)
    assert "the first lighthouse" in _texts(house, one.base_id, "lighthouse")
    assert 0 == house.staged(house.service.base(one.base_id))


def test_087_a_directory_is_synchronised(house, root, docs):
    """It is prepared by a job of the reindex; what is still there keeps its id, what is not goes, what is new comes."""
    before = {item.relative_path: item.id for item in house.items(root.base_id)}
    (docs / "a.md").write_text("The lighthouse was rebuilt.")
    (docs / "inner" / "b.md").unlink()
    (docs / "new.md").write_text("A new page on the lighthouse.")

    receipt = house.service.reindex_items(root.base_id, [root.id])
    house.deliver(house.sender.waiting.popleft())

    (prepare,) = [job for job in house.jobs(JobStatus.PENDING) if job.type is JobType.PREPARE_ROOT]
    assert (ItemStatus.PREPARING, receipt.job_id) == (house.item(root).status, prepare.parent_id)
    house.work()
    after = {item.relative_path: item.id for item in house.items(root.base_id)}
    assert before.keys() - {"docs/inner/b.md"} | {"docs/new.md"} == after.keys()
    assert all(before[path] == after[path] for path in before.keys() & after.keys())
    assert {"The lighthouse was rebuilt.", "A new page on the lighthouse."} <= set(_texts(house, root.base_id, "lighthouse"))
    assert sorted(after) == sorted([*house.raw(house.service.base(root.base_id)), "docs", "docs/inner", "docs/inner/deep"])
    assert {ItemStatus.COMPLETED} == {item.status for item in house.items(root.base_id)}


def test_088_roots_are_put_to_work_together_or_not_at_all(house, files):
    """A follow-up job that is refused leaves every root as it was; the reindex is tried again."""
    base_id = files[0].base_id
    before = _state(house, base_id)
    house.service.reindex_items(base_id, [item.id for item in files])
    is_second = "NEW.type = 'knowledge.index-documents' AND (SELECT count(*) FROM knowledge_job WHERE status = 'pending') > 0"
    with refusing(house, f"INSERT ON knowledge_job WHEN {is_second}"):
        house.deliver(house.sender.waiting.popleft())

    assert before == _state(house, base_id)
    house.work(hurry=True)
    assert [ItemStatus.COMPLETED] * 2 == [item.status for item in house.items(base_id)]
    assert before != _state(house, base_id)


def test_fifty_roots_are_one_sync_and_sources_are_looked_at_before_the_lock(house, base, docs, write, monkeypatch):
    """Everybody waits for that commit: neither a slow disk nor a folder far away makes it longer."""
    added = house.add(base, docs, *(write(f"{number}.md", f"{number}") for number in range(50)))
    house.work()
    house.service.reindex_items(base.id, [item.id for item in added])
    calls = []
    plain = reindex.probe_directory
    monkeypatch.setattr(reindex, "probe_directory", lambda path: calls.append("look") or plain(path))

    with hooked(house, files={"sync": lambda *_: calls.append("sync")}, locks={"base": lambda *_: calls.append("lock")}):
        house.deliver(house.sender.waiting.popleft())

    assert ["look", "lock", "sync"] == calls


@pytest.mark.parametrize("is_running", [False, True])
def test_089_a_cancelled_reindex_leaves_its_roots_alone(house, files, is_running):
    """They were never active: status and material are what they were."""
    one, _ = files
    before = _state(house, one.base_id)
    receipt = house.service.reindex_items(one.base_id, [one.id])
    run = house.claim(receipt.job_id) if is_running else None
    house.service.cancel_job(receipt.job_id)
    if run:
        run._looked_at -= 60
        perform(run, reindex.run)
    house.work(hurry=True)

    assert JobStatus.CANCELLED is house.service.job(receipt.job_id).status
    assert before == _state(house, one.base_id)


def test_two_reindexes_of_one_item_do_not_overtake_each_other(house, files, write):
    """The second waits until the first is done, so what is indexed in the end is what was fetched last."""
    one, two = files
    house.service.reindex_items(one.base_id, [one.id])
    house.service.reindex_items(one.base_id, [one.id, two.id])
    first, second = house.sender.waiting.popleft(), house.sender.waiting.popleft()
    house.deliver(first)
    write("one.md", "the last lighthouse")
    house.deliver(second)

    assert JobStatus.PENDING is house.service.job(second).status
    house.work(hurry=True)
    assert "the last lighthouse" in _texts(house, one.base_id, "lighthouse")
    assert "the first lighthouse" not in _texts(house, one.base_id, "lighthouse")


@pytest.fixture
def lexical(house, docs):
    """A base without embedder: a note and a directory."""
    base = house.base(embedder=None)
    house.add(base, docs, NoteInput(content="the note on lighthouses"))
    house.work()
    return base


def test_091_the_first_embedder_backfills_everything(house, lexical):
    """One commit writes the model and one reindex job over all roots; search works all the while."""
    roots = [item.id for item in house.items(lexical) if item.group_id is None]

    base = house.service.enable_embedder(lexical.id, "hashing")

    (job,) = house.jobs(JobStatus.PENDING)
    assert ("hashing", 32, "hybrid") == (base.embedder, base.dimensions, base.mode)
    assert (JobType.REINDEX_SUBTREE, tuple(sorted(roots))) == (job.type, job.item_ids)
    steps = 0
    while house.sender.waiting:
        assert "The lighthouse stands on the northern rock." in _texts(house, base.id, "lighthouse rock")
        house.deliver(house.sender.waiting.popleft())
        steps += 1
    assert steps > 4
    assert {ItemStatus.COMPLETED} == {item.status for item in house.items(base)}
    assert 4 == house.rt.index(base).counts().vectors


def test_092_a_backfill_that_cannot_be_done_changes_nothing(house, lexical, docs):
    """A source that is gone, a row at work, an unknown model, a failed base: the base stays without embedder."""
    (busy,) = house.notes(lexical, "busy")
    with pytest.raises(ItemsUnfinished):
        house.service.enable_embedder(lexical.id, "hashing")
    house.work()
    with pytest.raises(ModelNotFound):
        house.service.enable_embedder(lexical.id, "nowhere")
    shutil.rmtree(docs)
    with pytest.raises(SourcesMissing):
        house.service.enable_embedder(lexical.id, "hashing")

    assert (None, None) == (house.service.base(lexical.id).embedder, house.service.base(lexical.id).dimensions)
    assert house.exists(busy)
    fail_base(house, lexical)
    with pytest.raises(BaseFailed):
        house.service.enable_embedder(lexical.id, "hashing")


@pytest.mark.parametrize("has_items", [True, False])
def test_093_a_base_has_its_first_embedder_once(make_house, paid_spec, has_items):
    """The same again, or another one, is refused, with items or without, and nothing is indexed again."""
    house = make_house(paid_spec)
    base = house.base()
    if has_items:
        house.notes(base, "one")
        house.work()

    with pytest.raises(InvalidOperation):
        house.service.enable_embedder(base.id, "hashing")
    with pytest.raises(InvalidInput) as refusal:
        house.service.enable_embedder(base.id, "paid")

    assert ("embedder", 422) == (refusal.value.details["field"], refusal.value.http_status)
    assert [] == house.jobs(JobStatus.PENDING)


def test_094_an_empty_base_needs_no_backfill(house):
    """Only the setting changes; what comes after has vectors."""
    base = house.base(embedder=None)
    base = house.service.enable_embedder(base.id, "hashing")

    assert [] == house.jobs()
    house.notes(base, "one")
    house.work()
    assert 1 == house.rt.index(base).counts().vectors


def test_089_a_cancelled_backfill_shows_on_its_roots(house, lexical):
    """They lack their first vectors: failed, with what they had still found, until a reindex finishes them."""
    house.service.enable_embedder(lexical.id, "hashing")
    (job,) = house.jobs(JobStatus.PENDING)
    house.service.cancel_job(job.id)

    roots = [item for item in house.items(lexical) if item.group_id is None]
    assert {(ItemStatus.FAILED, "indexing_interrupted")} == {(root.status, root.error) for root in roots}
    assert "the note on lighthouses" in _texts(house, lexical.id, "lighthouses")
    house.service.reindex_interrupted(lexical.id)
    house.work()
    assert 4 == house.rt.index(house.service.base(lexical.id)).counts().vectors


def test_095_a_backfill_without_its_job_has_not_begun(house, lexical):
    """Model and job are one commit."""
    with refusing(house, "INSERT ON knowledge_job"), pytest.raises(Refused):
        house.service.enable_embedder(lexical.id, "hashing")

    assert house.service.base(lexical.id).embedder is None


def test_searching_while_the_first_embedder_comes(house, lexical):
    """Between the look at the base and the one at its index somebody gave it a model: the search looks again."""
    before = house.service.base(lexical.id)
    house.service.enable_embedder(lexical.id, "hashing")
    house.rt.index(house.service.base(lexical.id))
    with pytest.raises(DimensionMismatch):
        house.rt.index(before)
    plain, looks = house.service, []

    def look(*_):
        looks.append(1)
        if len(looks) == 1:
            raise DimensionMismatch(base_id=lexical.id)

    with hooked(house, indexes={"open": look}):
        found = _texts(house, lexical.id, "lighthouse")

    assert found == [hit.text for hit in plain.search(lexical.id, "lighthouse").hits]
