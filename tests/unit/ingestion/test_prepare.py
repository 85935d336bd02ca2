"""Expanding a directory: rows, jobs and bytes batch by batch, and what happens when it is disturbed in the middle."""

import os
from pathlib import Path

import pytest

from knowledge.catalog import items, jobs
from knowledge.errors import EmbedderUnavailable, LeaseLost, SourcesMissing
from knowledge.files.local import LocalRawFiles
from knowledge.ingestion import prepare
from knowledge.ingestion.run import perform
from knowledge.model.jobs import JobStatus, JobType
from knowledge.model.status import ItemStatus, ItemType
from knowledge.pipeline.sources.directory import DirectoryChildren
from tests.house import FLOWS

COMPLETED, FAILED, PROCESSING, PREPARING = (
    ItemStatus.COMPLETED,
    ItemStatus.FAILED,
    ItemStatus.PROCESSING,
    ItemStatus.PREPARING,
)


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(prepare, "BATCH", 1)


def expand(house, root):
    """Run the directory's job once, without what it enqueues."""
    run = house.claim(house.job_of(root))
    perform(run, FLOWS[run.job.type])
    return house.service.job(run.job.id)


def by_name(house, base):
    return {item.title: item for item in house.items(base)}


def test_the_hierarchy_is_kept_and_every_leaf_has_a_job(house, base, docs):
    """Folders become containers, files leaves below them; hidden entries and empty folders do not appear."""
    (docs / ".git").mkdir()
    (docs / ".git" / "config.md").write_text("x")
    (docs / "nothing").mkdir()
    (root,) = house.add(base, docs)
    expand(house, root)
    found = by_name(house, base)

    assert {"docs", "a.md", "inner", "b.md", "deep", "c.md"} == set(found)
    assert [root.id, root.id, found["inner"].id, found["inner"].id, found["deep"].id] == [
        found[name].group_id for name in ("a.md", "inner", "b.md", "deep", "c.md")
    ]
    assert [JobStatus.PENDING] * 3 == [house.job_of(found[name]).status for name in ("a.md", "b.md", "c.md")]
    assert ["docs/a.md", "docs/inner/b.md", "docs/inner/deep/c.md"] == house.raw(base)
    assert all(found[name].expanded_at for name in ("docs", "inner", "deep"))


def test_containers_complete_when_the_last_leaf_below_does(house, base, docs):
    """Bottom-up, never earlier."""
    (root,) = house.add(base, docs)
    expand(house, root)
    for name in ("a.md", "c.md"):
        house.deliver(house.job_of(by_name(house, base)[name]).id)
    halfway = by_name(house, base)
    house.work()

    assert [PROCESSING, PROCESSING, COMPLETED] == [halfway[name].status for name in ("docs", "inner", "deep")]
    assert {COMPLETED} == {item.status for item in house.items(base)}


def test_leaves_that_are_done_before_the_expansion_ends_do_not_complete_the_folder(house, base, docs, small_batches):
    """While children are still coming, a folder stays `preparing` whatever the first of them did."""
    (root,) = house.add(base, docs)
    run = house.claim(house.job_of(root))
    seen = []
    publish = house.rt.dispatch.publish_due

    def work_meanwhile(base_id):
        publish(base_id)
        for job in house.jobs(JobStatus.PENDING):
            house_run = house.claim(job)
            perform(house_run, FLOWS[job.type])
        seen.append({item.title: item.status for item in house.items(base)})
        return True

    object.__setattr__(house.rt.dispatch, "publish_due", work_meanwhile)
    perform(run, FLOWS[run.job.type])

    assert [PREPARING] * 3 + [COMPLETED] == [statuses["docs"] for statuses in seen]  # the last one when the expansion has ended
    assert {COMPLETED} == {item.status for item in house.items(base)}


def test_one_bad_file_fails_its_folders_and_nothing_else(house, base, docs):
    """The failed leaf has its reason, the folders above say that a child failed, the siblings are searchable."""
    (docs / "inner" / "bad.pdf").write_bytes(b"%PDF-1.4 and nothing more")
    house.add(base, docs)
    house.work(hurry=True)
    found = by_name(house, base)

    assert [(FAILED, "child_failed"), (FAILED, "child_failed"), (FAILED, "corrupt")] == [
        (found[name].status, found[name].error) for name in ("docs", "inner", "bad.pdf")
    ]
    assert [COMPLETED] * 3 == [found[name].status for name in ("a.md", "b.md", "c.md")]
    assert "a.md" == house.service.search(base.id, "northern rock").hits[0].title


def test_what_was_left_out_is_counted_by_reason(house, base, docs):
    """Unsupported, empty, hidden, linked: numbers and a sample on the item, and a notice."""
    (docs / "tool.exe").write_bytes(b"MZ")
    (docs / "empty.md").touch()
    (docs / ".hidden.md").write_text("x")
    (docs / "link.md").symlink_to(docs / "a.md")
    (docs / "loop").symlink_to(docs)
    (docs / "dangling.md").symlink_to(docs / "nowhere")
    (root,) = house.add(base, docs)
    house.work()
    found = house.item(root)

    assert {"unsupported": 1, "empty": 1, "hidden": 1, "symlink": 2, "dangling": 1} == found.data["skipped"]["reasons"]
    assert ("files_skipped",) == found.notices
    assert COMPLETED is found.status


def test_hidden_entries_alone_are_counted_without_a_notice(house, base, docs):
    """Everybody expects them to be left out; who looks finds how many."""
    (docs / ".hidden.md").write_text("x")
    (docs / ".git").mkdir()
    (root,) = house.add(base, docs)
    house.work()
    found = house.item(root)

    assert {"count": 2, "reasons": {"hidden": 2}, "sample": []} == found.data["skipped"]
    assert () == found.notices


@pytest.mark.parametrize(("levels", "reason"), [(13, "unsafe_path"), (17, "unreadable")])
def test_one_path_too_long_does_not_fail_the_others(house, base, docs, levels, reason):
    """Longer than we store, or than the system takes in one call: left out; the directory and its other files complete."""
    place = os.open(docs, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d" * 250, dir_fd=place)
        inner = os.open("d" * 250, os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    writing = os.open("x.md", os.O_WRONLY | os.O_CREAT, dir_fd=place)
    os.write(writing, b"words")
    os.close(writing)
    os.close(place)
    (root,) = house.add(base, docs)
    house.work()
    found = house.item(root)

    assert COMPLETED is found.status
    assert {"a.md", "b.md", "c.md"} == {item.title for item in house.items(base) if item.type is ItemType.FILE}
    assert {reason: 1} == found.data["skipped"]["reasons"]


@pytest.mark.parametrize("content", ["nothing", "only unsupported", "only empty folders"])
def test_a_folder_without_a_readable_file_fails_with_a_reason(house, base, tmp_path, content):
    """Its job has done its work; the item says what is wrong."""
    folder = tmp_path / "folder"
    (folder / "inner").mkdir(parents=True)
    if content == "only unsupported":
        (folder / "tool.exe").write_bytes(b"MZ")
    (root,) = house.add(base, folder)
    job = expand(house, root)

    assert (FAILED, "no_indexable_files") == (house.item(root).status, house.item(root).error)
    assert JobStatus.COMPLETED is job.status
    assert [root.id] == [item.id for item in house.items(base)]


def test_a_folder_that_is_gone_when_its_turn_comes_fails(house, base, docs):
    """The error is the path's, and is not tried again."""
    (root,) = house.add(base, docs)
    docs.rename(docs.with_name("moved"))
    house.work(hurry=True)

    assert (FAILED, "path_not_found") == (house.item(root).status, house.item(root).error)


def test_a_file_that_vanishes_between_scan_and_copy_is_left_out(house, base, docs, monkeypatch):
    """The others go on, and the loss is counted."""
    stage = LocalRawFiles.stage_file

    def stage_or_lose(files, base_id, source, *reach):
        if source.name == "b.md":
            source.unlink()
        return stage(files, base_id, source, *reach)

    monkeypatch.setattr(LocalRawFiles, "stage_file", stage_or_lose)
    (root,) = house.add(base, docs)
    house.work()

    assert {"a.md", "c.md"} == {item.title for item in house.items(base) if item.type is ItemType.FILE}
    assert {"path_not_found": 1} == house.item(root).data["skipped"]["reasons"]
    assert COMPLETED is house.item(root).status


def test_the_data_directory_inside_an_imported_folder_is_left_out(house, base, docs):
    """No base eats itself, nor another one, the catalogue or the broker's password; also through a link to the folder above."""
    house.notes(base, "lighthouse")
    house.work()
    for ours in ("readme.md", "broker/endpoint.json", "run/logs/worker.log"):
        (house.root / ours).parent.mkdir(parents=True, exist_ok=True)
        (house.root / ours).write_text("also ours")
    link = house.root.parent.with_name("shortcut")
    link.symlink_to(house.root.parent)
    for top in (house.root.parent, link):
        (root,) = house.add(base, top)
        expand(house, root)
        below = [item for item in house.items(base) if item.source.startswith(str(top)) and item.type is ItemType.FILE]

        assert {"a.md", "b.md", "c.md"} == {Path(item.source).name for item in below}
        assert 1 == house.item(root).data["skipped"]["reasons"]["own"], "the data directory is one entry, and not gone into"
    link.unlink()


def test_a_folder_that_becomes_a_link_into_the_data_directory_gives_nothing(house, base, docs, monkeypatch):
    """Between the listing and the copy, and before the next reindex."""
    (house.root / "b.md").write_text("the broker's password")
    (root,) = house.add(base, docs / "inner" / "b.md")
    house.work()
    scan = DirectoryChildren.scan

    def scan_and_swap(*arguments):
        found = list(scan(*arguments))
        (docs / "inner").rename(docs / "moved")
        (docs / "inner").symlink_to(house.root)
        yield from found

    monkeypatch.setattr(DirectoryChildren, "scan", scan_and_swap)
    (folder,) = house.add(base, docs)
    expand(house, folder)
    with pytest.raises(SourcesMissing):
        house.service.reindex_items(base.id, [root.id])

    assert 2 == house.item(folder).data["skipped"]["reasons"]["own"]
    assert [] == house.rt.index(base).lexical("password", 5)


def test_names_that_a_disk_takes_are_expanded(house, base, tmp_path):
    """Names with line breaks, emoji, 255 bytes and bytes that are not UTF-8, also of the folder itself, and twins by case."""
    top = tmp_path / os.fsdecode(b"caf\xe9 \xf0\x9f\x97\xbc\n")
    (top / "x" / "y").mkdir(parents=True)
    names = ["a\nb.md", "🗼.md", "灯" * 84 + ".md", "N.md", "n.md", os.fsdecode(b"\xff.md"), os.fsdecode(b"\xfe.md")]
    for name in names:
        (top / "x" / "y" / name).write_text("lighthouse")
    (root,) = house.add(base, top)
    house.work()
    files = [item for item in house.items(base) if item.type is ItemType.FILE]

    assert COMPLETED is house.item(root).status, house.item(root).error
    assert len(names) == len(files) == len({item.relative_path.casefold() for item in files})
    for item in files:
        item.source.encode()
        assert "\n" not in item.relative_path


def test_the_same_folder_twice_makes_two_trees(house, base, docs):
    """Nothing is refused as a duplicate, and no path is shared."""
    first, second = house.add(base, docs, docs)
    house.work()

    assert ["docs", "docs_1"] == [house.item(one).relative_path for one in (first, second)]
    assert 6 == len(house.raw(base))


def test_a_second_execution_goes_on_where_the_first_ended(house, base, docs, small_batches, monkeypatch):
    """An error in the middle is tried again; no file becomes two rows, and none is indexed twice."""
    insert = prepare._Expansion._insert
    calls = []

    def insert_or_break(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise EmbedderUnavailable
        return insert(*arguments)

    monkeypatch.setattr(prepare._Expansion, "_insert", insert_or_break)
    (root,) = house.add(base, docs)
    house.work(hurry=True)

    assert 1 == house.job_of(root).attempt
    assert 6 == len(house.items(base))
    assert ["docs/a.md", "docs/inner/b.md", "docs/inner/deep/c.md"] == house.raw(base)
    assert 3 == len([job for job in house.jobs() if job.type is JobType.INDEX_DOCUMENTS])
    assert {COMPLETED} == {item.status for item in house.items(base)}


def test_an_expansion_that_fails_for_good_leaves_what_was_enqueued_to_go_on(house, base, docs, small_batches, monkeypatch):
    """Root and half expanded folders fail with the reason and keep it; leaves that have a job complete."""
    insert = prepare._Expansion._insert
    done = []

    def one_then_break(*arguments):
        if done:
            raise EmbedderUnavailable("as ordered")
        done.append(1)
        return insert(*arguments)

    monkeypatch.setattr(prepare._Expansion, "_insert", one_then_break)
    (root,) = house.add(base, docs)
    house.work(hurry=True)
    found = by_name(house, base)

    assert (FAILED, "embedder_unavailable") == (found["docs"].status, found["docs"].error)
    assert COMPLETED is found["a.md"].status
    assert found["docs"].expanded_at is None
    assert 0 == house.staged(base)


def test_a_killed_expansion_parks_the_root_and_its_halfway_folders(house, base, docs, small_batches):
    """Leaves that are enqueued go on; the root keeps `indexing_interrupted` even when they are all done."""
    (root,) = house.add(base, docs)
    run = house.claim(house.job_of(root))
    publish = house.rt.dispatch.publish_due

    class Killed(BaseException):
        pass

    def die_after_the_second(base_id):
        publish(base_id)
        if len(house.raw(base)) == 2:
            raise Killed
        return True

    object.__setattr__(house.rt.dispatch, "publish_due", die_after_the_second)
    with pytest.raises(Killed):
        perform(run, FLOWS[run.job.type])
    object.__setattr__(house.rt.dispatch, "publish_due", publish)
    house.age(run.job.id, lease_until=1)
    house.deliver(run.job.id)
    house.work()
    found = by_name(house, base)

    assert {"docs", "a.md", "inner", "b.md"} == set(found)
    assert [(FAILED, "indexing_interrupted")] * 2 == [(found[name].status, found[name].error) for name in ("docs", "inner")]
    assert [COMPLETED, COMPLETED] == [found[name].status for name in ("a.md", "b.md")]


def test_a_root_deleted_before_its_turn_gets_no_child(house, base, docs):
    """Nothing is copied for something that is going."""
    (root,) = house.add(base, docs)
    house.service.delete_items(base.id, [root.id])
    house.work()

    assert ([], [], 0) == (house.items(base), house.raw(base), house.staged(base))


@pytest.mark.parametrize("victim", ["docs", "inner", "a.md"])
@pytest.mark.parametrize("is_purged", [True, False])
def test_a_delete_in_the_middle_of_an_expansion_wins(house, base, docs, small_batches, victim, is_purged):
    """Whatever part is deleted, it gets no further child; nothing of it stays on disk or in the index."""
    (docs / "zz.md").write_text("The last file of the scan.")
    (root,) = house.add(base, docs)
    run = house.claim(house.job_of(root))
    publish = house.rt.dispatch.publish_due
    deleted = []

    def delete_meanwhile(base_id):
        publish(base_id)
        found = by_name(house, base)
        if not deleted and {"a.md", "inner", "b.md"} <= set(found):
            deleted.append(found[victim].id)
            house.service.delete_items(base.id, [found[victim].id])
            if is_purged:
                for job in house.jobs(JobStatus.PENDING):
                    house.deliver(job.id)
        return True

    object.__setattr__(house.rt.dispatch, "publish_due", delete_meanwhile)
    perform(run, FLOWS[run.job.type])
    object.__setattr__(house.rt.dispatch, "publish_due", publish)
    house.work(hurry=True)
    left = {item.title for item in house.items(base)}
    everything = {"docs", "a.md", "inner", "b.md", "deep", "c.md", "zz.md"}
    gone = {"docs": everything, "inner": {"inner", "b.md", "deep", "c.md"}, "a.md": {"a.md"}}[victim]

    assert everything - gone == left
    assert sorted(item.relative_path for item in house.items(base) if item.type is ItemType.FILE) == house.raw(base)
    assert len(house.raw(base)) == house.rt.index(base).counts().materials
    assert {COMPLETED} >= {item.status for item in house.items(base)}


def test_a_run_that_lost_its_row_adds_nothing_more(house, base, docs, small_batches):
    """The next batch proves ownership inside its transaction."""
    (root,) = house.add(base, docs)
    run = house.claim(house.job_of(root))
    with house.rt.locks.base(base.id), house.db.write() as tx:
        jobs.revoke(tx, run.job)

    with pytest.raises(LeaseLost):
        prepare.run(house.rt, run)
    assert [root.id] == [item.id for item in house.items(base)]
    assert 0 == house.staged(base)


def test_children_of_a_folder_are_told_from_neighbours(house, base, tmp_path):
    """`docs`, `docs2` and `docs.md` share a beginning, not a tree."""
    for name in ("docs", "docs2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.md").write_text(name)
    (tmp_path / "docs.md").write_text("file")
    root, *_ = house.add(base, tmp_path / "docs", tmp_path / "docs2", tmp_path / "docs.md")
    house.work()
    with house.db.read() as tx:
        children = items.children(tx, base.id, root.id)

    assert ["docs/a.md"] == [child.path for child in children]


@pytest.mark.parametrize("is_purged", [True, False])
def test_somebody_else_may_delete_what_has_vanished(house, base, docs, monkeypatch, is_purged):
    """While the folders are read: the reindex ends well, and deletes the rest of what has vanished."""
    (root,) = house.add(base, docs)
    house.work()
    found = by_name(house, base)
    (docs / "a.md").unlink()
    (docs / "inner" / "b.md").unlink()
    house.service.reindex_items(base.id, [root.id])
    house.deliver(house.sender.waiting.popleft())
    finish = prepare._Expansion._finish

    def delete_first(expansion):
        house.service.delete_items(base.id, [found["a.md"].id])
        if is_purged:
            house.deliver(house.job_of(found["a.md"]).id)
        finish(expansion)

    monkeypatch.setattr(prepare._Expansion, "_finish", delete_first)
    house.work()

    assert {"docs", "inner", "deep", "c.md"} == set(by_name(house, base))
    assert {COMPLETED} == {item.status for item in house.items(base)}
