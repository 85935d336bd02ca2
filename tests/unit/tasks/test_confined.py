"""What clients make the fleet read lies below the import roots: at once, by later jobs, and whoever asks again afterwards."""

import json
from contextlib import suppress
from itertools import count
from zipfile import ZipFile

import pytest

from knowledge import BaseInput, DirectoryInput, FileInput, NoteInput
from knowledge.catalog import items
from knowledge.errors import KnowledgeError, PathNotAllowed
from knowledge.files import local, reach
from knowledge.model.jobs import JobStatus
from knowledge.model.status import ItemStatus, ItemType
from knowledge.pipeline.sources.directory import DirectoryChildren
from tests.near import Near

SECRET = "the secret of the lighthouse"


@pytest.fixture
def inbox(tmp_path):
    folder = tmp_path / "inbox"
    folder.mkdir()
    return folder


@pytest.fixture
def outside(tmp_path):
    """A folder of the host's owner, beside the only import root."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.md").write_text("harmless so far")
    return folder


@pytest.fixture
def near(house, inbox):
    return Near(house, [inbox])


@pytest.fixture
def base(near):
    return near.create_base(BaseInput(name="light"))


@pytest.fixture
def pack(inbox):
    """Writes a bundle into the inbox, with rows that name these sources."""

    def pack(**sources):
        path = inbox / "bundle.zip"
        rows = [
            {"id": name, "type": "file", "source": str(source), "relative_path": f"{name}.md"}
            for name, source in sources.items()
        ]
        with ZipFile(path, "w") as archive:
            archive.writestr("base.json", json.dumps({"format": 1, "base": {"name": "moved"}, "items": rows}))
            for name in sources:
                archive.writestr(f"raw/{name}.md", f"bytes that came along as {name}")
        return path

    return pack


def finds_secret(house, base_id):
    return SECRET in [hit.text for hit in house.service.search(base_id, SECRET).hits]


def nothing_waits(house):
    return not house.jobs(JobStatus.PENDING, JobStatus.RUNNING)


# what the owner of the host brought in ---------------------------------------------------------------------------------------


def test_a_client_cannot_have_the_owners_files_read_again(house, near, base, inbox, outside):
    """Each operation that acquires sources names all that it may not read, and has done nothing; the owner still may."""
    (inbox / "fine.md").write_text("fine")
    file, folder, fine = house.add(base, outside / "secret.md", outside, inbox / "fine.md")
    house.work()
    (child,) = [item for item in house.items(base) if item.group_id == folder.id]
    (outside / "secret.md").write_text(SECRET)
    for refused, named in (
        (lambda: near.reindex_items(base.id, [fine.id, file.id, folder.id]), [file, folder]),
        (lambda: near.reindex_items(base.id, [child.id]), [child]),
        (lambda: near.enable_embedder(base.id, "hashing"), [file, folder]),
        (lambda: near.restore_base(base.id, "again", None), [folder]),
    ):
        with pytest.raises(PathNotAllowed) as refusal:
            refused()

        assert ("path_not_allowed", 422) == (refusal.value.code, refusal.value.http_status)
        assert {item.id for item in named} == set(refusal.value.details["item_ids"])
        assert {item.source for item in named} == set(refusal.value.details["sources"])
    assert nothing_waits(house)
    assert [base.id] == [one.id for one in house.service.list_bases()]
    assert not finds_secret(house, base.id)
    house.service.reindex_items(base.id, [file.id])
    house.work()
    assert finds_secret(house, base.id)


def test_a_path_that_is_not_text_is_judged_by_its_bytes(house, near, base, inbox, outside):
    """What is remembered beside `source` decides where a file is read, so it decides who may."""
    (item,) = near.add_items(base.id, [FileInput(path=_written(inbox / "a.md", "a"))]).items
    house.work()
    with house.db.write() as tx:
        items.set_data(tx, item.id, path_bytes=str(outside / "secret.md"))

    with pytest.raises(PathNotAllowed):
        near.reindex_items(base.id, [item.id])


def test_what_was_interrupted_is_finished_without_what_is_out_of_reach(house, near, base, inbox, outside):
    """One item of the owner does not keep the client's own from being finished; alone it is refused by name."""
    (inbox / "mine.md").write_text("mine")
    theirs, mine = house.add(base, outside / "secret.md", inbox / "mine.md")
    for job in house.jobs():
        house.service.cancel_job(job.id)

    assert [mine.id] == list(near.reindex_interrupted(base.id).root_ids)
    house.work()
    with pytest.raises(PathNotAllowed) as refusal:
        near.reindex_interrupted(base.id)
    assert [theirs.id] == refusal.value.details["item_ids"]


def test_a_restore_takes_stored_bytes_from_anywhere(house, near, base, outside):
    """They were accepted once; only a directory is read from its folder again."""
    house.add(base, outside / "secret.md", NoteInput(content="a note"))
    house.work()
    (outside / "secret.md").write_text(SECRET)

    restored = near.restore_base(base.id, "again", None)
    house.work()

    assert {ItemStatus.COMPLETED} == {item.status for item in house.items(restored.base)}
    assert not finds_secret(house, restored.base.id)
    with pytest.raises(PathNotAllowed):
        near.reindex_items(restored.base.id, [item.id for item in restored.items if item.type is ItemType.FILE])


# what a client brought in stays confined -------------------------------------------------------------------------------------


def test_sources_of_a_clients_bundle_are_read_for_nobody(house, near, pack, inbox, outside):
    """Rows and bytes are kept; naming a file does not make the owner's next reindex fetch it. Sources in reach work."""
    (inbox / "here.md").write_text("the newer text of here")
    made = near.import_base(pack(there=outside / "secret.md", relative="secret.md", here=inbox / "here.md"))
    house.work()
    (outside / "secret.md").write_text(SECRET)
    rows = {item.relative_path: item for item in house.items(made)}
    assert {ItemStatus.COMPLETED} == {item.status for item in rows.values()}

    for service in (near, house.service):
        for name in ("there.md", "relative.md"):
            with pytest.raises(PathNotAllowed) as refusal:
                service.reindex_items(made.id, [rows[name].id])
            assert [rows[name].id] == refusal.value.details["item_ids"]
        with pytest.raises(PathNotAllowed):
            service.enable_embedder(made.id, "hashing")
    near.reindex_items(made.id, [rows["here.md"].id])
    house.work()
    assert house.service.search(made.id, "newer").hits
    restored = house.service.restore_base(made.id, "again", None)
    house.work()
    with pytest.raises(PathNotAllowed):
        house.service.reindex_items(restored.base.id, [item.id for item in restored.items if item.relative_path == "there.md"])
    assert not finds_secret(house, restored.base.id)


def test_ignore_files_above_the_roots_say_nothing_to_a_client(house, near, inbox):
    """A bundle may call the folder above the root the parent of one below; what is ignored would tell what is written there."""
    (inbox.parent / ".gitignore").write_text("*.md")
    (inbox / "new.md").write_text("new")
    rows = [
        {"id": "top", "type": "directory", "source": str(inbox.parent), "relative_path": "top"},
        {"id": "in", "group_id": "top", "type": "directory", "source": str(inbox), "relative_path": "top/in"},
        {"id": "old", "group_id": "in", "type": "file", "source": f"{inbox}/old.txt", "relative_path": "top/in/old.txt"},
    ]
    with ZipFile(inbox / "bundle.zip", "w") as archive:
        archive.writestr("base.json", json.dumps({"format": 1, "base": {"name": "moved"}, "items": rows}))
        archive.writestr("raw/top/in/old.txt", "old")
    made = near.import_base(inbox / "bundle.zip")
    house.work()
    (folder,) = [item.id for item in house.items(made) if item.relative_path == "top/in"]
    near.reindex_items(made.id, [folder])
    house.work()

    assert "new.md" in [item.title for item in house.items(made)]


def test_a_bundle_that_the_owner_imports_is_the_owners(house, pack, outside):
    """As if its paths had been typed: a base that moves on one host keeps its sources."""
    made = house.service.import_base(pack(there=outside / "secret.md"))
    house.work()
    (outside / "secret.md").write_text(SECRET)
    house.service.reindex_items(made.id, [item.id for item in house.items(made)])
    house.work()

    assert finds_secret(house, made.id)


@pytest.mark.parametrize("kind", ["file", "folder", "file in a folder"])
def test_a_link_that_a_client_leaves_is_not_followed_by_the_owners_reindex(house, near, base, inbox, outside, kind):
    """Added as a plain file or folder, then replaced by a link out: the owner's reindex is refused, or leaves the link out."""
    (inbox / "docs").mkdir()
    place = {"file": inbox / "secret.md", "folder": inbox / "docs", "file in a folder": inbox / "docs" / "secret.md"}[kind]
    _written(inbox / "docs" / "other.md", "other")
    _written(inbox / "docs" / "secret.md", "harmless")
    _written(inbox / "secret.md", "harmless")
    wanted = FileInput(path=place) if kind == "file" else DirectoryInput(path=inbox / "docs")
    (root,) = near.add_items(base.id, [wanted]).items
    house.work()
    (outside / "secret.md").write_text(SECRET)
    place.rename(inbox / "aside")
    place.symlink_to(outside if kind == "folder" else outside / "secret.md")
    leaves = [item.id for item in house.items(base) if item.type is ItemType.FILE and item.title == "secret.md"]

    for wanted in (leaves, [root.id]):
        with suppress(PathNotAllowed):
            house.service.reindex_items(base.id, wanted)
            house.work()
    assert not finds_secret(house, base.id)


# between the look and the reading --------------------------------------------------------------------------------------------


@pytest.fixture
def swap(inbox, outside, monkeypatch):
    """Puts a link to the secret in the place of a file or folder at the last moment: when it is about to be opened, the first
    time or after so many times."""

    def swap(place, target, after=0):
        opens, times = reach._open_unfollowed, count()

        def swapping(real, flags):
            if real.is_relative_to(place) and not place.is_symlink() and next(times) == after:
                place.rename(inbox / "aside")
                place.symlink_to(target)
            return opens(real, flags)

        monkeypatch.setattr(reach, "_open_unfollowed", swapping)
        (outside / "secret.md").write_text(SECRET)

    return swap


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_file_swapped_while_it_is_added_is_refused(house, near, base, inbox, outside, swap, after):
    """When it is checked, when its bytes tell an archive, when it is copied: what was judged is opened, or nothing."""
    place = _written(inbox / "secret.md", "harmless")
    swap(place, outside / "secret.md", after)

    with pytest.raises(KnowledgeError) as refusal:
        near.add_items(base.id, [FileInput(path=place)])

    assert 422 == refusal.value.http_status
    assert [] == house.items(base)
    assert 0 == house.staged(base)


@pytest.mark.parametrize("what", ["the file", "its folder"])
def test_a_source_swapped_while_it_is_acquired_again_is_left(house, near, base, inbox, outside, swap, what):
    """By the job of a client's reindex of a file that the owner added: its old text stays."""
    (inbox / "docs").mkdir()
    file = _written(inbox / "docs" / "secret.md", "harmless")
    (item,) = house.add(base, file)
    house.work()
    near.reindex_items(base.id, [item.id])
    swap(*{"the file": (file, outside / "secret.md"), "its folder": (inbox / "docs", outside)}[what])
    house.work()

    assert ItemStatus.COMPLETED is house.item(item).status
    assert not finds_secret(house, base.id)
    assert house.service.search(base.id, "harmless").hits


@pytest.mark.parametrize("what", ["root", "inner folder", "file"])
def test_a_folder_swapped_while_it_is_expanded_gives_nothing(house, near, base, inbox, outside, swap, what):
    """Its names are not listed and its files not copied; the rest of the directory is there."""
    top = inbox / "docs"
    (top / "inner").mkdir(parents=True)
    _written(top / "a.md", "the text of a")
    _written(top / "inner" / "secret.md", "harmless")
    (outside / "named.md").write_text("also here")
    place, target = {
        "root": (top, outside),
        "inner folder": (top / "inner", outside),
        "file": (top / "inner" / "secret.md", outside / "secret.md"),
    }[what]
    (root,) = near.add_items(base.id, [DirectoryInput(path=top)]).items
    swap(place, target)
    house.work(hurry=True)

    assert not finds_secret(house, base.id)
    assert "named" not in json.dumps([str(item) for item in house.items(base)])
    if what != "root":
        assert house.service.search(base.id, "text").hits
    else:
        assert ItemStatus.FAILED is house.item(root).status


def test_a_file_swapped_between_listing_and_copying_is_left_out(house, near, base, inbox, outside, monkeypatch):
    """A whole batch lies in between."""
    top = inbox / "docs"
    top.mkdir()
    _written(top / "a.md", "the text of a")
    _written(top / "secret.md", "harmless")
    scan = DirectoryChildren.scan

    def scan_and_swap(*arguments):
        found = list(scan(*arguments))
        (top / "secret.md").unlink()
        (top / "secret.md").symlink_to(outside / "secret.md")
        yield from found

    monkeypatch.setattr(DirectoryChildren, "scan", scan_and_swap)
    (outside / "secret.md").write_text(SECRET)
    (root,) = near.add_items(base.id, [DirectoryInput(path=top)]).items
    house.work()

    assert ["a.md"] == [item.title for item in house.items(base) if item.type is ItemType.FILE]
    assert {"path_not_allowed": 1} == house.item(root).data["skipped"]["reasons"]


@pytest.mark.parametrize(("how", "after"), [("named", 0), ("in a folder", 1)])
def test_an_archive_swapped_while_it_is_opened_is_not_read(house, near, base, inbox, outside, swap, how, after):
    """Its members come from the file that was judged, or there are none."""
    top = inbox / "docs"
    top.mkdir()
    place = top / "papers.zip"
    for path, text in ((place, "harmless"), (outside / "theirs.zip", SECRET)):
        with ZipFile(path, "w") as archive:
            archive.writestr("a.md", text)
    _written(top / "b.md", "the text of b")
    near.add_items(base.id, [FileInput(path=place) if how == "named" else DirectoryInput(path=top)])
    swap(place, outside / "theirs.zip", after)
    house.work()

    assert not finds_secret(house, base.id)
    (archive,) = [item for item in house.items(base) if item.type is ItemType.ARCHIVE]
    assert (ItemStatus.FAILED, True) == (archive.status, archive.error in ("path_not_allowed", "path_unreadable"))
    assert (how == "in a folder") is bool(house.service.search(base.id, "text").hits)


@pytest.mark.parametrize("name", ["papers.zip", "page", "notes.md"])
def test_a_file_swapped_before_it_is_looked_at_is_left_out(house, near, base, inbox, outside, swap, name):
    """Whether it is an archive, or text, is not told of another file either."""
    top = inbox / "docs"
    top.mkdir()
    place = _written(top / name, "harmless")
    (root,) = near.add_items(base.id, [DirectoryInput(path=top)]).items
    swap(place, outside / "secret.md")
    house.work()

    assert {"reasons": {"unreadable": 1}, "count": 1} == {
        key: value for key, value in house.item(root).data["skipped"].items() if key != "sample"
    }
    assert [root.id] == [item.id for item in house.items(base)]


@pytest.mark.parametrize("who", ["the client", "the owner"])
def test_members_of_a_clients_archive_are_read_again_below_the_roots_only(house, near, base, inbox, outside, who):
    """An archive that has become a link to somebody else's gives nothing, member by member either."""
    place = inbox / "papers.zip"
    for path, text in ((place, "harmless"), (outside / "theirs.zip", SECRET)):
        with ZipFile(path, "w") as archive:
            archive.writestr("a.md", text)
    near.add_items(base.id, [FileInput(path=place)])
    house.work()
    place.unlink()
    place.symlink_to(outside / "theirs.zip")

    for item in house.items(base):
        with pytest.raises(PathNotAllowed) as refusal:
            (near if who == "the client" else house.service).reindex_items(base.id, [item.id])
        assert [item.id] == refusal.value.details["item_ids"]
    assert not finds_secret(house, base.id)


def test_a_bundle_swapped_while_it_is_opened_is_refused(house, near, pack, inbox, outside, swap):
    """Nothing of another file is unpacked."""
    path = pack(a=inbox / "a.md")
    path.rename(outside / "other.zip")
    _written(path, "harmless")
    swap(path, outside / "other.zip")

    with pytest.raises(KnowledgeError) as refusal:
        near.import_base(path)

    assert 422 == refusal.value.http_status
    assert [] == house.service.list_bases()


def test_our_own_files_below_an_import_root_stay_shut(house, inbox):
    """Import roots that hold the data directory open neither databases nor the stored bytes of other bases."""
    near = Near(house, [house.root.parent])
    base = near.create_base(BaseInput(name="light"))
    for bad in (FileInput(path=house.root / "catalogue.sqlite"), DirectoryInput(path=house.root / "bases")):
        with pytest.raises(KnowledgeError) as refusal:
            near.add_items(base.id, [bad])
        assert 422 == refusal.value.http_status
    with pytest.raises(KnowledgeError):
        near.import_base(house.root / "catalogue.sqlite")
    with pytest.raises(PathNotAllowed):
        local.LocalRawFiles(house.root).stage_file(
            base.id, house.root / "catalogue.sqlite", reach.Reach((house.root.parent.resolve(),))
        )
    assert 0 == near.list_items(base.id).total


def _written(path, text):
    path.write_text(text)
    return path
