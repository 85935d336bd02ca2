"""Archives as containers: what is added, kept in step, deleted, and what a hostile or vanished one costs."""

import os
import shutil

import pytest

from knowledge.errors import SourcesMissing, StorageFull
from knowledge.model import budget
from knowledge.model.status import ItemStatus, ItemType
from tests.archives import bomb, locked, nested, tarred, written, zipped
from tests.regression.faults import hooked

COMPLETED, FAILED = ItemStatus.COMPLETED, ItemStatus.FAILED
INNER = zipped({"deep/x.md": "The inner lighthouse."})
MEMBERS = {"a.md": "The lighthouse stands.", "sub/b.txt": "A fog signal.", "in.zip": INNER}


@pytest.fixture
def packed(tmp_path):
    return written(tmp_path / "from" / "docs.zip", zipped(MEMBERS))


def paths(house, base):
    return {item.relative_path: item.id for item in house.items(base)}


def again(house, item, **options):
    house.service.reindex_items(item.base_id, [item.id], **options)
    house.work(hurry=True)
    return paths(house, item.base_id)


def agree(house, base):
    """Rows, files and index hold the same, and nothing is left over."""
    leaves = [item for item in house.items(base) if item.type is ItemType.FILE]
    assert sorted(item.relative_path for item in leaves) == house.raw(base)
    assert {item.id for item in leaves if item.chunk_count} == set(house.rt.index(base).item_ids())
    assert 0 == house.staged(base)


def test_each_member_is_an_item(house, base, packed):
    """Folders and archives inside are containers; each leaf says where it came from, and is found."""
    (root,) = house.add(base, packed)
    house.work()
    found = {item.relative_path: item for item in house.items(base)}

    assert (ItemType.ARCHIVE, "docs.zip") == (root.type, root.title)
    assert {
        "docs.zip": ItemType.ARCHIVE,
        "docs.zip/a.md": ItemType.FILE,
        "docs.zip/sub": ItemType.DIRECTORY,
        "docs.zip/sub/b.txt": ItemType.FILE,
        "docs.zip/in.zip": ItemType.ARCHIVE,
        "docs.zip/in.zip/deep": ItemType.DIRECTORY,
        "docs.zip/in.zip/deep/x.md": ItemType.FILE,
    } == {path: item.type for path, item in found.items()}
    assert {COMPLETED} == {item.status for item in found.values()}
    assert f"{packed}/in.zip/deep/x.md" == found["docs.zip/in.zip/deep/x.md"].source
    assert "x.md" in [hit.title for hit in house.service.search(base.id, "inner lighthouse").hits]
    agree(house, base)


def test_an_archive_among_files_is_opened_and_the_bytes_decide(house, base, tmp_path):
    """An office document is a file, whatever it is called; so is a note that is called like an archive."""
    top = tmp_path / "docs"
    written(top / "docs.zip", zipped(MEMBERS))
    written(top / "more.tgz", tarred({"c.md": "c"}, "gz"))
    written(top / "not.zip", b"PK\x03\x04 but nothing more")
    (root,) = house.add(base, top)
    house.work(hurry=True)
    found = {item.relative_path: item for item in house.items(base)}

    assert {"docs/docs.zip", "docs/docs.zip/in.zip", "docs/more.tgz"} == {
        path for path, item in found.items() if item.type is ItemType.ARCHIVE
    }
    assert (FAILED, "corrupt") == (found["docs/not.zip"].status, found["docs/not.zip"].error)
    assert {"docs", "docs/not.zip"} == {path for path, item in found.items() if item.status is FAILED}
    agree(house, base)


def test_reindex_brings_members_in_step(house, base, packed):
    """Those that are still there keep their ids; new ones come, others go, also inside archives inside."""
    (root,) = house.add(base, packed)
    house.work()
    before = paths(house, base)
    inner = zipped({"deep/y.md": "new inside", "deep/x.md": "The inner beacon."})
    written(packed, zipped({"new.md": "new", "a.md": "The lighthouse fell.", "in.zip": inner}))

    after = again(house, root)

    assert {"docs.zip/new.md", "docs.zip/in.zip/deep/y.md"} == after.keys() - before.keys()
    assert {"docs.zip/sub", "docs.zip/sub/b.txt"} == before.keys() - after.keys()
    assert all(before[path] == after[path] for path in before.keys() & after.keys())
    assert {COMPLETED} == {item.status for item in house.items(base)}
    assert "The inner beacon." == house.service.preview(after["docs.zip/in.zip/deep/x.md"]).text
    agree(house, base)


def test_an_unchanged_archive_keeps_every_row(house, base, tmp_path):
    """Also those of members that share one name, in a packed tar."""
    (root,) = house.add(base, written(tmp_path / "a.tgz", tarred([("a.md", "1"), ("b/a.md", "2"), ("a.md", "3")], "gz")))
    house.work()
    before = paths(house, base)

    assert {"a.tgz", "a.tgz/a.md", "a.tgz/a_1.md", "a.tgz/b", "a.tgz/b/a.md"} == before.keys()
    assert before == again(house, root)
    assert ["1", "2", "3"] == sorted(house.service.preview(item.id).text for item in house.items(base) if item.type == "file")


@pytest.mark.parametrize("path", ["docs.zip/a.md", "docs.zip/in.zip/deep/x.md", "docs.zip/in.zip", "docs.zip/in.zip/deep"])
def test_a_part_is_reindexed_on_its_own(house, base, packed, path):
    """From the archive again; the rest is not touched."""
    house.add(base, packed)
    house.work()
    before = paths(house, base)
    written(packed, zipped({"a.md": "changed", "in.zip": zipped({"deep/x.md": "changed"})}))

    after = again(house, house.item(before[path]))

    assert before == after
    assert {"changed"} == {
        house.service.preview(item.id).text
        for item in house.items(base)
        if item.type is ItemType.FILE and f"{item.relative_path}/".startswith(f"{path}/")
    }
    assert "A fog signal." == house.service.preview(after["docs.zip/sub/b.txt"]).text


@pytest.mark.parametrize("path", ["docs.zip", "docs.zip/a.md", "docs.zip/sub", "docs.zip/in.zip"])
def test_an_archive_that_is_gone_is_missing(house, base, packed, path):
    """For itself and for each part of it; nothing is touched."""
    house.add(base, packed)
    house.work()
    before = paths(house, base)
    packed.unlink()

    with pytest.raises(SourcesMissing):
        house.service.reindex_items(base.id, [before[path]])
    assert before == paths(house, base)


def test_a_member_that_is_gone_keeps_what_it_has(house, base, packed):
    """When it alone is asked for; its archive decides about it."""
    (root,) = house.add(base, packed)
    house.work()
    before = paths(house, base)
    written(packed, zipped({"sub/b.txt": "A fog signal."}))

    assert before == again(house, house.item(before["docs.zip/a.md"]))
    assert "The lighthouse stands." == house.service.preview(before["docs.zip/a.md"]).text
    assert {"docs.zip", "docs.zip/sub", "docs.zip/sub/b.txt"} == again(house, root).keys()


@pytest.mark.parametrize("how", ["damaged", "empty", "locked", "too large", "of another kind"])
def test_an_archive_that_cannot_be_read_any_more_purges_nothing(house, base, packed, how, monkeypatch):
    """It is failed with the reason; its members stay and are found."""
    (root,) = house.add(base, packed)
    house.work()
    before = paths(house, base)
    monkeypatch.setattr(budget, "SLACK_BYTES", 1 << 20)
    changed = {
        "damaged": (b"PK\x03\x04 nothing", "corrupt"),
        "empty": (zipped({}), "sources_unverifiable"),
        "locked": (locked(zipped({"a.md": "x"}), "a.md"), "encrypted"),
        "too large": (bomb(4), "reader_budget_exceeded"),
        "of another kind": (b"plain words", "unsupported"),
    }
    written(packed, changed[how][0])

    after = again(house, root)
    state = house.item(root)

    assert (FAILED, changed[how][1]) == (state.status, state.error)
    assert before.items() <= after.items()
    assert "The lighthouse stands." in [hit.text for hit in house.service.search(base.id, "lighthouse").hits]


def test_one_bad_archive_of_a_folder_costs_itself_only(house, base, tmp_path):
    """It is a failed child with its reason; when it is whole again, it gets its members."""
    top = tmp_path / "docs"
    written(top / "a.md", b"a")
    whole = tarred({"x.md": "x", "y.md": os.urandom(200_000).hex()}, "gz")
    bad = written(top / "b.tgz", whole[: len(whole) // 2])
    (root,) = house.add(base, top)
    house.work(hurry=True)
    broken = paths(house, base)
    state = house.item(broken["docs/b.tgz"])
    bad.write_bytes(whole)

    mended = again(house, root)

    assert (FAILED, "corrupt") == (state.status, state.error)
    assert {"docs", "docs/a.md", "docs/b.tgz"} <= broken.keys()
    assert {"docs", "docs/a.md", "docs/b.tgz", "docs/b.tgz/x.md", "docs/b.tgz/y.md"} == mended.keys()
    assert broken["docs/b.tgz"] == mended["docs/b.tgz"]
    assert {COMPLETED} == {item.status for item in house.items(base)}
    bad.write_bytes(whole[: len(whole) // 2])
    assert mended == again(house, root), "what it had stays, though it cannot be read to its end"
    assert (FAILED, "corrupt") == (house.item(mended["docs/b.tgz"]).status, house.item(mended["docs/b.tgz"]).error)
    agree(house, base)


def test_an_archive_that_leaves_its_folder_goes_with_its_members(house, base, tmp_path):
    """Like a folder."""
    top = tmp_path / "docs"
    written(top / "a.md", b"a")
    packed = written(top / "docs.zip", zipped(MEMBERS))
    (root,) = house.add(base, top)
    house.work()
    packed.unlink()

    assert {"docs", "docs/a.md"} == again(house, root).keys()
    agree(house, base)


def test_archives_too_deep_end_in_a_failure_with_its_figure(house, base, tmp_path):
    """What lies above is there."""
    (root,) = house.add(base, written(tmp_path / "a.zip", nested(6, zipped({"x.md": "x"}))))
    house.work(hurry=True)
    deepest = max(house.items(base), key=lambda item: len(item.relative_path))

    assert (FAILED, "child_failed") == (house.item(root).status, house.item(root).error)
    assert (FAILED, "reader_budget_exceeded", "depth") == (deepest.status, deepest.error, deepest.error_detail["figure"])
    assert 5 == len(house.items(base))


@pytest.mark.parametrize("where", ["alone", "in a folder"])
def test_a_bomb_fails_with_its_figure_and_leaves_no_bytes(house, base, tmp_path, monkeypatch, where):
    """Nothing of it stays beside raw/, and the files next to it are indexed."""
    monkeypatch.setattr(budget, "SLACK_BYTES", 1 << 20)
    path = written(tmp_path / "docs" / "a.zip", bomb(8))
    written(tmp_path / "docs" / "b.md", b"b")
    house.add(base, path if where == "alone" else path.parent)
    house.work(hurry=True)
    failed = next(item for item in house.items(base) if item.type is ItemType.ARCHIVE)

    assert (FAILED, "reader_budget_exceeded", "inflated_bytes") == (
        failed.status,
        failed.error,
        failed.error_detail["figure"],
    )
    assert ["docs/b.md"] * (where == "in a folder") == house.raw(base)
    agree(house, base)


def test_an_archive_without_a_readable_file_says_so(house, base, tmp_path):
    """As a folder does."""
    (root,) = house.add(base, written(tmp_path / "a.zip", zipped({"x.exe": b"MZ\x00\x01", "empty.md": ""})))
    house.work()

    assert (FAILED, "no_indexable_files") == (house.item(root).status, house.item(root).error)
    assert {"unsupported": 1, "empty": 1} == house.item(root).data["skipped"]["reasons"]


def test_deleting_it_leaves_nothing(house, base, packed):
    """Rows, bytes and passages."""
    (root,) = house.add(base, packed)
    house.work()
    house.service.delete_items(base.id, [root.id])
    house.work()

    assert ([], []) == (house.items(base), house.raw(base))
    assert 0 == house.rt.index(base).counts().materials


def test_it_is_restored_from_where_it_is(house, base, packed):
    """Under its name; one that is gone is counted."""
    gone = written(packed.with_name("gone.zip"), zipped({"z.md": "z"}))
    house.add(base, packed, gone)
    house.work()
    gone.unlink()
    receipt = house.service.restore_base(base.id, "again", None)
    house.work()

    assert 1 == receipt.skipped_missing_sources
    assert {path for path in paths(house, base) if not path.startswith("gone")} == paths(house, receipt.base).keys()


@pytest.mark.parametrize("call", [1, 2, 4])
@pytest.mark.parametrize("method", ["stage_stream", "publish", "sync"])
def test_a_second_execution_ends_what_the_first_began(house, base, packed, method, call):
    """Wherever it broke, each member becomes one row."""
    calls = []

    def break_at(*_, **__):
        calls.append(1)
        if len(calls) == call:
            raise StorageFull()

    house.add(base, packed)
    with hooked(house, files={method: break_at}):
        house.deliver(house.sender.waiting.popleft())
    house.work(hurry=True)

    assert 7 == len(house.items(base))
    assert {COMPLETED} == {item.status for item in house.items(base)}
    agree(house, base)


def test_one_that_becomes_our_own_file_gives_nothing(house, base, packed):
    """A link into the data directory is not followed by a reindex."""
    (root,) = house.add(base, packed)
    house.work()
    inside = house.root / "ours.zip"
    shutil.move(packed, inside)
    packed.symlink_to(inside)

    with pytest.raises(SourcesMissing):
        again(house, root)

    assert COMPLETED is house.item(root).status
    assert 7 == len(house.items(base))


def test_a_folder_whose_first_member_was_left_out_can_be_reindexed_on_its_own(house, base, tmp_path):
    """It knows where in the archive it lies, though it was met before it had anything to hold."""
    packed = written(
        tmp_path / "a.zip", zipped([("sub/x.exe", b"MZ\x00\x01"), ("sub/in/y.exe", b"MZ\x00"), ("sub/in/a.md", "a")])
    )
    house.add(base, packed)
    house.work()
    before = paths(house, base)
    written(packed, zipped([("sub/x.exe", b"MZ\x00\x01"), ("sub/in/a.md", "changed"), ("sub/new.md", "new")]))

    after = again(house, house.item(before["a.zip/sub"]))

    assert {"a.zip/sub/new.md"} == after.keys() - before.keys()
    assert "changed" == house.service.preview(after["a.zip/sub/in/a.md"]).text


def test_members_very_many_folders_deep_are_taken_or_told(house, base, tmp_path):
    """What is taken can be deleted again: rows fall with their parents, and no fall may be deeper than the database allows."""
    deep, deeper = "d/" * 250, "e/" * 1_300
    packed = written(tmp_path / "a.zip", zipped([(f"{deep}x.exe", b"MZ\x00"), (f"{deep}a.md", "a"), (f"{deeper}b.md", "b")]))
    (root,) = house.add(base, packed)
    house.work()
    taken = [item.relative_path for item in house.items(base) if item.type is ItemType.FILE]
    reasons = house.item(root).data["skipped"]["reasons"]

    assert ([f"a.zip/{deep}a.md"], {"unsupported": 1, "unsafe_path": 1}) == (taken, reasons)
    assert COMPLETED is house.item(root).status
    house.service.delete_items(base.id, [root.id])
    house.work()
    assert ([], []) == (house.items(base), house.raw(base))
