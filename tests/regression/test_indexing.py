"""Behaviours 98 to 111: directories expanded, leaves indexed."""

import os
from dataclasses import replace

import pytest

from knowledge.errors import EmbedderUnavailable, IndexFault, StorageFull
from knowledge.ingestion import index, prepare
from knowledge.ingestion.run import perform
from knowledge.model.inputs import NoteInput
from knowledge.model.jobs import JobStatus, JobType
from knowledge.model.status import ItemStatus, Notice
from tests.regression.faults import hooked, raising, refusing


def _paths(house, base, *statuses):
    return sorted(item.relative_path for item in house.items(base) if not statuses or item.status in statuses)


def test_098_a_folder_without_a_readable_file_fails(house, base, tmp_path):
    """The directory says so; its job did its work."""
    folder = tmp_path / "nothing"
    (folder / "empty").mkdir(parents=True)
    (folder / "x.bin").write_bytes(b"\x00\x01")
    (root,) = house.add(base, folder)
    house.work()

    assert (ItemStatus.FAILED, "no_indexable_files") == (house.item(root).status, house.item(root).error)
    assert JobStatus.COMPLETED is house.job_of(root).status
    assert 1 == len(house.items(base))


@pytest.mark.parametrize("method", ["stage_file", "publish", "sync"])
def test_099_an_expansion_that_broke_goes_on(house, base, tmp_path, method):
    """What has a row is left alone, leftovers are written over, and nothing is there twice."""
    folder = tmp_path / "docs"
    folder.mkdir()
    for number in range(70):
        (folder / f"{number:02}.md").write_text(f"page {number}")
    (root,) = house.add(base, folder)
    calls = []

    def break_once(*_, **__):
        calls.append(1)
        if len(calls) == (2 if method == "sync" else 67):
            raise StorageFull()

    with hooked(house, files={method: break_once}):
        house.deliver(house.sender.waiting.popleft())
    first = _paths(house, base)
    leftover = house.rt.files.stage_text(base.id, "half")
    house.rt.files.publish(leftover, "docs/69.md", overwrite=True)
    house.work(hurry=True)

    assert 65 == len(first)
    assert 71 == len(set(_paths(house, base))) == len(house.items(base))
    assert {ItemStatus.COMPLETED} == {item.status for item in house.items(base)}
    assert 70 == len([job for job in house.jobs() if job.type is JobType.INDEX_DOCUMENTS])
    assert ["page 69"] == [unit.content for item in house.items(base) if item.title == "69.md" for unit in _units(house, item)]
    assert root.relative_path == "docs"


def _units(house, item):
    return house.service.chunks(item.base_id, item.id)


def test_100_what_is_being_deleted_is_not_touched(house, root, docs):
    """By a second look at its folder: it neither comes back nor is it in the way."""
    (leaf,) = [item for item in house.items(root.base_id) if item.title == "b.md"]
    house.service.reindex_items(root.base_id, [root.id])
    house.deliver(house.sender.waiting.popleft())
    house.service.delete_items(root.base_id, [leaf.id])
    house.work(hurry=True)

    assert not house.exists(leaf)
    assert ["docs/a.md", "docs/inner/deep/c.md"] == house.raw(house.service.base(root.base_id))


def test_101_a_directory_deleted_before_its_expansion_gets_no_child(house, base, docs):
    """Nor does one that is deleted while its files are being copied."""
    (early,) = house.add(base, docs)
    run = house.claim(house.sender.waiting.popleft())
    house.service.delete_items(base.id, [early.id])
    perform(run, prepare.run)
    (late,) = house.add(base, docs)
    plain, deleted = house.service, []

    def delete(*_):
        if not deleted:
            deleted.append(plain.delete_items(base.id, [late.id]))

    with hooked(house, locks={"base": delete}):
        house.deliver(house.job_of(late).id)
    house.work(hurry=True)

    assert [] == house.items(base) == house.raw(base)


def test_101_a_folder_deleted_during_the_expansion_gets_no_more_children(house, base, tmp_path):
    """The rest of the directory goes on; nothing is left of the folder in rows, files or index."""
    folder = tmp_path / "docs"
    (folder / "inner" / "deep").mkdir(parents=True)
    for number in range(70):
        (folder / "inner" / f"{number:02}.md").write_text(f"page {number}")
    (folder / "inner" / "deep" / "x.md").write_text("deep")
    (folder / "z.md").write_text("last")
    house.add(base, folder)
    plain, seen = house.service, []

    def delete_inner(*_):
        seen.append(1)
        if len(seen) == 2:
            (inner,) = [item for item in house.items(base) if item.title == "inner"]
            plain.delete_items(base.id, [inner.id])

    with hooked(house, locks={"base": delete_inner}):
        house.deliver(house.sender.waiting.popleft())
    house.work(hurry=True)

    assert ["docs", "docs/z.md"] == _paths(house, base, ItemStatus.COMPLETED) == _paths(house, base)
    assert ["docs/z.md"] == house.raw(base)
    assert 1 == house.rt.index(base).counts().materials


def test_102_children_and_their_jobs_come_together(house, base, tmp_path):
    """A job that is refused takes its batch along, never the ones before; after three tries the directory says so."""
    folder = tmp_path / "docs"
    folder.mkdir()
    for number in range(70):
        (folder / f"{number:02}.md").write_text(f"page {number}")
    (root,) = house.add(base, folder)
    with refusing(house, "INSERT ON knowledge_job WHEN (SELECT count(*) FROM knowledge_job) > 64"):
        house.deliver(house.sender.waiting.popleft())

        assert (JobStatus.PENDING, 1) == (house.job_of(root).status, house.job_of(root).attempt)
        assert 64 == len(house.raw(base)) == len(house.items(base)) - 1 == len(house.jobs()) - 1
        house.work(hurry=True)

    assert 64 == len(house.raw(base)) == len(_paths(house, base, ItemStatus.COMPLETED))
    assert (ItemStatus.FAILED, "internal_error") == (house.item(root).status, house.item(root).error)
    assert JobStatus.FAILED is house.job_of(root).status
    house.service.reindex_items(base.id, [root.id])
    house.work()
    assert 71 == len(_paths(house, base, ItemStatus.COMPLETED))


def test_103_a_directory_keeps_its_place(house, root, docs):
    """However often it is reindexed, also while another of its name exists."""
    base = house.service.base(root.base_id)
    house.add(base, docs)
    for _ in range(2):
        house.service.reindex_items(base.id, [root.id])
        house.work()

    assert "docs" == house.item(root).relative_path
    assert 3 == len([path for path in house.raw(base) if path.startswith("docs/")])


def test_104_the_shape_of_a_folder_is_kept(house, base, docs):
    """Without what is hidden, and without folders that hold nothing readable."""
    (docs / ".git").mkdir()
    (docs / ".git" / "x.md").write_text("hidden")
    (docs / ".hidden.md").write_text("hidden")
    (docs / "void" / "deeper").mkdir(parents=True)
    house.add(base, docs)
    house.work()

    assert ["docs", "docs/a.md", "docs/inner", "docs/inner/b.md", "docs/inner/deep", "docs/inner/deep/c.md"] == _paths(
        house, base
    )
    parents = {item.relative_path: item.group_id for item in house.items(base)}
    ids = {item.relative_path: item.id for item in house.items(base)}
    assert all(parents[path] == ids.get(path.rpartition("/")[0]) for path in parents)


@pytest.mark.parametrize("state", ["completed", "deleting", "gone"])
def test_105_a_late_index_job_is_done_without_reading(house, base, state):
    """The item is completed, being deleted, or gone: success, and nothing was read."""
    (note,) = house.notes(base, "text")
    run = house.claim(house.sender.waiting.popleft())
    with house.db.write() as tx:
        if state == "completed":
            tx.exec_driver_sql("UPDATE knowledge_item SET status = 'completed'")
        elif state == "deleting":
            tx.exec_driver_sql("UPDATE knowledge_item SET status = 'deleting'")
        else:
            tx.exec_driver_sql("DELETE FROM knowledge_item")
    with hooked(house, files={"local": raising(AssertionError("it was read"))}):
        run.rt = house.rt
        perform(run, index.run)

    assert JobStatus.COMPLETED is house.service.job(run.job.id).status
    assert (state != "gone") == house.exists(note)


@pytest.mark.parametrize("content", ["", "   \n", "\u200b"])
def test_107_blank_notes_are_done_and_say_so(house, base, content):
    """They hold no text: completed with a notice, or failed where the base wants that."""
    strict = house.base(fail_on_empty=True)
    (note,), (failed,) = house.add(base, NoteInput(content=content)), house.add(strict, NoteInput(content=content))
    house.work(hurry=True)

    assert (ItemStatus.COMPLETED, (Notice.NO_TEXT_EXTRACTED,)) == (house.item(note).status, house.item(note).notices)
    assert (ItemStatus.FAILED, "no_text_extracted") == (house.item(failed).status, house.item(failed).error)


def test_108_no_units_and_the_old_material(house, write):
    """Where emptiness is a failure, what was indexed before is still found; elsewhere the empty text replaces it."""
    for strict in (True, False):
        base = house.base(fail_on_empty=strict)
        (file,) = house.add(base, write("x.md", "the lighthouse"))
        house.work()
        write("x.md", " \n")
        house.service.reindex_items(base.id, [file.id])
        house.work(hurry=True)

        assert (ItemStatus.FAILED if strict else ItemStatus.COMPLETED) is house.item(file).status
        assert (1 if strict else 0) == len(house.service.search(base.id, "lighthouse").hits)


def test_109_a_delete_during_the_embedding_wins(house, base):
    """Nothing is written any more; its job ends as cancelled, by the delete."""
    (note,) = house.notes(base, "the lighthouse")
    plain, deleted = house.service, []

    def delete(*_):
        if not deleted:
            deleted.append(plain.delete_items(base.id, [note.id]))

    written = []
    with hooked(house, locks={"base": delete}, indexes={"open": lambda *_: written.append(len(deleted))}):
        job = house.deliver(house.sender.waiting.popleft())
    counts = house.rt.index(base).counts()
    house.work(hurry=True)

    assert (0, 0) == (counts.materials, counts.vectors)
    assert 0 == sum(written)
    assert JobStatus.CANCELLED is house.service.job(job.id).status
    assert not house.exists(note)


def test_110_unchanged_texts_are_not_embedded_again(paid_house, paid_server, write):
    """A file touched, its bytes the same: no request; in a base without embedder there is never one."""
    paid, lexical = paid_house.base("paid"), paid_house.base(None)
    files = [paid_house.add(base, write("x.md", "the lighthouse"))[0] for base in (paid, lexical)]
    paid_house.work()
    before = paid_server.stats()["requests"]

    os.utime(write("x.md", "the lighthouse"), (1, 1))
    for file in files:
        paid_house.service.reindex_items(file.base_id, [file.id])
    paid_house.work()

    assert (1, 1) == (before, paid_server.stats()["requests"])
    assert [ItemStatus.COMPLETED] * 2 == [paid_house.item(file).status for file in files]


def test_110_only_what_has_changed_is_embedded(make_house, paid_spec, paid_server, write):
    """Where nothing is cached, the index itself knows the vectors of the other texts."""
    house = make_house(replace(paid_spec, id="free", billed=False))
    base = house.base("free", chunk_strategy="delimiter", chunk_separator="--", chunk_size=11, chunk_overlap=0)
    (file,) = house.add(base, write("x.md", "the lighthouse stands on the northern rock--the fog signal sounds at night"))
    house.work()
    before = len(paid_server.stats()["texts"])

    write("x.md", "the lighthouse stands on the northern rock--the keeper writes the log")
    house.service.reindex_items(base.id, [file.id])
    house.work()

    assert ([1, 1, 1], 2) == (list(paid_server.sent().values()), before)
    assert ItemStatus.COMPLETED is house.item(file).status


def test_111_errors_that_may_pass_are_waited_for(house, base):
    """One second, then two; meanwhile the item is not failed."""
    (note,) = house.notes(base, "the lighthouse")
    waits, statuses = [], []
    with hooked(house, embedders={"open": raising(EmbedderUnavailable())}):
        for _ in range(2):
            house.deliver(house.sender.waiting.popleft())
            job = house.job_of(note)
            waits.append(round(house.wait_of(job)))
            statuses.append(house.item(note).status)
            house.hasten()
            house.rt.dispatch.publish_all_due()
    house.work()

    assert [1, 2] == waits
    assert ItemStatus.FAILED not in statuses
    assert (ItemStatus.COMPLETED, 2) == (house.item(note).status, house.job_of(note).attempt)


def test_111_the_third_error_is_the_last(house, base):
    """Then the item fails with the error's code."""
    (note,) = house.notes(base, "the lighthouse")
    with hooked(house, indexes={"open": raising(IndexFault("damaged"))}):
        house.work(hurry=True)

    assert (ItemStatus.FAILED, "index_fault") == (house.item(note).status, house.item(note).error)
