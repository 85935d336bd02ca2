"""Requests that are refused: the typed error with its code, its HTTP status and what offends; nothing half done.

Others of their kind stand beside the behaviour that they break: ids that are not there (60), a base that failed (38, 96),
sources that are gone (80), names and models of a restore (73 to 78), the embedder of a base that has one (22, 93), bundles.
"""

import pytest

from knowledge.errors import (
    BaseNotFound,
    DimensionMismatch,
    GroupNotFound,
    InvalidInput,
    InvalidOperation,
    ItemNotFound,
    ItemsUnfinished,
    JobNotFound,
    KnowledgeError,
    ModelNotFound,
    PathNotFound,
)
from knowledge.files.local import LocalRawFiles
from knowledge.ingestion import tidy
from knowledge.model.documents import EmbedderSpec
from knowledge.model.ids import BaseId, ItemId, JobId, new_item_id
from knowledge.model.inputs import BaseInput, DirectoryInput, FileInput, NoteInput
from knowledge.model.jobs import JobStatus
from knowledge.pipeline.indexing.registry import Embedders
from tests.regression.faults import hooked


def test_any_number_of_ids_in_this_process(house, base):
    """The edge takes a hundred; a caller in the same process is not limited."""
    notes = house.add(base, *(NoteInput(content=f"note {number}") for number in range(101)))
    house.work()
    reindexed = house.service.reindex_items(base.id, [note.id for note in notes])
    house.work(hurry=True)
    deleted = house.service.delete_items(base.id, [note.id for note in notes])
    house.work()

    assert (101, 101) == (len(reindexed.root_ids), len(deleted.root_ids))
    assert [] == house.items(base)


def test_all_offending_ids_are_named(house, base):
    """Not only the first; nothing is done for the good ones."""
    (note,) = house.notes(base, "note")
    house.work()
    unknown = [new_item_id(), ItemId("stale"), ItemId("\ud800")]

    for request in (house.service.reindex_items, house.service.delete_items):
        with pytest.raises(KnowledgeError) as refusal:
            request(base.id, [note.id, *unknown[:2]])

        assert {"item_ids": unknown[:2]} == refusal.value.details
        with pytest.raises(KnowledgeError):
            request(base.id, [unknown[2]])
    assert [] == house.jobs(JobStatus.PENDING)


def test_deleting_twice(house, base):
    """Until the rows are gone it is the same delete; then there is nothing of this id."""
    (note,) = house.notes(base, "note")
    first = house.service.delete_items(base.id, [note.id])
    second = house.service.delete_items(base.id, [note.id])
    house.work()

    assert first.root_ids == second.root_ids
    with pytest.raises(ItemNotFound) as refusal:
        house.service.delete_items(base.id, [note.id])
    assert ("item_not_found", 404, {"item_ids": [note.id]}) == (
        refusal.value.code,
        refusal.value.http_status,
        refusal.value.details,
    )


def test_reindexing_what_is_at_work(house, base):
    """Told which, and in which status."""
    (note,) = house.notes(base, "note")

    with pytest.raises(ItemsUnfinished) as refusal:
        house.service.reindex_items(base.id, [note.id])

    assert ("items_unfinished", 422) == (refusal.value.code, refusal.value.http_status)
    assert ({"processing": 1}, [note.id]) == (refusal.value.details["statuses"], refusal.value.details["item_ids"])


def test_a_model_of_another_width_than_the_base(make_house):
    """Declared anew with other dimensions: work is refused before anything is accepted, and deleting still works."""
    house = make_house(EmbedderSpec(id="model", kind="hashing", dimensions=48))
    base = house.base("model")
    (note,) = house.notes(base, "note")
    house.work()
    narrower = EmbedderSpec(id="model", kind="hashing", dimensions=32)
    object.__setattr__(house.rt, "embedders", Embedders([narrower]))

    for refused in (
        lambda: house.notes(base, "another"),
        lambda: house.service.reindex_items(base.id, [note.id]),
        lambda: house.service.search(base.id, "note"),
    ):
        with pytest.raises(DimensionMismatch) as refusal:
            refused()

        assert (409, 32, 48) == (refusal.value.http_status, refusal.value.details["declared"], refusal.value.details["base"])
    house.service.delete_items(base.id, [note.id])
    house.work()
    assert [] == house.items(base)


def test_a_model_that_is_not_declared_any_more(make_house):
    """The base is not touched; its rows list, delete and restore."""
    house = make_house(EmbedderSpec(id="model", kind="hashing", dimensions=48))
    base = house.base("model")
    (note,) = house.notes(base, "the note")
    house.work()
    object.__setattr__(house.rt, "embedders", Embedders([EmbedderSpec(id="hashing", kind="hashing", dimensions=32)]))

    for refused in (
        lambda: house.notes(base, "another"),
        lambda: house.service.reindex_items(base.id, [note.id]),
        lambda: house.service.search(base.id, "note"),
        lambda: house.service.create_base(BaseInput(name="new", embedder="model")),
    ):
        with pytest.raises(ModelNotFound):
            refused()
    restored = house.service.restore_base(base.id, "restored", "hashing")
    house.work()
    assert ["the note"] == [hit.text for hit in house.service.search(restored.base.id, "note").hits]
    assert ["completed"] == [item.status for item in house.items(base)]


def test_a_base_deleted_while_bytes_are_copied_in(house, base, write):
    """The add is refused, and no byte of it stays on the disk."""
    plain = house.service

    def delete(*_, **__):
        if plain.list_bases():
            plain.delete_base(base.id)

    with hooked(house, files={"stage_file": delete}), pytest.raises(BaseNotFound):
        house.add(base, write("x.md", "x"))
    tidy.tidy(house.rt)

    assert [] == house.rt.files.base_ids()
    assert [] == house.items(base.id)


def test_recovery_removes_only_what_has_no_base(house, base, write):
    """A directory without a row goes; one with a row stays, with what is on its way in."""
    house.add(base, write("x.md", "x"))
    on_its_way = house.rt.files.stage_text(base.id, "text")
    house.rt.files.stage_text("gone", "text")

    tidy.tidy(house.rt)

    assert [base.id] == house.rt.files.base_ids()
    assert ["x.md"] == house.raw(base)
    house.rt.files.publish(on_its_way, "y.md")
    assert isinstance(house.rt.files, LocalRawFiles)


def test_a_source_that_is_not_there_names_its_path(house, base, write, docs):
    """A path that is gone, of the wrong kind, or of this installation itself; nothing of the call is accepted."""
    good = write("good.md", "good")
    for bad, kind in (
        (FileInput(path=docs / "nowhere.md"), PathNotFound),
        (FileInput(path=docs / "a\x00b"), PathNotFound),
        (FileInput(path=docs), InvalidInput),
        (DirectoryInput(path=good), InvalidInput),
        (DirectoryInput(path=house.root / "bases"), InvalidInput),
    ):
        with pytest.raises(kind) as refusal:
            house.service.add_items(base.id, [FileInput(path=good), bad])

        assert refusal.value.details["path"]
        assert 422 == refusal.value.http_status
    assert [] == house.items(base)


def test_ids_of_nothing(house):
    """Each kind has its own not-found; all are 404."""
    for ask, kind in (
        (lambda: house.service.base("nowhere"), BaseNotFound),
        (lambda: house.service.delete_base(BaseId("nowhere")), BaseNotFound),
        (lambda: house.service.item(ItemId("nowhere")), ItemNotFound),
        (lambda: house.service.why(ItemId("nowhere")), ItemNotFound),
        (lambda: house.service.preview(ItemId("nowhere")), ItemNotFound),
        (lambda: house.service.job(JobId("nowhere")), JobNotFound),
        (lambda: house.service.cancel_job(JobId("nowhere")), JobNotFound),
        (lambda: house.service.requeue_job(JobId("nowhere")), JobNotFound),
        (lambda: house.service.rename_group("nowhere", "x"), GroupNotFound),
        (lambda: house.service.delete_group("nowhere"), GroupNotFound),
        (lambda: house.service.create_base(BaseInput(name="x", group_id="nowhere")), GroupNotFound),
    ):
        with pytest.raises(kind) as refusal:
            ask()

        assert 404 == refusal.value.http_status


def test_groups_are_names_that_bases_are_shown_under(house):
    """A name is not blank; a base whose group goes is ungrouped."""
    group = house.service.create_group(" papers ")
    base = house.base(group_id=group.id)
    renamed = house.service.rename_group(group.id, "letters")

    assert ("papers", "letters") == (group.name, renamed.name)
    for blank in ("", "  "):
        with pytest.raises(InvalidInput):
            house.service.create_group(blank)
        with pytest.raises(InvalidInput):
            house.service.rename_group(group.id, blank)
    house.service.delete_group(group.id)
    assert house.service.base(base.id).group_id is None
    assert [] == house.service.list_groups()


def test_jobs_that_cannot_be_hurried_or_stopped(house, base):
    """One that runs, or has ended, is not sent again; one that waits is."""
    (note,) = house.notes(base, "note")
    job = house.job_of(note)
    house.sender.waiting.clear()
    house.service.requeue_job(job.id)
    run = house.claim(house.sender.waiting.popleft())
    with pytest.raises(InvalidOperation):
        house.service.requeue_job(job.id)
    house.service.cancel_job(job.id)

    assert house.service.job(run.job.id).cancel_requested_at is not None
