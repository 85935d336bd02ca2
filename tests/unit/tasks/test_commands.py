"""What a command may ask, what becomes of its answer, and that the whole lifecycle travels: client and fleet in one process."""

import json
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_type_hints
from zipfile import ZipFile

import pytest

from knowledge import BaseInput, BasePatch, BaseQuery, DirectoryInput, FileInput, NoteInput, Strategy
from knowledge.errors import (
    BaseNotFound,
    FleetBusy,
    GroupNotFound,
    InvalidInput,
    InvalidOperation,
    ItemNotFound,
    KeyReused,
    PathNotAllowed,
)
from knowledge.model import wire
from knowledge.model.inputs import ItemInput
from knowledge.model.status import ItemStatus
from knowledge.service import KnowledgeService
from tasks import commands
from tests.house import House
from tests.near import Near
from tests.regression.faults import hooked, raising


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    folder = tmp_path / "inbox"
    folder.mkdir()
    return folder


@pytest.fixture
def near(house: House, inbox: Path) -> Near:
    return Near(house, [inbox])


def test_bases_and_groups_travel(near, house, inbox):
    """Every operation on bases and groups gives what the service gives."""
    group = near.create_group("rocks")
    base = near.create_base(BaseInput(name="light", group_id=group.id))

    assert house.service.base(base.id) == near.base("light")
    assert [group] == near.list_groups()
    assert "reefs" == near.rename_group(group.id, "reefs").name
    assert [base.id] == [found.id for found in near.find_bases(BaseQuery(group_id=group.id, search="LIG")).bases]
    assert (None, "lamp") == (lambda changed: (changed.group_id, changed.name))(
        near.patch_base(base.id, BasePatch(group_id=None, name="lamp"))
    )
    near.delete_group(group.id)
    with pytest.raises(GroupNotFound):
        near.rename_group(group.id, "x")
    near.add_items(base.id, [NoteInput(content="a note")])
    house.work()
    assert "hashing" == near.enable_embedder(base.id, "hashing").embedder
    house.work()
    restored = near.restore_base(base.id, "again", None)
    assert (1, 0) == (len(restored.items), restored.skipped_missing_sources)
    with ZipFile(inbox / "bundle.zip", "w") as bundle:
        bundle.writestr("base.json", json.dumps({"format": 1, "base": {"name": "from a bundle"}, "items": []}))
    assert "from a bundle" == near.import_base(inbox / "bundle.zip").name
    assert near.delete_base(base.id) is None
    with pytest.raises(BaseNotFound) as gone:
        near.base(base.id)
    assert 404 == gone.value.http_status


def test_items_and_jobs_travel(near, house, inbox):
    """Add, list, read, search, index again, explain, step in and delete give what the service gives."""
    base = near.create_base(BaseInput(name="light", embedder="hashing"))
    (inbox / "docs").mkdir()
    (inbox / "docs" / "keeper.md").write_text("The keeper winds the clockwork.")
    (inbox / "log.txt").write_text("The lamp was changed.")
    added = near.add_items(base.id, [DirectoryInput(path=inbox / "docs"), FileInput(path=inbox / "log.txt")])
    folder, file = added.items

    assert folder == house.item(folder)
    waiting = near.list_jobs(base_id=base.id).jobs
    assert waiting[0] == near.job(waiting[0].id)
    assert near.requeue_job(waiting[0].id).status == waiting[0].status
    house.work()
    assert {ItemStatus.COMPLETED: 2} == near.wait(added).counts.leaves
    assert near.status_counts(base.id) == house.service.status_counts(base.id)
    assert near.coverage(base.id) == house.service.coverage(base.id)
    assert near.list_items(base.id, group_id=folder.id) == house.service.list_items(base.id, group_id=folder.id)
    assert near.search(base.id, "clockwork") == house.service.search(base.id, "clockwork")
    assert ["The lamp was changed."] == [chunk.content for chunk in near.chunks(base.id, file.id)]
    assert "The lamp" == near.preview(file.id, characters=8).text
    assert house.service.file_path(file.id) == near.file_path(file.id)
    assert near.why(file.id) == house.service.why(file.id)
    assert [] == near.failures(base.id)
    assert [] == near.workers()
    assert [] == list(near.reindex_interrupted(base.id).root_ids)
    again = near.reindex_items(base.id, [file.id])
    with pytest.raises(InvalidOperation):
        near.requeue_job(waiting[0].id)
    assert "cancelled" == near.cancel_job(again.job_id).status
    deleted = near.delete_items(base.id, [folder.id, file.id])
    house.work(hurry=True)
    assert 0 == near.wait(deleted).counts.total
    with pytest.raises(ItemNotFound):
        near.item(file.id)


def test_text_of_notes_stays_where_it_is(near, house):
    """Receipts and lists carry no note's text, so a page of notes is small; a preview gives it."""
    base = near.create_base(BaseInput(name="light"))
    receipt = near.add_items(base.id, [NoteInput(content="first line\n" + "private " * 1000)])
    house.work()

    answers = [receipt.items[0], near.item(receipt.items[0].id), *near.list_items(base.id).items]
    assert not [item for item in answers if "private" in repr(item)]
    assert "private" in near.preview(receipt.items[0].id).text


def test_note_of_one_long_line_is_not_its_own_title(near, house):
    """What lists show of a note is short, also where its text has no line breaks; the text itself is whole."""
    base = near.create_base(BaseInput(name="light"))
    (item,) = near.add_items(base.id, [NoteInput(content="word " * 2000)]).items
    house.work()

    assert len(item.source) <= 200
    assert 9_999 <= near.preview(item.id).total_characters


def test_same_key_same_receipt(near, house):
    """An add whose answer was lost is asked again: the same items, nothing twice; also where it is in its own way by now."""
    base = near.create_base(BaseInput(name="light"))
    for strategy in Strategy:
        wanted = [NoteInput(content=f"note {strategy}")]
        first = near.add_items(base.id, wanted, strategy=strategy, idempotency_key=strategy.value)
        second = near.add_items(base.id, wanted, strategy=strategy, idempotency_key=strategy.value)
        assert [item.id for item in first.items] == [item.id for item in second.items] != []
    assert len(Strategy) == near.list_items(base.id).total


def test_same_key_for_another_request_is_refused(near):
    """The client gets the same error, with the key and the items of the first request."""
    base = near.create_base(BaseInput(name="light"))
    first = near.add_items(base.id, [NoteInput(content="one")], idempotency_key="k")
    with pytest.raises(KeyReused) as refusal:
        near.add_items(base.id, [NoteInput(content="two")], idempotency_key="k")

    assert {"key": "k", "item_ids": [item.id for item in first.items]} == refusal.value.details
    assert 1 == near.list_items(base.id).total


@pytest.mark.parametrize("strategy", Strategy)
def test_same_key_at_the_same_time_is_one_add(near, strategy):
    """Of two that run side by side the second gets the first one's items; it must not take them for what it replaces."""
    base = near.create_base(BaseInput(name="light"))
    receipts = []
    gate = threading.Barrier(4)

    def add() -> None:
        gate.wait()
        receipts.append(near.add_items(base.id, [NoteInput(content="a note")], strategy=strategy, idempotency_key="k"))

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 1 == near.list_items(base.id).total
    assert 1 == len({tuple(item.id for item in receipt.items) for receipt in receipts})
    assert (4, 1) == (len(receipts), len(receipts[0].items))


# import roots ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def outside(tmp_path: Path, inbox: Path) -> Path:
    """A folder beside the only import root, whose name begins like it; links inside the root lead out."""
    folder = tmp_path / "inbox-not"
    folder.mkdir()
    (folder / "secret.txt").write_text("secret")
    (inbox / "link.txt").symlink_to(folder / "secret.txt")
    (inbox / "linked").symlink_to(folder)
    (inbox / "loop").symlink_to(inbox / "loop")
    return folder


@pytest.mark.parametrize(
    "path",
    [
        "{outside}/secret.txt",
        "{inbox}/../inbox-not/secret.txt",
        "{inbox}/link.txt",
        "{inbox}/linked/secret.txt",
        "{inbox}/linked",
        "{inbox}/loop",
        "{inbox}/a\0b",
        "/etc/passwd",
        "/proc/self/environ",
        "/",
        "inbox/secret.txt",
        ".",
    ],
)
@pytest.mark.parametrize("kind", [FileInput, DirectoryInput])
def test_path_that_leaves_the_import_roots_is_refused(near, inbox, outside, path, kind):
    """Neither names, dots, links nor relative paths lead out; the error has its own code and nothing was added."""
    base = near.create_base(BaseInput(name="light"))
    (inbox / "fine.txt").write_text("fine")
    bad = kind(path=Path(path.format(inbox=inbox, outside=outside)))

    with pytest.raises(PathNotAllowed):
        near.add_items(base.id, [FileInput(path=inbox / "fine.txt"), bad])
    with pytest.raises(PathNotAllowed):
        near.import_base(bad.path)
    assert 0 == near.list_items(base.id).total


def test_without_import_roots_no_path_is_allowed(house, inbox):
    """The default."""
    near = Near(house, [])
    base = near.create_base(BaseInput(name="light"))
    (inbox / "fine.txt").write_text("fine")

    with pytest.raises(PathNotAllowed):
        near.add_items(base.id, [FileInput(path=inbox / "fine.txt")])
    assert 1 == len(near.add_items(base.id, [NoteInput(content="notes are no paths")]).items)


def test_link_that_stays_inside_is_fine(near, house, inbox):
    """Links are followed, then judged."""
    base = near.create_base(BaseInput(name="light"))
    (inbox / "v3.txt").write_text("third")
    (inbox / "latest.txt").symlink_to("v3.txt")

    assert "latest.txt" == near.add_items(base.id, [FileInput(path=inbox / "latest.txt")]).items[0].title


# what may be asked -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("close", {}),
        ("rt", {}),
        ("__init__", {}),
        ("no such", {}),
        ("base", {}),
        ("base", {"id_or_name": 3}),
        ("base", {"id_or_name": "b", "rt": "x"}),
        ("base", {"id_or_name": "b", "other": "x"}),
        ("create_base", {"base": {"name": "n", "chunk_size": 0}}),
        ("create_base", {"base": {"name": "n", "status": "completed"}}),
        ("add_items", {"base_id": "b", "inputs": [{"type": "url", "path": "x"}]}),
        ("add_items", {"base_id": "b", "inputs": "x"}),
        ("list_items", {"base_id": "b", "status": "happy"}),
    ],
)
def test_what_is_not_offered_or_does_not_fit_is_refused(near, operation, arguments):
    """Foreign names and shapes are a typed error, whoever sent them."""
    with pytest.raises(InvalidInput):
        near._call(operation, type(None), **arguments)


def test_answer_that_is_too_large_is_refused(near, house, monkeypatch):
    """The broker is no place for a whole directory's text; the error says so. What was done is told all the same."""
    base = near.create_base(BaseInput(name="light"))
    near.add_items(base.id, [NoteInput(content="word " * 2000)])
    house.work()
    (item,) = near.list_items(base.id).items
    monkeypatch.setattr(wire, "MAX_ANSWER_BYTES", 5_000)

    with pytest.raises(InvalidInput, match="too large"):
        near.chunks(base.id, item.id)
    monkeypatch.setattr(wire, "MAX_ANSWER_BYTES", 50)
    assert 1 == len(near.restore_base(base.id, "again", None).items)


def test_questions_change_nothing(near, house, inbox):
    """Each is answered while nothing can be written, so that an answer that is refused takes nothing back; a new one is added
    here."""
    base = near.create_base(BaseInput(name="light", embedder="hashing"))
    (inbox / "log.txt").write_text("The lamp was changed.")
    (item,) = near.add_items(base.id, [FileInput(path=inbox / "log.txt")]).items
    house.work()
    in_base = {"base_id": base.id}
    of_item = {"item_id": item.id}
    asked = {
        "base": {"id_or_name": base.id},
        "chunks": in_base | of_item,
        "coverage": in_base,
        "failures": in_base,
        "file_path": of_item,
        "find_bases": {"query": {}},
        "item": of_item,
        "job": {"job_id": house.job_of(item).id},
        "list_groups": {},
        "list_items": in_base,
        "list_jobs": {},
        "preview": of_item,
        "search": in_base | {"query": "lamp"},
        "status_counts": in_base,
        "why": of_item,
        "workers": {},
    }
    writes = raising(AssertionError("a question that writes"))
    files = dict.fromkeys(("stage_file", "stage_stream", "stage_text", "publish", "remove", "remove_base"), writes)

    assert wire.QUESTIONS == set(asked) <= wire.OPERATIONS
    assert {"search"} == wire.QUESTIONS & wire.MAY_WAIT, "it waits for an embedder; the others would wait for a base"
    with hooked(house, db={"write": writes}, locks={"base": writes}, files=files, indexes={"create": writes, "drop": writes}):
        for operation, arguments in asked.items():
            commands.answer(house.rt, operation, arguments)


# how many at once ------------------------------------------------------------------------------------------------------------

MANY = {
    ("add_items", "inputs"): {"inputs": [{"type": "note", "content": f"note {number}"} for number in range(101)]},
    ("delete_items", "item_ids"): {"item_ids": [f"id {number}" for number in range(101)]},
    ("reindex_items", "item_ids"): {"item_ids": [f"id {number}" for number in range(101)]},
    ("status_counts", "root_ids"): {"root_ids": [f"id {number}" for number in range(101)]},
    ("failures", "root_ids"): {"root_ids": [f"id {number}" for number in range(101)]},
    ("list_jobs", "statuses"): {"statuses": ["failed"] * 101},
}


def test_every_operation_that_takes_several_is_tried():
    """A new one has to be added here."""
    taking = {
        (name, parameter)
        for name in wire.OPERATIONS
        for parameter, hint in get_type_hints(getattr(KnowledgeService, name)).items()
        if parameter != "return" and "Sequence" in str(hint)
    }

    assert set(MANY) == taking


@pytest.mark.parametrize(("operation", "field"), MANY)
def test_a_hundred_and_one_are_refused_and_a_hundred_are_not(near, house, operation, field):
    """The error says which, how many there were and how many may be; nothing has been done."""
    base = near.create_base(BaseInput(name="light"))
    given = MANY[operation, field] | ({} if operation == "list_jobs" else {"base_id": base.id})

    with pytest.raises(InvalidInput) as refusal:
        near._call(operation, type(None), **given)
    assert ("invalid_input", 422) == (refusal.value.code, refusal.value.http_status)
    assert {"field": field, "given": 101, "most": 100} == refusal.value.details
    assert 0 == near.list_items(base.id).total
    with suppress(ItemNotFound):  # these ids are nobody's, and that is what is told then
        commands.answer(house.rt, operation, given | {field: given[field][:100]})


def test_more_than_a_hundred_are_waited_for_in_parts(near, house):
    """A restore has as many roots as the old base; waiting for it counts each once and misses no failure."""
    old = house.base(None)
    for start in (0, 60):
        house.add(old, *(NoteInput(content=f"note {number}") for number in range(start, start + 60)))
    house.add(old, NoteInput(content=" "))
    house.service.patch_base(old.id, BasePatch(fail_on_empty=True))
    receipt = near.restore_base(old.id, "new", None)
    house.work()

    waited = near.wait(receipt)

    assert {ItemStatus.COMPLETED: 120, ItemStatus.FAILED: 1} == waited.counts.leaves
    assert ["no_text_extracted"] == [item.error for item in waited.failures]
    assert waited.counts == house.service.status_counts(receipt.base.id)


# places for those that wait --------------------------------------------------------------------------------------------------


def test_operations_that_wait_leave_room_for_questions(monkeypatch):
    """When all places are taken the next one that may wait is refused at once; questions are not; places come back."""
    monkeypatch.setattr(commands, "_places_made", [threading.BoundedSemaphore(1)])

    with commands.waiting_place("delete_base"):
        with pytest.raises(FleetBusy), commands.waiting_place("add_items"):
            pass
        with commands.waiting_place("status_counts"):
            pass
    with commands.waiting_place("add_items"):
        pass


def test_command_whose_sender_has_gone_is_over():
    """The instant counts, in whatever zone it is written."""
    now = datetime.now(UTC)

    assert commands._is_over((now - timedelta(seconds=1)).isoformat())
    assert not commands._is_over((now + timedelta(seconds=60)).isoformat())
    assert not commands._is_over((now + timedelta(seconds=60)).replace(tzinfo=None).isoformat())
    assert not commands._is_over(None)


def test_inputs_survive_the_way():
    """Each kind of input arrives as itself."""
    wanted = [FileInput(path=Path("/a b/ü")), DirectoryInput(path=Path("/")), NoteInput(content="x", title="t")]

    assert wanted == wire.load(json.loads(json.dumps(wire.dump(wanted, list[ItemInput]))), list[ItemInput])
