"""A directory that changes between two looks at its folder: what is kept, what comes, what goes, and what nobody can tell."""

import os
import shutil
from pathlib import Path

import pytest

from knowledge.errors import SourcesMissing, StorageFull
from knowledge.files.reach import Reach
from knowledge.ingestion import prepare, recovery
from knowledge.model.jobs import JobStatus
from knowledge.model.status import INDEXING_INTERRUPTED, ItemStatus
from knowledge.pipeline.sources import directory
from tests.regression.faults import hooked


def _ids(house, root):
    return {item.relative_path: item.id for item in house.items(root.base_id)}


def _again(house, item, **options):
    house.service.reindex_items(item.base_id, [item.id], **options)
    house.work(hurry=True)
    return _ids(house, item)


def _agree(house, root):
    """Rows, files and index hold the same, and nothing is left over."""
    rows = house.items(root.base_id)
    leaves = [item for item in rows if item.type != "directory"]
    base = house.service.base(root.base_id)
    assert sorted(item.relative_path for item in leaves) == house.raw(base)
    assert {item.id for item in leaves if item.chunk_count} == set(house.rt.index(base).item_ids())
    assert 0 == house.staged(base)
    assert [] == house.jobs(JobStatus.PENDING, JobStatus.RUNNING)
    return {item.status for item in rows}


def test_a_renamed_file_is_a_new_one(house, root, docs):
    """Also if only the case differs; the old one goes."""
    before = _ids(house, root)
    (docs / "a.md").rename(docs / "A.md")
    (docs / "inner" / "b.md").rename(docs / "inner" / "other.md")

    after = _again(house, root)

    assert {ItemStatus.COMPLETED} == _agree(house, root)
    assert before["docs/a.md"] not in after.values()
    assert {"docs/A_1.md", "docs/inner/other.md"} <= after.keys()
    assert before["docs/inner"] == after["docs/inner"]


def test_a_folder_becomes_a_file_and_a_file_a_folder(house, root, docs):
    """Each kind gets its own row; nothing of the old ones is left."""
    shutil.rmtree(docs / "inner")
    (docs / "inner").write_text("now a file, which nobody reads for it has no extension")
    (docs / "a.md").unlink()
    (docs / "a.md").mkdir()
    (docs / "a.md" / "x.md").write_text("now a folder with a lighthouse")

    after = _again(house, root)

    assert {ItemStatus.COMPLETED} == _agree(house, root)
    assert {"docs", "docs/a.md_1", "docs/a.md_1/x.md"} == after.keys() - {"docs/inner_1"}
    again = _again(house, root)
    assert after == again


def test_new_nested_folders_come_with_their_files(house, root, docs):
    """Folders without a file do not."""
    (docs / "inner" / "new" / "newer").mkdir(parents=True)
    (docs / "inner" / "new" / "newer" / "x.md").write_text("x")
    (docs / "void").mkdir()

    after = _again(house, root)

    assert {ItemStatus.COMPLETED} == _agree(house, root)
    assert {"docs/inner/new", "docs/inner/new/newer", "docs/inner/new/newer/x.md"} <= after.keys()
    assert "docs/void" not in after


def _unlistable(monkeypatch, *names, also=()):
    """As if the system refused to list these folders, or even to look at these entries."""
    opening, look = Reach.open, os.lstat

    def opened(reach, path, flags, *more):
        if path.name in names and flags & os.O_DIRECTORY:
            raise PermissionError(13, "refused")
        return opening(reach, path, flags, *more)

    def lstat(path, *more, **options):
        if Path(path).name in also:
            raise PermissionError(13, "refused")
        return look(path, *more, **options)

    monkeypatch.setattr(Reach, "open", opened)
    monkeypatch.setattr(directory.os, "lstat", lstat)


@pytest.mark.parametrize("how", ["its listing is refused", "not even a look is allowed", "nothing can be listed"])
def test_what_cannot_be_listed_purges_nothing(house, root, docs, monkeypatch, how):
    """Whatever lay below stays as it is, and is found; the rest is synchronised."""
    before = _ids(house, root)
    (docs / "new.md").write_text("new")
    if how == "its listing is refused":
        _unlistable(monkeypatch, "inner")
    elif how == "not even a look is allowed":
        _unlistable(monkeypatch, also=("inner",))
    else:
        (docs / "new.md").unlink()
        (docs / "a.md").unlink()
        _unlistable(monkeypatch, "inner")

    after = _again(house, root)

    assert {ItemStatus.COMPLETED} == _agree(house, root)
    assert all(before[path] == after[path] for path in before if path != "docs/a.md")
    assert ("docs/a.md" in after) == (how != "nothing can be listed")
    assert ("docs/new.md" in after) == (how != "nothing can be listed")
    assert 1 == len(house.service.search(root.base_id, "signal ninety seconds", limit=1).hits)


def test_a_folder_that_is_empty_of_a_sudden_is_not_believed(house, root, docs):
    """A disk may be gone: nothing changes, and the directory says so; told that it is true, it is emptied."""
    before = _ids(house, root)
    shutil.rmtree(docs)
    docs.mkdir()

    kept = _again(house, root)
    state = house.item(root)

    assert before == kept
    assert (ItemStatus.FAILED, "sources_unverifiable") == (state.status, state.error)
    assert 1 == len(house.service.search(root.base_id, "lighthouse", limit=1).hits)
    emptied = _again(house, root, allow_empty=True)
    assert {"docs"} == set(emptied)
    assert [] == house.raw(house.service.base(root.base_id))


@pytest.mark.parametrize("rest", [[], [".hidden", "blank.md"]])
def test_a_folder_that_may_be_empty_is_completed(house, root, docs, rest):
    """Told so, an emptied folder has ended well, with nothing in it and nothing failed; once more, too. Its files come back."""
    shutil.rmtree(docs)
    docs.mkdir()
    for name in rest:
        (docs / name).write_text("")
    for _ in range(2):
        _again(house, root, allow_empty=True)
        assert (ItemStatus.COMPLETED, None) == (house.item(root).status, house.item(root).error)
        assert [root.id] == [item.id for item in house.items(root.base_id)]
        assert [] == house.service.failures(root.base_id)
    (docs / "a.md").write_text("The lighthouse is back.")
    _again(house, root)

    assert ItemStatus.COMPLETED is house.item(root).status
    assert 1 == len(house.service.search(root.base_id, "lighthouse").hits)


def test_a_folder_that_is_empty_when_it_is_added_fails(house, base, tmp_path):
    """Nobody said that it may be; told so afterwards, it is done."""
    (tmp_path / "empty").mkdir()
    (root,) = house.add(base, tmp_path / "empty")
    house.work()

    assert (ItemStatus.FAILED, "no_indexable_files") == (house.item(root).status, house.item(root).error)
    _again(house, root)
    assert ItemStatus.FAILED is house.item(root).status
    _again(house, root, allow_empty=True)
    assert ItemStatus.COMPLETED is house.item(root).status


def test_a_folder_that_is_gone_is_missing(house, root, docs):
    """The request is refused; nothing is touched."""
    shutil.rmtree(docs)

    with pytest.raises(SourcesMissing) as refusal:
        house.service.reindex_items(root.base_id, [root.id])

    assert {"item_ids": [root.id], "sources": [str(docs)]} == refusal.value.details
    assert 6 == len(_ids(house, root))


@pytest.mark.parametrize("kind", ["empty", "binary", "unsupported"])
def test_a_file_that_is_still_there_keeps_what_it_had(house, root, docs, kind):
    """It cannot be read now; it has not vanished."""
    before = _ids(house, root)
    (docs / "a.md").write_bytes({"empty": b"", "binary": b"\x00\x01\x02", "unsupported": b"\x7fELF\x02\x01\x01\x00"}[kind])

    after = _again(house, root)

    assert before == after
    assert ["The lighthouse stands on the northern rock."] == [
        hit.text for hit in house.service.search(root.base_id, "lighthouse", limit=1).hits
    ]


def test_a_nested_directory_is_synchronised_on_its_own(house, root, docs):
    """Inside the tree of its root: paths, parents and ids stay where they are, and the rest is not looked at."""
    before = _ids(house, root)
    inner = house.item(before["docs/inner"])
    (docs / "inner" / "b.md").unlink()
    (docs / "inner" / "deep" / "new.md").write_text("new")
    (docs / "a.md").unlink()

    after = _again(house, inner)

    assert {ItemStatus.COMPLETED} == _agree(house, root)
    assert before.keys() - {"docs/inner/b.md"} | {"docs/inner/deep/new.md"} == after.keys()
    assert all(before[path] == after[path] for path in before if path in after)
    assert before["docs/inner/deep"] == house.item(after["docs/inner/deep/new.md"]).group_id


def test_a_child_is_reindexed_on_its_own(house, root, docs):
    """Onto its path; its directory follows it."""
    before = _ids(house, root)
    (docs / "inner" / "b.md").write_text("The fog signal fell silent.")
    leaf = house.item(before["docs/inner/b.md"])
    house.service.reindex_items(root.base_id, [leaf.id])
    house.deliver(house.sender.waiting.popleft())

    assert ItemStatus.PROCESSING is house.item(root).status
    house.work()
    assert {ItemStatus.COMPLETED} == _agree(house, root)
    assert before == _ids(house, root)
    assert "The fog signal fell silent." == house.service.preview(leaf.id).text


def test_failed_children_are_tried_again(house, root, docs):
    """With everything else."""
    (docs / "bad.json").write_text("{")
    _again(house, root)
    assert ItemStatus.FAILED is house.item(root).status
    (docs / "bad.json").write_text('{"a": "lighthouse"}')
    _again(house, root)

    assert {ItemStatus.COMPLETED} == _agree(house, root)


def test_names_that_are_no_text_keep_their_rows(house, base, tmp_path):
    """Two files whose names differ in such bytes only are two items, however often they are looked at."""
    folder = tmp_path / "docs"
    (folder / os.fsdecode(b"d\xff")).mkdir(parents=True)
    for name in (b"x\xfe.md", b"x\xff.md", b"d\xff/y.md"):
        (folder / os.fsdecode(name)).write_bytes(b"text of " + name.hex().encode())
    (root,) = house.add(base, folder)
    house.work()
    before = _ids(house, root)
    (folder / os.fsdecode(b"x\xfe.md")).unlink()

    after = _again(house, root)
    inner = next(item for item in house.items(base) if item.type == "directory" and item.group_id)
    again = _again(house, inner)

    assert 5 == len(before)
    assert {ItemStatus.COMPLETED} == _agree(house, root)
    assert before.items() >= after.items() == again.items()
    assert 4 == len(after)


@pytest.mark.parametrize("call", range(1, 4))
@pytest.mark.parametrize("method", ["stage_file", "publish", "sync", "discard"])
def test_a_second_execution_ends_what_the_first_began(house, root, docs, method, call):
    """Wherever it broke."""
    (docs / "inner" / "b.md").unlink()
    (docs / "a.md").write_text("The lighthouse, changed.")
    (docs / "new.md").write_text("new")
    calls = []

    def break_at(*_, **__):
        calls.append(1)
        if len(calls) == call:
            raise StorageFull()

    house.service.reindex_items(root.base_id, [root.id])
    house.deliver(house.sender.waiting.popleft())
    with hooked(house, files={method: break_at}):
        house.deliver(house.sender.waiting.popleft())
    house.work(hurry=True)

    assert {ItemStatus.COMPLETED} == _agree(house, root)
    assert {"docs/a.md", "docs/new.md", "docs/inner/deep/c.md"} == set(house.raw(house.service.base(root.base_id)))
    assert "The lighthouse, changed." in [hit.text for hit in house.service.search(root.base_id, "lighthouse").hits]


def test_an_interrupted_synchronisation_is_finished_by_one_command(house, root, docs):
    """The directory is failed as interrupted; reindexing what was interrupted brings it up to date."""
    (docs / "new.md").write_text("new")
    house.service.reindex_items(root.base_id, [root.id])
    house.deliver(house.sender.waiting.popleft())
    house.service.cancel_job(house.job_of(root).id)
    parked = house.item(root)
    receipt = house.service.reindex_interrupted(root.base_id)
    house.work()

    assert (ItemStatus.FAILED, INDEXING_INTERRUPTED) == (parked.status, parked.error)
    assert [root.id] == receipt.root_ids
    assert {ItemStatus.COMPLETED} == _agree(house, root)
    assert "docs/new.md" in _ids(house, root)


def test_what_is_interrupted_is_finished_though_one_source_is_gone(house, base, write):
    """The one stays as it is; if nothing can be finished, the reason is told."""
    gone, kept = house.add(base, write("gone.md", "gone"), write("kept.md", "kept"))
    for item in (gone, kept):
        house.service.cancel_job(house.job_of(item).id)
    write("gone.md", "").unlink()

    receipt = house.service.reindex_interrupted(base.id)
    house.work()

    assert [kept.id] == receipt.root_ids
    assert (ItemStatus.COMPLETED, INDEXING_INTERRUPTED) == (house.item(kept).status, house.item(gone).error)
    with pytest.raises(SourcesMissing):
        house.service.reindex_interrupted(base.id)


def test_a_path_that_is_too_long_is_left_out(house, base, docs, monkeypatch):
    """One file too deep does not fail the others."""
    monkeypatch.setattr(prepare, "PATH_BYTES", prepare._ROOM_FOR_NUMBERS + len("docs/inner/b.md"))
    (root,) = house.add(base, docs)
    house.work()

    assert ["docs/a.md", "docs/inner/b.md"] == house.raw(base)
    assert {"path": "inner/deep/c.md", "reason": "unsafe_path"} in house.item(root).data["skipped"]["sample"]
    assert ("files_skipped",) == house.item(root).notices


@pytest.fixture
def waiting(house, base, root, write):
    """(file, directory, reindex of both): the file is at work again, the directory waits for a delete below it."""
    (file,) = house.add(base, write("free.md", "the old lighthouse"))
    house.work()
    write("free.md", "the new lighthouse")
    receipt = house.service.reindex_items(base.id, [root.id, file.id])
    house.service.delete_items(base.id, [_ids(house, root)["docs/a.md"]])
    house.deliver(receipt.job_id)
    return file, root, receipt.job_id


def test_082_roots_that_are_free_do_not_wait_for_those_that_are_not(house, waiting):
    """A delete that takes long, or for ever, holds up its own root only; when it is done the job comes back for that."""
    file, root, job_id = waiting
    job = house.service.job(job_id)
    assert (JobStatus.PENDING, (file.id,)) == (job.status, job.roots_done)
    assert [ItemStatus.PROCESSING, ItemStatus.COMPLETED] == [house.item(file).status, house.item(root).status]
    house.work(hurry=True)

    assert JobStatus.COMPLETED is house.service.job(job_id).status
    assert {ItemStatus.COMPLETED} == _agree(house, root)
    assert ["the new lighthouse"] == [hit.text for hit in house.service.search(root.base_id, "new lighthouse", limit=1).hits]
    assert [1, 1] == [sum(job.parent_id == job_id and one.id in job.item_ids for job in house.jobs()) for one in (file, root)]


def test_082_a_reindex_that_is_lost_while_it_waits_shows_on_what_it_has_not_done(house, waiting):
    """What it has put to work already is completed by its own job."""
    file, root, job_id = waiting
    house.hasten()
    run = house.claim(house.service.job(job_id))
    house.age(job_id, lease_until=1)
    assert recovery.settle_lost(house.rt, house.service.job(run.job.id), wait_seconds=1)
    house.work(hurry=True)

    assert [ItemStatus.COMPLETED, ItemStatus.FAILED] == [house.item(file).status, house.item(root).status]
    assert INDEXING_INTERRUPTED == house.item(root).error
