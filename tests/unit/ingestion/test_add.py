"""Adding: all of a call or nothing, whatever goes wrong."""

import json
import os
import resource
import threading
from pathlib import Path
from typing import Final

import pytest
from pydantic import ValidationError
from sqlalchemy import event, update

from knowledge.catalog import items, jobs, paths
from knowledge.catalog.rows import BASE
from knowledge.errors import (
    BaseFailed,
    BaseNotFound,
    BinarySource,
    DatabaseBusy,
    DimensionMismatch,
    InvalidInput,
    KnowledgeError,
    ModelNotFound,
    PathNotFound,
    PathUnreadable,
    StorageFailed,
    StorageFull,
    UnsupportedSource,
)
from knowledge.files.local import LocalRawFiles
from knowledge.ingestion.window import LedgerWindow
from knowledge.model.documents import EmbedderSpec
from knowledge.model.ids import new_item_id
from knowledge.model.inputs import DirectoryInput, FileInput, NoteInput
from knowledge.model.jobs import JobStatus, JobType
from knowledge.model.status import BaseStatus, ItemStatus, ItemType
from knowledge.pipeline.readers.registry import ReaderRegistry
from tests.house import HASHING

NOBODY: Final = 65534


def nothing_happened(house, base):
    return ([], [], [], 0) == (house.items(base), house.jobs(base=base), house.raw(base), house.staged(base))


def test_each_source_is_accepted_in_the_status_that_its_job_explains(house, base, docs):
    """Rows, jobs and bytes are there when the call returns; nothing has been indexed."""
    note, file, folder = house.add(base, NoteInput(content="a note"), docs / "a.md", docs)

    assert [ItemStatus.PROCESSING, ItemStatus.PROCESSING, ItemStatus.PREPARING] == [note.status, file.status, folder.status]
    assert [JobType.INDEX_DOCUMENTS, JobType.INDEX_DOCUMENTS, JobType.PREPARE_ROOT] == [
        house.job_of(one).type for one in (note, file, folder)
    ]
    assert ["a note.md", "a.md"] == house.raw(base)


def test_nothing_to_add_is_refused(house, base):
    """An empty call is a mistake of the caller."""
    with pytest.raises(InvalidInput):
        house.service.add_items(base.id, [])


def test_an_unknown_base_is_named(house):
    """By its id."""
    with pytest.raises(BaseNotFound) as refused:
        house.service.add_items("nobody", [NoteInput(content="x")])

    assert "nobody" == refused.value.details["base_id"]


def broken(tmp_path, kind):
    file = tmp_path / "file.md"
    file.write_text("text")
    if kind == "missing":
        return FileInput(path=tmp_path / "no.md"), PathNotFound
    if kind == "missing directory":
        return DirectoryInput(path=tmp_path / "no"), PathNotFound
    if kind == "NUL":
        return FileInput(path=f"{tmp_path}/a\0b.md"), PathNotFound
    if kind == "half a surrogate":
        return FileInput(path=tmp_path / "a\ud800.md"), PathNotFound
    if kind == "too long":
        return FileInput(path=tmp_path / ("x" * 300 + ".md")), PathUnreadable
    if kind == "below a file":
        return FileInput(path=file / "b.md"), PathNotFound
    if kind == "directory as file":
        return FileInput(path=tmp_path), InvalidInput
    if kind == "file as directory":
        return DirectoryInput(path=file), InvalidInput
    if kind == "pipe":
        os.mkfifo(tmp_path / "pipe.md")
        return FileInput(path=tmp_path / "pipe.md"), InvalidInput
    if kind == "device":
        return FileInput(path="/dev/zero"), InvalidInput
    if kind == "loop of links":
        (tmp_path / "loop.md").symlink_to(tmp_path / "loop.md")
        return FileInput(path=tmp_path / "loop.md"), (PathNotFound, PathUnreadable)
    if kind == "program":
        (tmp_path / "tool.exe").write_bytes(b"MZ\x90\0" * 100)
        return FileInput(path=tmp_path / "tool.exe"), UnsupportedSource
    assert kind == "binary named like text"
    (tmp_path / "core.md").write_bytes(bytes(range(256)) * 40)
    return FileInput(path=tmp_path / "core.md"), (BinarySource, UnsupportedSource)


@pytest.mark.parametrize(
    "kind",
    [
        "missing",
        "missing directory",
        "NUL",
        "half a surrogate",
        "too long",
        "below a file",
        "directory as file",
        "file as directory",
        "pipe",
        "device",
        "loop of links",
        "program",
        "binary named like text",
    ],
)
def test_one_bad_path_refuses_the_whole_call(house, base, tmp_path, kind):
    """The good inputs beside it are not added, and no byte stays."""
    bad, error = broken(tmp_path, kind)
    good = tmp_path / "good.md"
    good.write_text("good")

    with pytest.raises(error):
        house.service.add_items(base.id, [FileInput(path=good), NoteInput(content="good"), bad])
    assert nothing_happened(house, base)


@pytest.mark.parametrize("kind", ["file", "directory", "below a directory"])
def test_what_may_not_be_read_is_refused(house, base, docs, kind):
    """A typed error that names the path; tried as an ordinary user, since root may read everything."""
    secret = docs / "a.md"
    inputs = {
        "file": FileInput(path=secret),
        "directory": DirectoryInput(path=docs),
        "below a directory": FileInput(path=docs / "inner" / "b.md"),
    }
    (secret if kind == "file" else docs).chmod(0)

    found = as_nobody(lambda: house.service.add_items(base.id, [inputs[kind]]), house.root, docs)
    docs.chmod(0o755)
    assert ("path_unreadable", inputs[kind].path.name) == found
    assert nothing_happened(house, base)


def as_nobody(call, *owned):
    """(code, name of the path) of the error that `call` raises in a child process without a superuser's rights."""
    is_root = os.geteuid() == 0
    if is_root:
        for top in owned:
            for place in (top, *top.rglob("*")):
                os.chown(place, NOBODY, NOBODY)
            for parent in top.parents:
                if any(place.name.startswith("pytest-") for place in (parent, *parent.parents[:2])):
                    parent.chmod(0o711)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if is_root:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            call()
        except KnowledgeError as error:
            os.write(writing, json.dumps([error.code, Path(str(error.details.get("path"))).name]).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as answer:  # noqa: PTH123 - a descriptor, not a path
        found = answer.read()
    os.waitpid(child, 0)
    return tuple(json.loads(found))


def test_own_files_are_never_imported(house, base, docs):
    """Neither stored bytes nor the catalogue: opening and closing a live database would drop its locks."""
    house.add(base, docs / "a.md")
    stored = house.root / "bases" / base.id / "raw" / "a.md"
    link = docs / "link.md"
    link.symlink_to(stored)

    for path in (stored, house.root / "catalogue.sqlite", link):
        with pytest.raises(InvalidInput, match="data directory"):
            house.service.add_items(base.id, [FileInput(path=path)])


def test_a_failed_or_vanishing_base_takes_nothing(house, base, docs):
    """Also when it fails or goes after the first look."""
    with house.db.write() as tx:
        tx.execute(update(BASE).values(status=BaseStatus.FAILED, error="missing_vector_store"))
    with pytest.raises(BaseFailed):
        house.add(base, docs / "a.md")
    assert nothing_happened(house, base)


def test_a_base_deleted_while_bytes_are_copied_leaves_neither_rows_nor_bytes(house, base, docs, monkeypatch):
    """What was seen before the lock is seen again inside it."""
    stage = LocalRawFiles.stage_file

    def stage_and_lose(files, base_id, source, *reach):
        staged = stage(files, base_id, source, *reach)
        house.service.delete_base(base.id)
        return staged

    monkeypatch.setattr(LocalRawFiles, "stage_file", stage_and_lose)
    with pytest.raises(BaseNotFound):
        house.add(base, docs / "a.md")

    assert [] == house.items(base)
    assert [] == house.raw(base)


def test_an_undeclared_model_is_told_before_anything_is_stored(make_house, tmp_path, docs):
    """The base stays; its rows are untouched."""
    spec = EmbedderSpec(id="gone", kind="hashing", dimensions=8)
    base = make_house(spec).base("gone")
    later = make_house()

    with pytest.raises(ModelNotFound):
        later.add(base, docs / "a.md")
    assert nothing_happened(later, base)


def test_a_model_declared_with_another_width_is_told_before_anything_is_stored(make_house, docs):
    """A base keeps the width it was made with."""
    base = make_house(EmbedderSpec(id="m", kind="hashing", dimensions=8)).base("m")
    later = make_house(EmbedderSpec(id="m", kind="hashing", dimensions=16))

    with pytest.raises(DimensionMismatch) as refused:
        later.add(base, docs / "a.md")
    assert (16, 8) == (refused.value.details["declared"], refused.value.details["base"])
    assert nothing_happened(later, base)


NAMES = [
    "line\nbreak.md",
    "emoji 🗼👩‍🚀.md",
    "x" * 252 + ".md",
    "灯" * 84 + ".md",
    "a. b v. c - NJA 2021 s. 576.md",
    "C# notes.md",
    ".hidden.md",
    "trailing .md",
    "CON.md",
    "-rf.md",
    "per%20cent.md",
    b"caf\xe9.md",
    b"\xff\xfe.md",
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_any_file_name_that_a_disk_takes_is_indexed_and_found(house, base, tmp_path, name):
    """Newlines, emoji, 255 bytes, invalid UTF-8: stored under a safe name, and the row can be shown."""
    path = tmp_path / (os.fsdecode(name) if isinstance(name, bytes) else name)
    path.write_text("lighthouse keeper")
    (item,) = house.add(base, path)
    house.work()
    found = house.item(item)

    assert (ItemStatus.COMPLETED, None) == (found.status, found.error)
    assert len(found.relative_path.encode()) <= 255
    assert "\n" not in found.relative_path
    found.source.encode()
    assert item.id == house.service.search(base.id, "lighthouse").hits[0].item_id


@pytest.mark.parametrize(
    "title", ["../../etc/passwd", "/etc/passwd", "..", ".", "a/b\\c", ".knowledge", "\0\0", "note\nmore", "🗼" * 200]
)
def test_a_note_cannot_leave_the_base_by_its_title(house, base, title):
    """The title is text; the stored name is one safe part below raw/."""
    (item,) = house.add(base, NoteInput(content="lighthouse keeper", title=title))
    house.work()
    found = house.item(item)

    assert ItemStatus.COMPLETED is found.status
    assert "/" not in found.relative_path
    assert [found.relative_path] == house.raw(base)


def test_a_note_longer_than_a_million_characters_is_refused_at_the_edge():
    """The limit is the input's own."""
    with pytest.raises(ValidationError):
        NoteInput(content="x" * 1_000_001)


def test_equal_names_get_numbers(house, base, tmp_path):
    """Also if they differ in case only, and also while their holder is being deleted."""
    for folder, name in (("one", "Notes.md"), ("two", "notes.md"), ("three", "NOTES.md")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(folder)
    first, second = house.add(base, tmp_path / "one" / "Notes.md", tmp_path / "two" / "notes.md")
    house.service.delete_items(base.id, [first.id])
    (third,) = house.add(base, tmp_path / "three" / "NOTES.md")

    assert ["Notes.md", "notes_1.md", "NOTES_2.md"] == [one.relative_path for one in (first, second, third)]


def test_a_leftover_of_a_crash_is_stepped_over(house, base, docs):
    """Bytes that no row names are neither overwritten nor taken for the new file."""
    raw = house.root / "bases" / base.id / "raw"
    raw.mkdir(parents=True)
    (raw / "a.md").write_text("leftover")
    (item,) = house.add(base, docs / "a.md")

    assert "a_1.md" == item.relative_path
    assert "leftover" == (raw / "a.md").read_text()


def test_two_thousand_notes_of_one_title_cost_a_few_look_ups_each(house, base):
    """Names are found by doubling steps: the work for the last one does not grow with those before it."""
    statements = []
    with house.db.write() as tx:
        ids = [new_item_id() for _ in range(2000)]
        items.insert(tx, base.id, [items.NewItem(one, ItemType.NOTE, "same", ItemStatus.PROCESSING) for one in ids])
        event.listen(tx.engine, "before_cursor_execute", lambda *_: statements.append(1))
        names = [paths.reserve(tx, base.id, one, "same.md") for one in ids]

    assert 2000 == len(set(names))
    assert len(statements) < 2000 * 50


def test_two_thousand_notes_in_one_call(house, base):
    """One commit; the window lets five out."""
    accepted = house.service.add_items(base.id, [NoteInput(content="same title\nlighthouse") for _ in range(2000)])

    assert 2000 == len(accepted.items)
    assert 5 == len(house.sender.sent)
    assert 2000 == house.service.list_jobs(base_id=base.id, statuses=[JobStatus.PENDING], limit=1).total


def test_a_zero_byte_file_is_accepted_and_fails_visibly(house, base, tmp_path):
    """The person sees why, on the item."""
    (tmp_path / "empty.md").touch()
    (item,) = house.add(base, tmp_path / "empty.md")
    house.work()

    assert (ItemStatus.FAILED, "empty") == (house.item(item).status, house.item(item).error)
    assert JobStatus.FAILED is house.job_of(item).status


def test_a_file_that_vanishes_between_the_check_and_the_copy_is_a_typed_error(house, base, docs, monkeypatch):
    """Nothing of the call stays."""
    monkeypatch.setattr(ReaderRegistry, "require_reader", lambda self, path, name: path.unlink())

    with pytest.raises(PathNotFound):
        house.add(base, docs / "a.md")
    assert nothing_happened(house, base)


def test_a_stored_file_that_vanishes_fails_its_item_only(house, base, docs):
    """Somebody removed bytes below raw/: the item says so."""
    gone, kept = house.add(base, docs / "a.md", docs / "inner" / "b.md")
    (house.root / "bases" / base.id / "raw" / "a.md").unlink()
    house.work(hurry=True)

    assert (ItemStatus.FAILED, "missing") == (house.item(gone).status, house.item(gone).error)
    assert ItemStatus.COMPLETED is house.item(kept).status


def test_a_full_disk_while_copying_is_told_and_leaves_nothing(house, base, tmp_path):
    """No row, no half file, and the next smaller file is accepted."""
    (tmp_path / "large.md").write_text("lighthouse\n" * 400_000)
    (tmp_path / "small.md").write_text("lighthouse")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, hard))
    try:
        with pytest.raises(StorageFull):
            house.add(base, tmp_path / "small.md", tmp_path / "large.md")
        assert nothing_happened(house, base)
        house.add(base, tmp_path / "small.md")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("step", ["publish", "sync", "enqueue", "commit"])
def test_a_failure_inside_the_commit_leaves_neither_rows_nor_bytes(house, base, docs, monkeypatch, step):
    """Whichever step breaks; and the error that broke it is the one seen, even if taking bytes back fails as well."""

    def breaks(*_args, **_more):
        raise StorageFailed(f"{step} as ordered")

    if step == "enqueue":
        monkeypatch.setattr(jobs, "enqueue_all", breaks)
    elif step == "commit":
        event.listen(house.db._engine("FULL"), "commit", breaks)
    else:
        monkeypatch.setattr(LocalRawFiles, step, breaks)
    with pytest.raises(StorageFailed, match="as ordered"):
        house.add(base, docs / "a.md", docs / "inner" / "b.md")

    assert nothing_happened(house, base)


def test_the_error_that_broke_a_commit_is_not_hidden_by_one_while_cleaning_up(house, base, docs, monkeypatch):
    """A removal that fails as well is only logged."""

    def breaks(*_args, **_more):
        raise DatabaseBusy

    def stuck(*_args, **_more):
        raise StorageFailed

    monkeypatch.setattr(jobs, "enqueue_all", breaks)
    monkeypatch.setattr(LocalRawFiles, "remove", stuck)

    with pytest.raises(DatabaseBusy):
        house.add(base, docs / "a.md")


def test_a_locked_catalogue_is_told_and_leaves_nothing(make_house, docs):
    """Another writer that does not let go: a typed error after the wait, no row, no byte."""
    house = make_house(busy_timeout_seconds=0.1)
    base = house.base()
    with house.db.write(), pytest.raises(DatabaseBusy):
        house.add(base, docs / "a.md")

    assert nothing_happened(house, base)
    house.add(base, docs / "a.md")


def test_accepted_work_is_not_refused_because_publishing_found_the_catalogue_busy(make_house, monkeypatch):
    """After the commit nothing may tell the caller that it failed: he would add everything twice."""
    house = make_house(busy_timeout_seconds=0.1)
    base = house.base()

    def busy(self, base_id):
        raise DatabaseBusy

    with monkeypatch.context() as patched:
        patched.setattr(LedgerWindow, "take_due", busy)
        receipt = house.service.add_items(base.id, [NoteInput(content="lighthouse")])

    assert (1, False) == (len(receipt.items), receipt.published)
    assert 1 == house.work()


def test_without_a_broker_work_is_accepted_and_sent_later(house, base):
    """The receipt says that it waits; marks are cleared; nothing is lost when the broker goes in the middle."""
    house.sender.takes_only = 2
    receipt = house.service.add_items(base.id, [NoteInput(content=f"note {number}") for number in range(4)])
    unpublished = [job for job in house.jobs() if job.is_unpublished]

    assert (4, False) == (len(receipt.items), receipt.published)
    assert 2 == len(unpublished)
    house.sender.takes_only = None
    assert 4 == house.work()


def test_two_processes_may_add_at_once(house, make_house, base):
    """Names, rows and window stay right; nobody is refused."""
    others = [house, make_house(), make_house()]
    problems = []

    def add(one):
        try:
            for _ in range(5):
                one.service.add_items(base.id, [NoteInput(content="same title")])
        except Exception as error:
            problems.append(error)

    adders = [threading.Thread(target=add, args=(one,)) for one in others]
    for adder in adders:
        adder.start()
    for adder in adders:
        adder.join()
    flying = [job for job in house.jobs() if job.published_at]

    assert [] == problems
    assert (15, 5) == (len(house.items(base)), len(flying))


@pytest.mark.parametrize("embedder", [None, HASHING.id])
def test_notes_that_say_nothing_complete_with_a_notice(house, embedder):
    """Empty, blank and one-letter notes harm nobody (texts of no tokens have crashed embedders)."""
    base = house.base(embedder)
    empty, blank, letter = house.notes(base, "", " \n\t\u200b", "a")
    house.work()

    assert [ItemStatus.COMPLETED] * 3 == [house.item(one).status for one in (empty, blank, letter)]
    assert [0, 0, 1] == [house.item(one).chunk_count for one in (empty, blank, letter)]
    assert [("no_text_extracted",)] * 2 + [()] == [house.item(one).notices for one in (empty, blank, letter)]


def test_a_base_may_want_emptiness_to_fail(house):
    """`fail_on_empty` turns the notice into a failure."""
    base = house.base(fail_on_empty=True)
    (item,) = house.notes(base, " ")
    house.work()

    assert (ItemStatus.FAILED, "no_text_extracted") == (house.item(item).status, house.item(item).error)
