"""The bad input that issue B lists, line by line: code, HTTP status, the offending ids; nothing half done.

Each way is tried in the fleet's own process and through the command surface: the same class with the same details arrives.
"""

from dataclasses import replace as changed
from functools import partial

import pytest

from knowledge.catalog import bases
from knowledge.errors import KnowledgeError
from knowledge.ingestion import replace as replacing
from knowledge.model.documents import EmbedderSpec
from knowledge.model.ids import BaseId, ItemId, new_item_id
from knowledge.model.inputs import BaseInput, BasePatch, FileInput, NoteInput, Strategy
from knowledge.model.jobs import JobStatus
from knowledge.model.status import ItemStatus
from knowledge.pipeline.indexing.registry import Embedders
from tests.near import Near
from tests.regression.faults import hooked
from tests.regression.test_bundles import pack  # noqa: F401 - a fixture


@pytest.fixture(params=["in the fleet", "through a client"])
def caller(request, house, tmp_path):
    """Who asks."""
    near = Near(house, [tmp_path])
    return near if request.param == "through a client" else house.service


@pytest.fixture
def everything(house):
    """All rows that a refused request must not change."""

    def everything():
        bases = house.service.list_bases(include_deleting=True)
        rows = [(item.id, item.status, item.error, item.updated_at) for base in bases for item in house.items(base)]
        raw = [(base.id, house.raw(base), house.staged(base)) for base in bases]
        return [changed(base, item_count=0) for base in bases], rows, [job.id for job in house.jobs()], raw

    return everything


def refused(ask):
    with pytest.raises(KnowledgeError) as refusal:
        ask()
    return refusal.value.code, refusal.value.http_status, refusal.value.details


def asks_with(caller, base, ids):
    """Every operation that takes ids of items."""
    return (
        lambda: caller.delete_items(base.id, ids),
        lambda: caller.reindex_items(base.id, ids),
    )


def test_ids_of_another_base(caller, house, base, everything):
    """All of them are named; those of this base among them are left alone."""
    mine, *_ = house.notes(base, "mine")
    other = house.base()
    theirs = house.notes(other, "one", "two")
    house.work()
    before = everything()

    for ask in asks_with(caller, base, [mine.id, theirs[0].id, theirs[1].id]):
        told = {"base_id": base.id, "item_ids": [item.id for item in theirs]}
        assert ("item_not_in_base", 404, told) == refused(ask)
    for ask in (
        lambda: caller.chunks(base.id, theirs[0].id),
        lambda: caller.list_items(base.id, group_id=theirs[0].id),
    ):
        assert ("item_not_in_base", 404, {"base_id": base.id, "item_ids": [theirs[0].id]}) == refused(ask)
    assert before == everything()


def test_stale_ids(caller, house, base, everything):
    """Of items that are gone, and that never were."""
    kept, gone = house.notes(base, "kept", "gone")
    house.work()
    house.service.delete_items(base.id, [gone.id])
    house.work()
    stale = [gone.id, new_item_id(), ItemId("no id at all")]
    before = everything()

    for ask in asks_with(caller, base, [kept.id, *stale]):
        assert ("item_not_found", 404, {"item_ids": stale}) == refused(ask)
    inside = partial(caller.list_items, base.id)
    for one in (caller.item, caller.why, caller.preview, caller.file_path, lambda stale: inside(group_id=stale)):
        assert ("item_not_found", 404, {"item_id": gone.id}) == refused(lambda one=one: one(gone.id))
    assert before == everything()


def test_a_stale_base(caller, house, base, everything):
    """Whatever is asked of a base that is gone."""
    (note,) = house.notes(base, "note")
    house.service.delete_base(base.id)
    before = everything()

    for ask in (
        *asks_with(caller, base, [note.id]),
        lambda: caller.add_items(base.id, [NoteInput(content="x")]),
        lambda: caller.reindex_interrupted(base.id),
        lambda: caller.patch_base(base.id, BasePatch(name="x")),
        lambda: caller.enable_embedder(base.id, "hashing"),
        lambda: caller.restore_base(base.id, "x", None),
        lambda: caller.delete_base(base.id),
        lambda: caller.list_items(base.id),
        lambda: caller.search(base.id, "x"),
        lambda: caller.chunks(base.id, note.id),
    ):
        code, status, _ = refused(ask)
        assert (code, status) in {("base_not_found", 404), ("item_not_found", 404)}
    assert before == everything()


def test_nested_and_doubled_selections_collapse(caller, house, root):
    """They are no mistake: the outermost are taken once, in the order given."""
    rows = {item.title: item.id for item in house.items(root.base_id)}
    chosen = [rows["c.md"], rows["inner"], rows["a.md"], rows["inner"], rows["b.md"]]

    reindexed = caller.reindex_items(root.base_id, chosen)
    house.work(hurry=True)
    deleted = caller.delete_items(root.base_id, chosen)
    house.work(hurry=True)

    assert [rows["inner"], rows["a.md"]] == list(reindexed.root_ids) == list(deleted.root_ids)
    assert ["docs"] == [item.title for item in house.items(root.base_id)]


def test_a_hundred_and_one_ids(house, base, everything, tmp_path):
    """At the edge only; see also the commands' own test of every operation."""
    house.notes(base, "note")
    before = everything()

    for ask in asks_with(Near(house, [tmp_path]), base, [new_item_id() for _ in range(101)]):
        assert ("invalid_input", 422, {"field": "item_ids", "given": 101, "most": 100}) == refused(ask)
    assert before == everything()


def test_replacing_what_is_being_indexed(caller, house, base, monkeypatch, write):
    """The old job is stopped and the new item takes its name; where another job begins meanwhile, the base is busy for now."""
    (old,) = house.add(base, write("a/x.md", "the old lighthouse"))
    run = house.claim(house.sender.waiting.popleft())
    options = changed(house.rt.options, settle_seconds=0.0)
    object.__setattr__(house.rt, "options", options)
    monkeypatch.setattr(replacing, "stop_those_in_the_way", lambda *_: None)
    monkeypatch.setattr("knowledge.ingestion.add.stop_those_in_the_way", lambda *_: None)
    again = [FileInput(path=write("b/x.md", "the new lighthouse"))]

    assert ("base_busy", 503, {"base_id": base.id}) == refused(
        lambda: caller.add_items(base.id, again, strategy=Strategy.REPLACE)
    )
    assert (ItemStatus.PROCESSING, JobStatus.RUNNING) == (house.item(old).status, house.service.job(run.job.id).status)
    assert 0 == house.staged(base)
    monkeypatch.undo()
    (new,) = caller.add_items(base.id, again, strategy=Strategy.REPLACE).items
    house.work(hurry=True)
    assert ("x.md", ItemStatus.COMPLETED, False) == (new.title, house.item(new).status, house.exists(old))


def test_reindexing_what_is_at_work(caller, house, base, everything):
    """Which rows, and how many in which status."""
    done, busy, waiting = house.notes(base, "done", "busy", "waiting")
    house.deliver(house.sender.waiting.popleft())
    before = everything()

    told = {"base_id": base.id, "statuses": {"processing": 2}, "item_ids": [busy.id, waiting.id]}
    assert ("items_unfinished", 422, told) == refused(lambda: caller.reindex_items(base.id, [done.id, busy.id, waiting.id]))
    assert before == everything()


def test_deleting_twice(caller, house, base, everything):
    """The same delete until it is done, then an id of nothing."""
    (note,) = house.notes(base, "note")
    house.work()
    first, second = caller.delete_items(base.id, [note.id]), caller.delete_items(base.id, [note.id])
    house.work()
    before = everything()

    assert [note.id] == list(first.root_ids) == list(second.root_ids)
    assert ("item_not_found", 404, {"item_ids": [note.id]}) == refused(lambda: caller.delete_items(base.id, [note.id]))
    assert before == everything()


def test_restoring_into_a_name_that_is_taken(caller, house, base, everything):
    """All bases of that name are told."""
    other = house.service.create_base(BaseInput(name="taken"))
    before = everything()

    assert ("invalid_input", 422, {"field": "name", "base_ids": [other.id]}) == refused(
        lambda: caller.restore_base(base.id, " taken ", None)
    )
    assert ("base_not_found", 404, {"base_id": "nowhere"}) == refused(
        lambda: caller.restore_base(BaseId("nowhere"), "new", None)
    )
    assert before == everything()


def test_dimensions_that_do_not_match_the_model(caller, make_house, house, base, everything):
    """A model that was declared anew: the base and both widths are told before anything is accepted."""
    (note,) = house.notes(base, "note")
    house.work()
    before = everything()
    object.__setattr__(house.rt, "embedders", Embedders([EmbedderSpec(id="hashing", kind="hashing", dimensions=48)]))

    told = {"base_id": base.id, "model": "hashing", "declared": 48, "base": 32}
    for ask in (
        lambda: caller.add_items(base.id, [NoteInput(content="x")]),
        lambda: caller.reindex_items(base.id, [note.id]),
        lambda: caller.search(base.id, "note"),
    ):
        assert ("dimension_mismatch", 409, told) == refused(ask)
    assert before == everything()


def test_dimensions_are_never_sent(house, base, tmp_path, everything):
    """They follow from the model; a client that sends them is told which field is wrong."""
    before = everything()
    near = Near(house, [tmp_path])

    for operation, given in (
        ("create_base", {"base": {"name": "x", "embedder": "hashing", "dimensions": 7}}),
        ("patch_base", {"base_id": base.id, "changes": {"embedder": "hashing", "dimensions": 7}}),
    ):
        code, status, _ = refused(lambda operation=operation, given=given: near._call(operation, type(None), **given))
        assert ("invalid_input", 422) == (code, status)
    assert before == everything()


def test_enabling_a_model_on_a_base_that_has_one(caller, make_house, house, base, everything):
    """The same one is no operation, another is not possible; the base and its model are told."""
    before = everything()

    assert ("invalid_operation", 400, {"base_id": base.id, "embedder": "hashing"}) == refused(
        lambda: caller.enable_embedder(base.id, "hashing")
    )
    assert ("invalid_input", 422, {"field": "embedder", "base_id": base.id, "embedder": "hashing"}) == refused(
        lambda: caller.enable_embedder(base.id, "another")
    )
    lexical = house.base(None)
    before = everything()
    assert ("model_not_found", 404) == refused(lambda: caller.enable_embedder(lexical.id, "nowhere"))[:2]
    assert before == everything()


def test_a_base_deleted_in_mid_import(caller, house, pack, everything):  # noqa: F811 - the fixture
    """By name it is gone; no byte, row or job of it is left."""
    made = []

    def delete(*_, **__):
        (base,) = house.service.list_bases(include_deleting=True)
        made.append(base.id)
        with house.db.write() as tx:  # what `delete_base` commits before it waits for the maker's lock
            bases.mark_deleting(tx, base.id)

    before = everything()
    with hooked(house, files={"stage_stream": delete}):
        importing = caller.import_base if isinstance(caller, Near) else house.service.import_base
        code, status, details = refused(lambda: importing(pack()))

    assert ("base_not_found", 404, {"base_id": made[0]}) == (code, status, details)
    assert before == everything()
    assert [] == house.rt.files.base_ids()
